"""Tells the forwarders, over NOTIFY, that there is something to send."""

import asyncio
from typing import Final

from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool

CHANNEL: Final = "sync_outbox"

log = get_logger(__name__)


class Announcer:
    """At most one NOTIFY in `quiet_seconds`, however often the process commits.

    Never inside the transaction that appends: every NOTIFY at a commit takes one lock of the whole cluster. A NOTIFY that
    gets lost costs time, not data, because forwarders also look at their interval.
    """

    def __init__(self, pool: Pool, *, quiet_seconds: float = 0.05) -> None:
        self._pool = pool
        self._quiet_seconds = quiet_seconds
        self._is_due = False
        self._sending: asyncio.Task[None] | None = None

    def announce(self) -> None:
        """Call it after the commit. The first call goes out at once; those that follow closely go out together."""
        self._is_due = True
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="outbox-announcer")

    async def close(self) -> None:
        """What has been announced goes out first. Call it before the pool is closed."""
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        while self._is_due:
            self._is_due = False
            try:
                await self._pool.execute("SELECT pg_notify($1, '')", CHANNEL)
            except RETRY as error:
                log.warning("outbox_announcement_lost", reason=str(error))
            await asyncio.sleep(self._quiet_seconds)
