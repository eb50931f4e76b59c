"""Whose turn it is, and when to look again."""

import random
from collections.abc import Sequence
from typing import Final

from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.breaker import Breaker
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.delivery import Delivery
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.edge.sync_forwarder.wakeup import Wakeup
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.kit.retry import Backoff
from farmiq.outbox.backlog import next_due_seconds
from farmiq.outbox.claim import waiting_tenants
from farmiq.outbox.recovery import promote, rescue

QUIET_SECONDS: Final = 0.2
"""The least time between two looks of which the first found nothing to do. While the cloud is away, every event that comes
in announces itself, and looking each time would only warm the box."""
PROBE_MARGIN_SECONDS: Final = 10.0

log = get_logger(__name__)


class Worker:
    def __init__(
        self,
        life: Lifetime,
        pool: Pool,
        delivery: Delivery,
        wakeup: Wakeup,
        settings: SyncForwarderSettings,
        counters: Counters,
        rng: random.Random,
    ) -> None:
        self._life = life
        self._pool = pool
        self._delivery = delivery
        self._wakeup = wakeup
        self._settings = settings
        self._counters = counters
        self._rng = rng
        self._last_tenant = ""

    async def run(self) -> None:
        """Until the service is asked to stop. Returns with nothing claimed."""
        backoff = Backoff(base_seconds=0.2, cap_seconds=5.0)
        while not self._life.stopping.is_set():
            try:
                await self._drain(is_forced=self._wakeup.take_force())
                seconds = await self._until_due()
                backoff.reset()
            except RETRY as error:
                log.warning("drain_interrupted", reason=str(error) or type(error).__name__)
                seconds = backoff.next_seconds()
            await self._wakeup.wait(self._life, seconds)

    async def _drain(self, *, is_forced: bool) -> None:
        """Round after round, one batch for each tenant, until a round moves nothing."""
        is_first = True
        while await self._round(is_forced=is_forced and is_first):
            is_first = False
        if is_first:
            await self._life.pause(QUIET_SECONDS)

    async def _round(self, *, is_forced: bool) -> bool:
        async with self._pool.acquire() as connection:
            await promote(connection)
            rescued = await rescue(connection, self._settings.retry_policy, self._rng)
            tenants = await waiting_tenants(connection)
            breakers = await store.breakers(connection, tenants)
        if rescued:
            self._counters.rows_rescued.inc(len(rescued))
            log.warning("leases_expired", events=len(rescued), instance_ids=sorted(set(rescued.values())))
        has_moved = False
        for tenant_id in in_turn(tenants, self._last_tenant):
            if self._life.stopping.is_set():
                return False
            has_moved |= await self._serve(tenant_id, breakers.get(tenant_id, Breaker()), is_forced=is_forced)
            self._last_tenant = tenant_id
        return has_moved

    async def _serve(self, tenant_id: str, breaker: Breaker, *, is_forced: bool) -> bool:
        if breaker.is_closed:
            return await self._delivery.forward(tenant_id, is_probe=False)
        if breaker.is_paused and not is_forced:
            return False
        # Long enough for one request: if this replica dies meanwhile, another one probes after it.
        seconds = self._settings.request_seconds_max + PROBE_MARGIN_SECONDS
        async with self._pool.acquire() as connection:
            if not await store.take_probe(connection, tenant_id, seconds=seconds, is_forced=is_forced):
                return False
        return await self._delivery.forward(tenant_id, is_probe=True)

    async def _until_due(self) -> float:
        async with self._pool.acquire() as connection:
            due = [await next_due_seconds(connection), await store.next_probe_seconds(connection)]
        interval_seconds = self._settings.sync_interval_ms / 1000
        return max(QUIET_SECONDS, min([interval_seconds, *(seconds for seconds in due if seconds is not None)]))


def in_turn(tenants: Sequence[str], last: str) -> list[str]:
    """Everybody once, beginning after the one that came last."""
    return [tenant for tenant in tenants if tenant > last] + [tenant for tenant in tenants if tenant <= last]
