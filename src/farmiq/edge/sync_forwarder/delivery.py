"""One batch: claimed, sent, and only then settled."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from structlog.contextvars import bound_contextvars

from farmiq.edge.sync_forwarder.answers import Answer, Away, Judged, Refused
from farmiq.edge.sync_forwarder.cloud import Cloud
from farmiq.edge.sync_forwarder.cloud_epochs import KnownEpoch
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.envelopes import Sealed, batch_body, seal
from farmiq.edge.sync_forwarder.holding import Holding
from farmiq.edge.sync_forwarder.requests import Requests
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.edge.sync_forwarder.settlement import Settlement
from farmiq.kit.ids import new_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.outbox.claim import claim
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.floors import Floors
from farmiq.outbox.settle import release
from farmiq.outbox.suspects import travellers

STOP_GRACE_SECONDS: Final = 5.0
"""How long a request under way may go on when the service is asked to stop."""

BODY_BYTES_MIN: Final = 64 * 1024
"""However small the requests are that a proxy lets through, no request is cut below this on its account."""

log = get_logger(__name__)


class Delivery:
    def __init__(
        self,
        life: Lifetime,
        pool: Pool,
        cloud: Cloud,
        settings: SyncForwarderSettings,
        counters: Counters,
        settlement: Settlement,
        floors: Floors,
        *,
        instance_id: str,
    ) -> None:
        self._life = life
        self._pool = pool
        self._cloud = cloud
        self._settings = settings
        self._counters = counters
        self._settlement = settlement
        self._floors = floors
        self._instance_id = instance_id
        self._body_bytes_max = settings.sync_request_bytes_max
        self._careful: set[str] = set()

    async def claim(self, tenant_id: str, *, from_head: bool) -> list[ClaimedEvent]:
        """The tenant's next batch, or what there is of it above its floors. Whoever claims it has to `deliver` it.

        Where suspects are met, they are claimed one by one until there is somebody else: a claim of more would be given back.
        """
        size = 1 if tenant_id in self._careful else self._settings.outbox_batch_size
        events: list[ClaimedEvent] = []
        async with self._pool.acquire() as connection:
            for floor in [None] if from_head else self._floors.of(tenant_id):
                events += await claim(
                    connection,
                    tenant_id,
                    instance_id=self._instance_id,
                    limit=size - len(events),
                    lease_seconds=self._settings.lease_seconds,
                    floor=floor,
                )
                if len(events) == size:
                    break
            together = travellers(events)
            await release(connection, events[len(together) :])
        if any(event.is_suspect for event in events):
            self._careful.add(tenant_id)
        else:
            self._careful.discard(tenant_id)
        self._floors.claimed(tenant_id, together)
        return together

    async def deliver(self, tenant_id: str, events: Sequence[ClaimedEvent], *, is_probe: bool) -> None:
        """Returns when every event of the batch is settled or given back."""
        started = self._life.clock.monotonic()
        holding = Holding(self._pool, events, self._settings.lease_seconds, self._counters)
        keeping = asyncio.create_task(holding.keep(), name="lease-keeper")
        try:
            await self._send(tenant_id, holding, is_probe=is_probe)
        except BaseException:
            # Should the database be away as well, the leases end by themselves.
            with contextlib.suppress(*RETRY):
                await self._settlement.give_back(holding, holding.events)
            raise
        finally:
            keeping.cancel()
        if keeping.done():
            keeping.result()  # it ends by itself only with an error that nobody expected
        self._counters.batch_latency_ms.observe((self._life.clock.monotonic() - started) * 1000)

    async def ask_epoch(self, tenant_id: str) -> None:
        """A batch without events: its answer says which epoch of the cloud speaks, and is written down as any other."""
        batch_id = str(new_id())
        asked_under = await self._settlement.known_epoch(tenant_id)
        answer = await self._cloud.post(
            batch_body(batch_id, self._settings.edge_cluster_id, tenant_id, [], asked_under)
        )
        if isinstance(answer, Judged):
            holding = Holding(self._pool, [], self._settings.lease_seconds, self._counters)
            await self._settlement.write_down(tenant_id, batch_id, holding, [], answer, asked_under)
        else:
            log.info("epoch_question_unanswered", code=answer.failure.code, reason=answer.failure.message)

    async def _send(self, tenant_id: str, holding: Holding, *, is_probe: bool) -> None:
        await holding.mark_suspect()
        await self._settlement.park_held(holding)
        sealed, unsendable = seal(holding.events)
        if unsendable:
            await self._settlement.fail(holding, unsendable)
        requests = Requests(
            sealed, bytes_max=self._body_bytes_max, attempts_max=self._settings.retry_policy.attempts_max
        )
        is_first = True
        while (taken := requests.take()) is not None and not self._life.stopping.is_set():
            if not is_first:
                # Another request may be long after the claim: what was taken back meanwhile is not sent twice.
                await holding.check()
            is_first = False
            request = [item for item in taken if item.event.id in holding]
            if not request:
                continue
            batch_id = str(new_id())
            with bound_contextvars(batch_id=batch_id, tenant_id=tenant_id, trace_id=batch_id.replace("-", "")):
                asked_under = await self._settlement.known_epoch(tenant_id)
                answer = await self._post(tenant_id, batch_id, request, requests, holding, asked_under)
                if answer is None:
                    break
                if isinstance(answer, Away):
                    self._counters.batches_failed.inc()
                    await self._settlement.pause(tenant_id, batch_id, holding, answer, is_probe=is_probe)
                    return
                await self._settle(tenant_id, batch_id, request, requests, holding, answer, asked_under)
        await self._settlement.give_back(holding, holding.events)

    async def _settle(
        self,
        tenant_id: str,
        batch_id: str,
        request: Sequence[Sealed],
        requests: Requests,
        holding: Holding,
        answer: Refused | Judged,
        asked_under: KnownEpoch,
    ) -> None:
        if isinstance(answer, Judged):
            judged: Sequence[Sealed] = request
            requests.answered()
            self._counters.batches_answered.inc()
        else:
            judged = requests.refused(request, answer)
            self._counters.batches_failed.inc()
            self._note_refusal(request, judged, answer)
        if judged:
            events = [item.event for item in judged]
            await self._settlement.write_down(tenant_id, batch_id, holding, events, answer, asked_under)
        if isinstance(answer, Judged):
            log.info("batch_answered", events=len(request))

    async def _post(
        self,
        tenant_id: str,
        batch_id: str,
        request: Sequence[Sealed],
        requests: Requests,
        holding: Holding,
        asked_under: KnownEpoch,
    ) -> Answer | None:
        """The cloud's answer, or None when the service has to stop before there is one."""
        body = batch_body(batch_id, self._settings.edge_cluster_id, tenant_id, request, asked_under)
        posting = asyncio.create_task(self._cloud.post(body))
        stopping = asyncio.create_task(self._life.stopping.wait())
        try:
            await asyncio.wait({posting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not posting.done():
                # What waits behind this request is another replica's at once, not after the grace.
                await self._settlement.give_back(holding, [item.event for item in requests.left])
                await asyncio.wait({posting}, timeout=STOP_GRACE_SECONDS)
            return posting.result() if posting.done() else None
        finally:
            posting.cancel()
            stopping.cancel()

    def _note_refusal(self, request: Sequence[Sealed], judged: Sequence[Sealed], answer: Refused) -> None:
        if answer.is_too_large and len(request) > 1:
            # Whatever stands in between will say the same again: the next requests are smaller from the start.
            size = sum(len(item.body) for item in request)
            self._body_bytes_max = max(BODY_BYTES_MIN, min(self._body_bytes_max, size // 2))
        log.warning(
            "batch_refused",
            events=len(request),
            charged=len(judged),
            code=answer.failure.code,
            reason=answer.failure.message,
        )
