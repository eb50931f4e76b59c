"""Looks after sessions to which something came and those whose time is over. Any number of replicas may do so side by side."""

from typing import Final

from farmiq.edge.weighvision_session.counters import Counters
from farmiq.edge.weighvision_session.handlers import Looked, look
from farmiq.edge.weighvision_session.watch import Patience
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.outbox import Announcer

LOOK_SECONDS: Final = 0.5

log = get_logger(__name__)


async def watch_sessions(
    life: Lifetime, pool: Pool, patience: Patience, announcer: Announcer, counters: Counters
) -> None:
    """Until the service stops."""
    is_running = True
    while is_running:
        try:
            looked = await look(pool, life.clock.now(), patience)
        except RETRY as error:
            log.warning("sessions_not_looked_at", reason=str(error) or type(error).__name__)
            looked = Looked()
        counters.looked(looked)
        if looked.told:
            announcer.announce()
        is_running = not life.stopping.is_set() if looked.sessions else await life.pause(LOOK_SECONDS)
