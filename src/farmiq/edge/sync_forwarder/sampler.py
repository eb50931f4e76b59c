"""The backlog's gauges. Sampled, because a scrape must not read the backlog."""

from typing import Final

from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.pictures import store as pictures
from farmiq.edge.sync_forwarder.pictures.counters import PictureCounters
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.outbox.backlog import measure

SAMPLE_SECONDS: Final = 15.0
REST_FACTOR: Final = 50
"""A sample rests fifty times as long as it took: measuring a long backlog may cost the database 2 % of its time, not more."""

log = get_logger(__name__)


async def sample(life: Lifetime, pool: Pool, counters: Counters, picture_counters: PictureCounters) -> None:
    is_running = True
    while is_running:
        started = life.clock.monotonic()
        try:
            async with pool.acquire() as connection:
                counters.sampled(await measure(connection), await store.paused_tenants(connection))
                picture_counters.sampled(await pictures.counts(connection))
        except RETRY as error:
            log.warning("backlog_not_sampled", reason=str(error) or type(error).__name__)
        took_seconds = life.clock.monotonic() - started
        is_running = await life.pause(max(SAMPLE_SECONDS, REST_FACTOR * took_seconds))
