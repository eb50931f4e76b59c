"""What wakes whoever waits for new events before its interval is over: the forwarders, and whoever follows pictures."""

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any

import asyncpg

from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY
from farmiq.kit.retry import Backoff
from farmiq.outbox.announcer import CHANNEL

log = get_logger(__name__)


class Wakeup:
    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._is_forced = False

    def poke(self) -> None:
        """There may be something to send."""
        self._event.set()

    def force(self) -> None:
        """An operator wants it tried now, also where the tenant pauses."""
        self._is_forced = True
        self._event.set()

    async def wait(self, life: Lifetime, seconds: float, under_way: Collection["asyncio.Task[None]"] = ()) -> None:
        """Until poked, or `seconds`, or one of the tasks ends, or the service has to stop. What happens from now on counts
        for the next wait."""
        waiting = {asyncio.create_task(self._event.wait()), asyncio.create_task(life.stopping.wait())}
        try:
            await asyncio.wait({*waiting, *under_way}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        self._event.clear()

    def take_force(self) -> bool:
        is_forced, self._is_forced = self._is_forced, False
        return is_forced


async def listen(database_url: str, *wakeups: Wakeup, service: str) -> None:
    """Until cancelled. A database that is away costs time, not data: the interval goes on without us."""
    backoff = Backoff(base_seconds=0.5, cap_seconds=10.0)
    while True:
        try:
            await _listen_once(database_url, wakeups, service, backoff)
            log.warning("listener_disconnected")
        except RETRY as error:
            if backoff.failures == 0:
                log.warning("listener_not_connected", reason=str(error))
        await asyncio.sleep(backoff.next_seconds())


async def _listen_once(database_url: str, wakeups: Sequence[Wakeup], service: str, backoff: Backoff) -> None:
    connection = await asyncpg.connect(
        database_url, timeout=10.0, server_settings={"application_name": f"{service}-listener"}
    )
    closed = asyncio.Event()

    def heard(*_notice: Any) -> None:
        for wakeup in wakeups:
            wakeup.poke()

    try:
        connection.add_termination_listener(lambda *_connection: closed.set())
        await connection.add_listener(CHANNEL, heard)
        backoff.reset()
        heard()  # for what was announced while nobody listened
        await closed.wait()
    finally:
        with contextlib.suppress(*RETRY):
            await connection.close(timeout=2.0)
