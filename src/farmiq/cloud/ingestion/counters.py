"""What this replica has done since it started: the metrics, and the figures of `GET /api/v1/ingestion/stats`."""

from collections import Counter as Tally
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge

from farmiq.cloud.drain import Drain
from farmiq.cloud.drain import current as current_drain
from farmiq.cloud.ingestion.device_moves import held
from farmiq.contracts.sync import EventResult
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection

HELD_NAMED_MAX: Final = 20

log = get_logger(__name__)


class Stats(Struct):
    """Since this replica started: several replicas each have their own, and a restart begins at zero."""

    since: datetime
    batches: int = 0
    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0
    held: int = 0


class Counters:
    def __init__(self, registry: CollectorRegistry, started_at: datetime) -> None:
        self.stats = Stats(started_at)
        self._drain: Drain | None = None
        self._events = Counter("farmiq_ingestion_events", "Events answered.", ["status"], registry=registry)
        self._rejected = Counter("farmiq_ingestion_events_rejected", "Events rejected.", ["code"], registry=registry)
        self.batches_deferred = Counter(
            "farmiq_ingestion_batches_deferred", "Batches that have to come again.", ["code"], registry=registry
        )

        self._drained = Gauge(
            "farmiq_ingestion_drained",
            "1 while the cloud is drained and takes no events, 0 otherwise.",
            registry=registry,
        )

        self._held = Gauge(
            "farmiq_ingestion_held_devices",
            "Devices of which an edge sends something that belongs to another edge (owner), sampled. At most 20 are named.",
            ["tenant", "device", "edge", "owner"],
            registry=registry,
        )

    async def sample(self, connection: Connection) -> None:
        await self._sample_drain(connection)
        self._held.clear()
        for one in await held(connection, limit=HELD_NAMED_MAX):
            self._held.labels(one.tenant_id, one.device_id or "unknown", one.edge_cluster_id, one.owner_edge).set(1)

    async def _sample_drain(self, connection: Connection) -> None:
        drain = await current_drain(connection)
        if drain is None and self._drain is not None:
            log.warning("intake_opened", drained_since=self._drain.begun_at.isoformat())
        if drain is not None and drain != self._drain:
            log.warning("intake_drained", since=drain.begun_at.isoformat(), by=drain.begun_by)
        self._drain = drain
        self._drained.set(drain is not None)

    def answered(self, edge_cluster_id: str, batch_id: str | None, results: Sequence[EventResult]) -> None:
        tally = Tally(result.status for result in results)
        self.stats.batches += 1
        self.stats.accepted += tally["accepted"]
        self.stats.duplicates += tally["duplicate"]
        self.stats.rejected += tally["rejected"]
        self.stats.held += tally["held"]
        for status, count in tally.items():
            self._events.labels(status).inc(count)
        log.info(
            "batch_answered", edge_cluster_id=edge_cluster_id, batch_id=batch_id, accepted=tally["accepted"],
            duplicates=tally["duplicate"], rejected=tally["rejected"], held=tally["held"],
        )  # fmt: skip
        for result in results:
            if result.status == "rejected":
                self._reject(edge_cluster_id, batch_id, result)
        for message in {result.message for result in results if result.status == "held"}:
            log.warning("events_held", edge_cluster_id=edge_cluster_id, batch_id=batch_id, reason=message)

    def _reject(self, edge_cluster_id: str, batch_id: str | None, result: EventResult) -> None:
        self._rejected.labels(result.code or "rejected").inc()
        log.warning(
            "event_rejected", edge_cluster_id=edge_cluster_id, batch_id=batch_id, event_id=str(result.event_id),
            code=result.code, reason=result.message,
        )  # fmt: skip
