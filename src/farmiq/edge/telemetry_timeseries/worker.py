"""Looks for aggregates that the cloud has not been told of. Any number of replicas may do so side by side."""

from typing import Final

from farmiq.edge.telemetry_timeseries.emission import emit_due
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.outbox import Announcer

LOOK_SECONDS: Final = 2.0

log = get_logger(__name__)


async def send_aggregates(life: Lifetime, pool: Pool, announcer: Announcer) -> None:
    """Until the service stops. Whatever the mode is now: what was put on the list under another one is sent as well."""
    is_running = True
    while is_running:
        try:
            taken = await emit_due(pool, life.clock.now())
        except RETRY as error:
            log.warning("aggregates_not_sent", reason=str(error) or type(error).__name__)
            taken = 0
        if taken:
            announcer.announce()
        is_running = not life.stopping.is_set() if taken else await life.pause(LOOK_SECONDS)
