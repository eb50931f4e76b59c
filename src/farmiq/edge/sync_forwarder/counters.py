"""The metrics of this replica, under their documented names."""

from collections.abc import Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from farmiq.kit.metrics import sampled_gauge
from farmiq.outbox.backlog import Backlog

LATENCY_BUCKETS_MS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000)


class Counters:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._pending = Gauge("outbox_pending_total", "Rows waiting to be sent, sampled.", registry=registry)
        self._claimed = Gauge("outbox_claimed_total", "Rows that a forwarder is sending, sampled.", registry=registry)
        self._dlq = Gauge("outbox_dlq_total", "Rows that a person has to look at, sampled.", registry=registry)
        self._oldest = Gauge(
            "oldest_pending_age_seconds",
            "Age of the oldest event that the cloud does not have, sampled.",
            registry=registry,
        )
        self._sampled_at = sampled_gauge(registry)
        self._paused = Gauge(
            "farmiq_sync_tenants_paused",
            "Tenants whose last request found no cloud, by what it ran into, sampled.",
            ["code"],
            registry=registry,
        )
        self.batches_answered = Counter(
            "sync_send_success", "Requests that the cloud answered event by event.", registry=registry
        )
        self.batches_failed = Counter("sync_send_failure", "Requests that did not get that far.", registry=registry)
        self.batch_latency_ms = Histogram(
            "sync_batch_latency_ms", "From claim to settlement.", buckets=LATENCY_BUCKETS_MS, registry=registry
        )
        self.events_acked = Counter("farmiq_sync_events_acked", "Events that the cloud has.", registry=registry)
        self.events_resent = Counter(
            "farmiq_sync_events_resent",
            "Events that the cloud had and lost with a restored backup, and that go out again.",
            registry=registry,
        )
        self.events_failed = Counter("farmiq_sync_events_failed", "Attempts that the cloud refused.", registry=registry)
        self.events_held = Counter(
            "farmiq_sync_events_held",
            "Times that an event was held, because its device belongs to another edge.",
            registry=registry,
        )
        # The same name as on the bus: one alert is for all of them.
        self.dead_letters = Counter(
            "farmiq_dead_letters", "Messages or events given up, and kept for a person.", ["queue"], registry=registry
        ).labels("sync_outbox")
        self.leases_lost = Counter(
            "farmiq_sync_leases_lost", "Rows that were taken back before they were settled here.", registry=registry
        )
        self.rows_rescued = Counter(
            "farmiq_sync_rows_rescued", "Rows taken back from a forwarder whose lease was over.", registry=registry
        )

    def sampled(self, backlog: Backlog, paused_tenants: Mapping[str, int], now: datetime) -> None:
        self._pending.set(backlog.pending_count)
        self._claimed.set(backlog.claimed_count)
        self._dlq.set(backlog.dlq_count)
        self._oldest.set(backlog.oldest_pending_age_seconds)
        self._sampled_at.set(now.timestamp())
        self._paused.clear()
        for code, tenants in paused_tenants.items():
            self._paused.labels(code).set(tenants)
