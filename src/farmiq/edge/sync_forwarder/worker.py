"""Whose turn it is, and when to look again."""

import asyncio
import random
from typing import Final

from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.breaker import Breaker
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.delivery import Delivery
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.edge.sync_forwarder.turns import in_turn
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.kit.retry import Backoff
from farmiq.outbox.backlog import next_due_seconds
from farmiq.outbox.claim import waiting_tenants
from farmiq.outbox.floors import Floors, FullLook
from farmiq.outbox.recovery import promote, rescue
from farmiq.outbox.wakeup import Wakeup

QUIET_SECONDS: Final = 0.2
"""The least time between two looks of which the first found nothing to do. While the cloud is away, every event that comes
in announces itself, and looking each time would only warm the box."""
PROBE_MARGIN_SECONDS: Final = 10.0
AGAIN_SECONDS_MIN: Final = 0.005

log = get_logger(__name__)


class Worker:
    def __init__(
        self,
        life: Lifetime,
        pool: Pool,
        delivery: Delivery,
        floors: Floors,
        wakeup: Wakeup,
        settings: SyncForwarderSettings,
        counters: Counters,
        rng: random.Random,
    ) -> None:
        self._life = life
        self._pool = pool
        self._delivery = delivery
        self._floors = floors
        self._wakeup = wakeup
        self._settings = settings
        self._counters = counters
        self._rng = rng
        self._full_look = FullLook()
        self._was_full = False
        self._due_at = 0.0
        self._last_tenant = ""
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
                    log.warning("drain_interrupted", reason=str(error) or type(error).__name__)
                    seconds = backoff.next_seconds()
                await self._wakeup.wait(self._life, seconds, self._under_way)
            await self._finish()
        finally:
            for task in self._under_way:
                task.cancel()

    async def _look(self) -> float:
        """Start what can be started. Returns how long to wait, unless something happens before."""
        has_finished = self._reap() > 0
        has_moved = await self._round(is_forced=self._wakeup.take_force())
        while (has_moved or self._may_look_again()) and not self._life.stopping.is_set():
            has_finished |= has_moved
            has_moved = await self._round(is_forced=False)
        if not self._was_full:
            return max(AGAIN_SECONDS_MIN, self._full_look.due_in_seconds(self._life.clock.monotonic()))
        if not has_finished:
            await self._life.pause(QUIET_SECONDS)
        return self._until_due()

    def _may_look_again(self) -> bool:
        """Nothing above the floors. If the last full look found something, the rest of that may lie below them."""
        if self._was_full or not self._full_look.has_found:
            return False
        self._full_look.hurry()
        return True

    async def _round(self, *, is_forced: bool) -> bool:
        """One batch for each tenant that has something to send. False when nobody had.

        A full round asks who has, and claims from the head of the index; the others go on where the last claims ended.
        """
        began = self._life.clock.monotonic()
        self._was_full = is_forced or self._full_look.is_due(began)
        tenants = await self._ask() if self._was_full else self._floors.tenants
        spent_seconds = self._life.clock.monotonic() - began
        async with self._pool.acquire() as connection:
            breakers = await store.breakers(connection, tenants)
        has_moved = False
        for tenant_id in in_turn(tenants, self._last_tenant):
            if not await self._has_room():
                has_moved = False
                break
            began = self._life.clock.monotonic()
            has_moved |= await self._serve(tenant_id, breakers.get(tenant_id, Breaker()), is_forced=is_forced)
            spent_seconds += self._life.clock.monotonic() - began
            self._last_tenant = tenant_id
        if self._was_full:
            self._full_look.done(self._life.clock.monotonic(), spent_seconds, has_found=has_moved)
        return has_moved

    async def _ask(self) -> list[str]:
        """What may be claimed again, who has something to claim, and when to ask again."""
        async with self._pool.acquire() as connection:
            await promote(connection)
            rescued = await rescue(connection, self._settings.retry_policy, self._rng)
            tenants = await waiting_tenants(connection)
            due = [await next_due_seconds(connection), await store.next_probe_seconds(connection)]
        if rescued:
            self._counters.rows_rescued.inc(len(rescued))
            log.warning("leases_expired", events=len(rescued), instance_ids=sorted(set(rescued.values())))
        self._floors.forget_others(tenants)
        interval_seconds = self._settings.sync_interval_ms / 1000
        seconds = min([interval_seconds, *(seconds for seconds in due if seconds is not None)])
        self._due_at = self._life.clock.monotonic() + seconds
        return tenants

    async def _serve(self, tenant_id: str, breaker: Breaker, *, is_forced: bool) -> bool:
        is_probe = not breaker.is_closed
        if is_probe and not self._was_full:
            # The one probe of a pause must find what there is to send, wherever it lies.
            return False
        if is_probe and not await self._may_probe(tenant_id, breaker, is_forced=is_forced):
            return False
        events = await self._delivery.claim(tenant_id, from_head=self._was_full)
        if events and events[0].is_suspect:
            await self._until_idle()
        if events:
            sending = self._delivery.deliver(tenant_id, events, is_probe=is_probe)
            self._under_way.add(asyncio.create_task(sending, name=f"delivery-{tenant_id}"))
        if events and events[0].is_suspect:
            await self._until_idle()
        return bool(events)

    async def _until_idle(self) -> None:
        """Before and after a suspect, so that nothing else is in our hands while it is: should it end us, it alone pays."""
        while self._under_way:
            await asyncio.wait(self._under_way)
            self._reap()

    async def _may_probe(self, tenant_id: str, breaker: Breaker, *, is_forced: bool) -> bool:
        if breaker.is_paused and not is_forced:
            return False
        # Long enough for one request: if this replica dies meanwhile, another one probes after it.
        seconds = self._settings.sync_request_seconds + PROBE_MARGIN_SECONDS
        async with self._pool.acquire() as connection:
            return await store.take_probe(connection, tenant_id, seconds=seconds, is_forced=is_forced)

    async def _has_room(self) -> bool:
        """Wait until another request may set out. False when the service is asked to stop."""
        while len(self._under_way) >= self._settings.sync_requests_in_flight and not self._life.stopping.is_set():
            stopping = asyncio.create_task(self._life.stopping.wait())
            await asyncio.wait({stopping, *self._under_way}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            self._reap()
        return not self._life.stopping.is_set()

    def _reap(self) -> int:
        """Take note of the deliveries that have ended. Raises what one of them could not cope with."""
        ended = [task for task in self._under_way if task.done()]
        for task in ended:
            self._under_way.discard(task)
            task.result()
        return len(ended)

    async def _finish(self) -> None:
        """Each delivery has its own bound: it gives back what has no answer by then."""
        while self._under_way:
            await asyncio.wait(self._under_way)
            try:
                self._reap()
            except RETRY as error:
                log.warning("drain_interrupted", reason=str(error) or type(error).__name__)

    def _until_due(self) -> float:
        return max(QUIET_SECONDS, self._due_at - self._life.clock.monotonic())
