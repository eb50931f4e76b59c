"""How much is on the bus, for whoever asks where something is that the cloud took and has not stored."""

from typing import Any

import msgspec
from litestar import get

from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.amqp import Publisher
from farmiq.kit.http_server import require_bearer


class BusQueue(msgspec.Struct, frozen=True):
    """Messages that nobody has in hand: `waiting` for their service, for another try (`retrying`), or for a person (`dead`)."""

    service: str
    waiting: int
    retrying: int
    dead: int


class BusQueues(msgspec.Struct, frozen=True):
    queues: list[BusQueue]


def bus_routes(publisher: Publisher, admin_token: str) -> list[Any]:
    @get("/api/v1/bus/queues", tags=["bus"], guards=[require_bearer(admin_token)])
    async def queues() -> BusQueues:
        """What waits on the bus, by the service that empties it."""
        found = []
        for service, work in WORK_QUEUES.items():
            depths = await publisher.depths(work.queue_names())
            waiting, dead = depths.pop(work.name) or 0, depths.pop(work.dead_letter_queue) or 0
            found.append(BusQueue(service, waiting, sum(depth or 0 for depth in depths.values()), dead))
        return BusQueues(found)

    return [queues]
