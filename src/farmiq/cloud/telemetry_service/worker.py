"""Looks for aggregates that the bus has not been told of. Any number of replicas may do so side by side."""

from typing import Final

from prometheus_client import Counter

from farmiq.cloud.drain import Drained
from farmiq.cloud.telemetry_service.emission import PAGE_BUCKETS, tell_due
from farmiq.kit.amqp import Publisher
from farmiq.kit.errors import Transient
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool

LOOK_SECONDS: Final = 2.0
AWAY: Final[tuple[type[BaseException], ...]] = (*RETRY, Transient)

log = get_logger(__name__)


async def tell_of_aggregates(life: Lifetime, pool: Pool, publisher: Publisher, told_counter: Counter) -> None:
    """Until the service stops. Whatever the settings are now: what was put on the list under others is told as well."""
    is_running = True
    while is_running:
        try:
            told = await tell_due(pool, publisher, life.clock.now()) if publisher.is_connected else 0
            told_counter.inc(told)
        except Drained:
            told = 0  # they stay on the list until somebody resumes
        except AWAY as error:
            log.warning("aggregates_not_announced", reason=str(error) or type(error).__name__)
            told = 0
        is_running = not life.stopping.is_set() if told == PAGE_BUCKETS else await life.pause(LOOK_SECONDS)
