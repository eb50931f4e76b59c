"""What the metrics of this service show. How many pictures wait is looked up now and then, not at every scrape."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from farmiq.cloud.media_store import store
from farmiq.kit.bus_metrics import BusMetrics
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool

LOOK_SECONDS: Final = 30.0
WAITING_STATES: Final = ("announced", "missing")

log = get_logger(__name__)


class Counters(BusMetrics):
    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.presigned = Counter("farmiq_cloud_media_presigned", "Times an edge was given a URL.", registry=registry)
        self.stored = Counter(
            "farmiq_cloud_media_stored", "Pictures whose bytes were compared and are stored.", registry=registry
        )
        self.refused = Counter(
            "farmiq_cloud_media_refused", "Uploads that were not taken.", ["code"], registry=registry
        )
        self.contradicted = Counter(
            "farmiq_cloud_media_contradicted",
            "Pictures announced with another checksum than was sent.",
            registry=registry,
        )
        self.thumbnails = Counter(
            "farmiq_cloud_media_thumbnails", "Thumbnails asked for.", ["outcome"], registry=registry
        )
        self.waiting = Gauge(
            "farmiq_cloud_media_waiting_pictures",
            "Pictures that are announced or missing, and not here.",
            ["state"],
            registry=registry,
        )
        self.waiting_since = Gauge(
            "farmiq_cloud_media_waiting_oldest_seconds",
            "For how long the oldest of them.",
            ["state"],
            registry=registry,
        )


async def watch_waiting(life: Lifetime, pool: Pool, counters: Counters) -> None:
    """Until cancelled. A database that is away leaves what was seen last."""
    while True:
        try:
            async with pool.acquire() as connection:
                seen = {one.state: one for one in await store.waiting(connection)}
        except RETRY as error:
            log.warning("waiting_pictures_not_counted", reason=str(error) or type(error).__name__)
        else:
            for state in WAITING_STATES:
                found = seen.get(state)
                seconds = (life.clock.now() - found.since).total_seconds() if found else 0.0
                counters.waiting.labels(state).set(found.pictures if found else 0)
                counters.waiting_since.labels(state).set(max(0.0, seconds))
        if not await life.pause(LOOK_SECONDS):
            return
