"""Whose picture is next, and when to look again."""

import asyncio
import contextlib
from collections import Counter
from typing import Final

from structlog.contextvars import bound_contextvars

from farmiq.edge.sync_forwarder.answers import Refused
from farmiq.edge.sync_forwarder.pictures import store
from farmiq.edge.sync_forwarder.pictures.budget import Budget
from farmiq.edge.sync_forwarder.pictures.cloud import CloudMedia
from farmiq.edge.sync_forwarder.pictures.counters import PictureCounters
from farmiq.edge.sync_forwarder.pictures.settlement import PictureSettlement
from farmiq.edge.sync_forwarder.pictures.store import Transfer
from farmiq.edge.sync_forwarder.pictures.transfer import send
from farmiq.edge.sync_forwarder.pictures.upload import Uploader
from farmiq.edge.sync_forwarder.pictures.verdicts import Verdict
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.edge.sync_forwarder.turns import in_turn
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.kit.retry import Backoff
from farmiq.outbox.verdicts import Failure
from farmiq.outbox.wakeup import Wakeup

RENEW_SHARE: Final = 1 / 3
STOP_GRACE_SECONDS: Final = 5.0
QUIET_SECONDS: Final = 0.2

log = get_logger(__name__)


class PictureWorker:
    def __init__(
        self,
        life: Lifetime,
        pool: Pool,
        cloud: CloudMedia,
        uploader: Uploader,
        settlement: PictureSettlement,
        wakeup: Wakeup,
        settings: SyncForwarderSettings,
        counters: PictureCounters,
        *,
        instance_id: str,
    ) -> None:
        self._life = life
        self._pool = pool
        self._cloud = cloud
        self._uploader = uploader
        self._settlement = settlement
        self._wakeup = wakeup
        self._settings = settings
        self._counters = counters
        self._instance_id = instance_id
        self._budget = Budget(settings.media_sync_bytes_in_flight)
        self._last_tenant = ""
        self._sending: Counter[str] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the service is asked to stop. Returns with nothing claimed."""
        backoff = Backoff(base_seconds=0.2, cap_seconds=5.0)
        try:
            while not self._life.stopping.is_set():
                try:
                    seconds = await self._look()
                    backoff.reset()
                except RETRY as error:
                    log.warning("pictures_interrupted", reason=str(error) or type(error).__name__)
                    seconds = backoff.next_seconds()
                await self._wakeup.wait(self._life, seconds, self._under_way)
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=STOP_GRACE_SECONDS)
        finally:
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _look(self) -> float:
        """Start what can be started. Returns how long to wait, unless something happens before."""
        if self._wakeup.take_force():
            self._settlement.pauses.cut_short(self._life.clock.monotonic())
        has_moved = self._reap() > 0
        await self._settlement.rescue()
        due = await self._due()
        while self._has_room() and await self._start(due):
            has_moved = True
            due = await self._due()
        if not has_moved:
            await self._life.pause(QUIET_SECONDS)
        return self._until_due(due)

    async def _start(self, due: dict[str, float]) -> bool:
        """One picture for each tenant that has one to send. False when nobody had."""
        has_started = False
        for tenant_id in in_turn(sorted(tenant for tenant, seconds in due.items() if seconds <= 0), self._last_tenant):
            if not self._has_room():
                break
            if not self._may_send(tenant_id):
                continue
            for transfer in await self._claim(tenant_id):
                self._sending[tenant_id] += 1
                self._under_way.add(asyncio.create_task(self._carry(transfer), name=f"picture-{transfer.media_id}"))
                has_started = True
            self._last_tenant = tenant_id
        return has_started

    def _may_send(self, tenant_id: str) -> bool:
        now = self._life.clock.monotonic()
        return self._settlement.pauses.may_send(tenant_id, now, is_under_way=self._sending[tenant_id] > 0)

    async def _claim(self, tenant_id: str) -> list[Transfer]:
        # One at a time: what a replica has claimed and not begun, no other can send.
        lease_seconds = self._settings.lease_seconds
        async with self._pool.acquire() as connection:
            return await store.claim(
                connection, tenant_id, instance_id=self._instance_id, lease_seconds=lease_seconds, limit=1
            )

    async def _carry(self, transfer: Transfer) -> None:
        """Returns when the row is settled, given back or lost."""
        started = self._life.clock.monotonic()
        with bound_contextvars(
            trace_id=transfer.trace_id or transfer.media_id.hex,
            tenant_id=transfer.tenant_id,
            media_id=str(transfer.media_id),
        ):
            try:
                verdict = await self._send(transfer)
                if verdict is None:
                    self._settlement.lost()
                else:
                    await self._settlement.write_down(transfer, verdict)
            except asyncio.CancelledError:
                # Should the database be away as well, the lease ends by itself.
                with contextlib.suppress(*RETRY):
                    await self._settlement.give_back(transfer)
                raise
            finally:
                self._sending[transfer.tenant_id] -= 1
        self._counters.seconds.observe(self._life.clock.monotonic() - started)

    async def _send(self, transfer: Transfer) -> Verdict | None:
        """None when the row was taken back meanwhile: it is somebody else's to send."""
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep(transfer))
            sending = group.create_task(self._within_budget(transfer))
            await asyncio.wait({keeping, sending}, return_when=asyncio.FIRST_COMPLETED)
            keeping.cancel()
            sending.cancel()
        return None if sending.cancelled() else sending.result()

    async def _within_budget(self, transfer: Transfer) -> Verdict:
        async with self._budget.taken(transfer.source_size_bytes):
            try:
                return await send(transfer, self._cloud, self._uploader)
            except Exception as error:
                # A picture that nobody is prepared for is given up in the end, and must not end the service that sends events.
                log.exception("picture_failed_unexpectedly")
                return Refused(Failure("UNEXPECTED", f"{type(error).__name__}: {error}"))

    async def _keep(self, transfer: Transfer) -> None:
        """Renews the lease; returns when it is lost. A database that is away is no reason to stop: the row is fenced."""
        lease_seconds = self._settings.lease_seconds
        is_ours = True
        while is_ours:
            await asyncio.sleep(RENEW_SHARE * lease_seconds)
            with contextlib.suppress(*RETRY):
                async with self._pool.acquire() as connection:
                    is_ours = await store.renew(connection, transfer, lease_seconds=lease_seconds)

    async def _due(self) -> dict[str, float]:
        if not self._has_room():
            return {}
        async with self._pool.acquire() as connection:
            return await store.due_by_tenant(connection)

    def _has_room(self) -> bool:
        return len(self._under_way) < self._settings.media_sync_parallel and not self._life.stopping.is_set()

    def _reap(self) -> int:
        """Take note of the pictures that are done with. Raises what one of them could not cope with."""
        ended = [task for task in self._under_way if task.done()]
        for task in ended:
            self._under_way.discard(task)
            task.result()
        return len(ended)

    def _until_due(self, due: dict[str, float]) -> float:
        known = [seconds for seconds in due.values() if seconds > 0]
        known.append(self._settings.sync_interval_ms / 1000)
        if (pause_seconds := self._settlement.pauses.next_seconds(self._life.clock.monotonic())) is not None:
            known.append(pause_seconds)
        return max(QUIET_SECONDS, min(known))
