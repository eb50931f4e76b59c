"""One batch: claimed, sent, and only then settled."""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from structlog.contextvars import bound_contextvars

from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.answers import Answer, Away, Judged, Refused, outcomes
from farmiq.edge.sync_forwarder.breaker import pause_seconds
from farmiq.edge.sync_forwarder.cloud import Cloud
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.envelopes import Sealed, batch_body, seal, split
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.kit.ids import new_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.outbox.claim import claim
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.settle import release, settle
from farmiq.outbox.verdicts import Failure, Outcome, failed

STOP_GRACE_SECONDS: Final = 5.0
"""How long a request under way may go on when the service is asked to stop."""

SHOWN_IDS: Final = 10

log = get_logger(__name__)


class Delivery:
    def __init__(
        self,
        life: Lifetime,
        pool: Pool,
        cloud: Cloud,
        settings: SyncForwarderSettings,
        counters: Counters,
        *,
        instance_id: str,
        rng: random.Random,
    ) -> None:
        self._life = life
        self._pool = pool
        self._cloud = cloud
        self._settings = settings
        self._counters = counters
        self._instance_id = instance_id
        self._rng = rng

    async def forward(self, tenant_id: str, *, is_probe: bool) -> bool:
        """Send the tenant's next batch. False when there was nothing to claim."""
        started = self._life.clock.monotonic()
        async with self._pool.acquire() as connection:
            events = await claim(
                connection,
                tenant_id,
                instance_id=self._instance_id,
                limit=self._settings.outbox_batch_size,
                lease_seconds=self._settings.outbox_lease_seconds,
            )
        if not events:
            return False
        try:
            await self._send(tenant_id, events, started, is_probe=is_probe)
        except BaseException:
            # What has been settled already is fenced off. Should the database be away as well, the leases end by themselves.
            with contextlib.suppress(*RETRY):
                await self._give_back(events)
            raise
        self._counters.batch_latency_ms.observe((self._life.clock.monotonic() - started) * 1000)
        return True

    async def _send(self, tenant_id: str, events: Sequence[ClaimedEvent], claimed_at: float, *, is_probe: bool) -> None:
        sealed, unsendable = seal(events)
        if unsendable:
            await self._fail(unsendable)
        requests = list(split(sealed))
        for number, request in enumerate(requests):
            unsent = [item.event for run in requests[number:] for item in run]
            if number and self._life.clock.monotonic() - claimed_at > 0.5 * self._settings.outbox_lease_seconds:
                # Another request might outlive the lease. Claimed again, these begin with a whole one.
                await self._give_back(unsent)
                return
            batch_id = str(new_id())
            with bound_contextvars(batch_id=batch_id, tenant_id=tenant_id, trace_id=batch_id.replace("-", "")):
                answer = await self._post(tenant_id, batch_id, request)
                if isinstance(answer, Refused | Judged):
                    await self._write_down(tenant_id, batch_id, request, answer)
                    continue
                if answer is None:
                    await self._give_back(unsent)
                else:
                    await self._pause(tenant_id, batch_id, unsent, answer, is_probe=is_probe)
                return

    async def _post(self, tenant_id: str, batch_id: str, request: Sequence[Sealed]) -> Answer | None:
        """The cloud's answer, or None when the service has to stop before there is one."""
        body = batch_body(batch_id, self._settings.edge_cluster_id, tenant_id, request)
        posting = asyncio.create_task(self._cloud.post(body))
        stopping = asyncio.create_task(self._life.stopping.wait())
        try:
            await asyncio.wait({posting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({posting}, timeout=STOP_GRACE_SECONDS)
            return posting.result() if posting.done() else None
        finally:
            posting.cancel()
            stopping.cancel()

    async def _write_down(
        self, tenant_id: str, batch_id: str, request: Sequence[Sealed], answer: Refused | Judged
    ) -> None:
        results = outcomes([item.event for item in request], answer, self._settings.retry_policy, self._rng.random)
        acked_ids = [outcome.lease.id for outcome in results if outcome.status == "acked"]
        failures = [outcome.failure for outcome in results if outcome.failure]
        async with self._pool.acquire() as connection, connection.transaction():
            settled = await settle(connection, results)
            await store.record_answer(
                connection,
                tenant_id,
                batch_id=batch_id,
                last_acked_id=acked_ids[-1] if acked_ids else None,
                error_code=failures[-1].code if failures else None,
            )
        self._note(results, settled)
        if isinstance(answer, Judged):
            self._counters.batches_answered.inc()
            log.info("batch_answered", acked=len(acked_ids), failed=len(failures))
        else:
            self._counters.batches_failed.inc()
            log.warning("batch_refused", events=len(results), code=answer.failure.code, reason=answer.failure.message)

    async def _fail(self, unsendable: Sequence[tuple[ClaimedEvent, Failure]]) -> None:
        policy = self._settings.retry_policy
        results = [failed(event, failure, policy, self._rng.random()) for event, failure in unsendable]
        async with self._pool.acquire() as connection:
            settled = await settle(connection, results)
        self._note(results, settled)

    async def _pause(
        self, tenant_id: str, batch_id: str, unsent: Sequence[ClaimedEvent], away: Away, *, is_probe: bool
    ) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            breaker = await store.lock_breaker(connection, tenant_id)
            # Replicas that were all sending when the link went down have seen one failure, not several.
            failures = breaker.consecutive_failures + (1 if is_probe or not breaker.is_paused else 0)
            seconds = pause_seconds(
                failures, away.retry_after_seconds, self._settings.pause_cap_seconds, self._rng.random()
            )
            await store.record_pause(
                connection,
                tenant_id,
                consecutive_failures=failures,
                seconds=seconds,
                batch_id=batch_id,
                error_code=away.failure.code,
                is_probe=is_probe,
            )
            await release(connection, unsent, away.failure)
        self._counters.batches_failed.inc()
        say = log.error if away.needs_person else log.warning
        say(
            "batch_deferred",
            events=len(unsent),
            code=away.failure.code,
            reason=away.failure.message,
            consecutive_failures=failures,
            pause_seconds=round(seconds, 1),
        )

    async def _give_back(self, events: Sequence[ClaimedEvent]) -> None:
        async with self._pool.acquire() as connection:
            released = await release(connection, events)
        log.info("claims_given_back", events=len(released))

    def _note(self, results: Sequence[Outcome], settled: set[UUID]) -> None:
        lost = [str(outcome.lease.id) for outcome in results if outcome.lease.id not in settled]
        if lost:
            self._counters.leases_lost.inc(len(lost))
            log.warning("leases_lost", events=len(lost), event_ids=lost[:SHOWN_IDS])
        ours = [outcome for outcome in results if outcome.lease.id in settled]
        self._counters.events_acked.inc(sum(outcome.status == "acked" for outcome in ours))
        self._counters.events_failed.inc(sum(outcome.status != "acked" for outcome in ours))
        dead = [outcome for outcome in ours if outcome.status == "dlq"]
        if dead:
            self._counters.events_dead_lettered.inc(len(dead))
            ids = [str(outcome.lease.id) for outcome in dead[:SHOWN_IDS]]
            codes = sorted({outcome.failure.code for outcome in dead if outcome.failure})
            log.error("events_dead_lettered", events=len(dead), event_ids=ids, codes=codes)
