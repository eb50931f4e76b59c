"""What the entrance knows, for whoever asks where something is that the cloud took and has not stored: how much is on the bus
and for how long at most, and whose the devices are."""

from typing import Any, Final

import msgspec
from litestar import get

from farmiq.cloud.dead_letters import saved
from farmiq.cloud.ingestion.device_moves import DeviceOwner, owners
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.amqp import BusAway, Publisher
from farmiq.kit.http_server import require_bearer
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection, DatabaseAway, Pool
from farmiq.kit.work_queue import RETRY_SECONDS
from farmiq.timeseries.asking import asking
from farmiq.timeseries.parameters import AnyDevice, Tenant

IN_HAND_SECONDS: Final = 60.0 + sum(RETRY_SECONDS)
"""A queue is empty while its service has messages in hand. One that failed and is tried for the last time is so old at most."""

# The time of the database, here and below: replicas' clocks differ.
_EMPTY: Final = """
INSERT INTO empty_bus_queues AS known (service, empty_at) SELECT service, clock_timestamp() FROM unnest($1::text[]) AS service
ON CONFLICT (service) DO UPDATE SET empty_at = excluded.empty_at
"""
_SINCE_EMPTY: Final = """
SELECT service, greatest(0, extract(epoch FROM clock_timestamp() - empty_at))::float8 AS seconds FROM empty_bus_queues
"""

log = get_logger(__name__)


class BusQueue(msgspec.Struct, frozen=True):
    """Messages that nobody has in hand: `waiting` for their service, for another try (`retrying`), or for a person (`dead`).
    The last ones are in the dead-letter queue, or saved in the database. `oldest_seconds`: the others were accepted no longer
    ago, because there were none before; null as long as the queue was never seen empty."""

    service: str
    waiting: int
    retrying: int
    dead: int
    oldest_seconds: float | None = None


class BusQueues(msgspec.Struct, frozen=True):
    queues: list[BusQueue]


class DeviceOwners(msgspec.Struct, frozen=True):
    owners: list[DeviceOwner]


def bus_routes(pool: Pool, publisher: Publisher, admin_token: str) -> list[Any]:
    @get("/api/v1/bus/queues", tags=["bus"], guards=[require_bearer(admin_token)])
    async def queues() -> BusQueues:
        """What waits on the bus, by the service that empties it."""
        found = [await _depths(publisher, service) for service in WORK_QUEUES]
        try:
            async with pool.acquire() as connection:
                await _note_empty(connection, found)
                since_empty = {row["service"]: row["seconds"] for row in await connection.fetch(_SINCE_EMPTY)}
            # After the queue: a letter that moves meanwhile is seen at least once.
            dead = [one.dead + await saved.count(pool, WORK_QUEUES[one.service].dead_letter_queue) for one in found]
        except RETRY as error:
            raise DatabaseAway(f"PostgreSQL: {str(error) or type(error).__name__}") from error
        return BusQueues(
            [
                msgspec.structs.replace(one, dead=letters, oldest_seconds=_oldest(since_empty.get(one.service)))
                for one, letters in zip(found, dead, strict=True)
            ]
        )

    @get("/api/v1/device-owners", tags=["audit"], guards=[require_bearer(admin_token)])
    async def device_owners(tenant_id: Tenant, device_id: AnyDevice = None) -> DeviceOwners:
        """Which edge each device of a tenant belongs to."""
        async with asking(pool) as connection:
            return DeviceOwners(await owners(connection, device_id, tenant_id))

    return [queues, device_owners]


async def note_empty_queues(publisher: Publisher, connection: Connection) -> None:
    """Now and then, so that what is on the bus has an age also where nobody has asked before."""
    try:
        found = [await _depths(publisher, service) for service in WORK_QUEUES]
    except BusAway as error:
        log.warning("bus_queues_not_measured", reason=str(error))
        return
    await _note_empty(connection, found)


async def _depths(publisher: Publisher, service: str) -> BusQueue:
    work = WORK_QUEUES[service]
    depths = await publisher.depths(work.queue_names())
    waiting, dead = depths.pop(work.name) or 0, depths.pop(work.dead_letter_queue) or 0
    return BusQueue(service, waiting, sum(depth or 0 for depth in depths.values()), dead)


async def _note_empty(connection: Connection, queues: list[BusQueue]) -> None:
    empty = [one.service for one in queues if not one.waiting + one.retrying]
    if empty:
        await connection.execute(_EMPTY, empty)


def _oldest(seconds_since_empty: float | None) -> float | None:
    return None if seconds_since_empty is None else seconds_since_empty + IN_HAND_SECONDS
