from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)


class PictureCounters:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting = Gauge("farmiq_media_sync_pending", "Pictures that wait to be sent, sampled.", registry=registry)
        self._given_up = Gauge(
            "farmiq_media_sync_failed", "Pictures that a person has to look at, sampled.", registry=registry
        )
        self.paused = Gauge(
            "farmiq_media_sync_tenants_paused",
            "Tenants whose pictures wait for cloud or store here.",
            registry=registry,
        )
        self.sent = Counter("farmiq_media_sync_sent", "Pictures that the cloud has.", registry=registry)
        self.sent_bytes = Counter("farmiq_media_sync_sent_bytes", "Bytes of these pictures.", registry=registry)
        self.put_off = Counter(
            "farmiq_media_sync_put_off",
            "Pictures that did not arrive, by what they ran into.",
            ["code"],
            registry=registry,
        )
        self.given_up = Counter("farmiq_media_sync_given_up", "Pictures given up.", registry=registry)
        self.leases_lost = Counter(
            "farmiq_media_sync_leases_lost",
            "Pictures that were taken back while they were sent here.",
            registry=registry,
        )
        self.seconds = Histogram(
            "farmiq_media_sync_seconds",
            "From claim to settlement of a picture.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )

    def sampled(self, counts: Mapping[str, int]) -> None:
        self._waiting.set(counts.get("pending", 0) + counts.get("sending", 0))
        self._given_up.set(counts.get("failed", 0))
