"""How much is on the bus, for whoever asks where something is that the cloud took and has not stored."""

from typing import Any

import msgspec
from litestar import get

from farmiq.cloud.dead_letters import saved
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.amqp import Publisher
from farmiq.kit.http_server import require_bearer
from farmiq.kit.postgres import RETRY, DatabaseAway, Pool


class BusQueue(msgspec.Struct, frozen=True):
    """Messages that nobody has in hand: `waiting` for their service, for another try (`retrying`), or for a person (`dead`).
    The last ones are in the dead-letter queue, or saved in the database."""

    service: str
    waiting: int
    retrying: int
    dead: int


class BusQueues(msgspec.Struct, frozen=True):
    queues: list[BusQueue]


def bus_routes(pool: Pool, publisher: Publisher, admin_token: str) -> list[Any]:
    @get("/api/v1/bus/queues", tags=["bus"], guards=[require_bearer(admin_token)])
    async def queues() -> BusQueues:
        """What waits on the bus, by the service that empties it."""
        found = []
        for service, work in WORK_QUEUES.items():
            depths = await publisher.depths(work.queue_names())
            waiting, dead = depths.pop(work.name) or 0, depths.pop(work.dead_letter_queue) or 0
            # After the queue: a letter that moves meanwhile is seen at least once.
            dead += await _saved(pool, work.dead_letter_queue)
            found.append(BusQueue(service, waiting, sum(depth or 0 for depth in depths.values()), dead))
        return BusQueues(found)

    return [queues]


async def _saved(pool: Pool, queue: str) -> int:
    try:
        return await saved.count(pool, queue)
    except RETRY as error:
        raise DatabaseAway(f"PostgreSQL: {str(error) or type(error).__name__}") from error
