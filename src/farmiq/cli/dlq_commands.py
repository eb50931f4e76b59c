"""Dead letters on RabbitMQ, and what was done with them in the cloud's database."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from farmiq.cli.cloud_bus import Bus
from farmiq.cli.connected_cloud import connected
from farmiq.cli.edge_cloud import Cloud
from farmiq.cli.terminal import person
from farmiq.cloud.dead_letters import audit, handlers
from farmiq.cloud.dead_letters.audit import Action, Asked, Kind
from farmiq.cloud.dead_letters.collection import NoSuchQueue
from farmiq.cloud.dead_letters.course import OnProgress, Result
from farmiq.cloud.dead_letters.filters import Filter
from farmiq.cloud.dead_letters.handlers import dead_letter_queue_of
from farmiq.cloud.dead_letters.pace import Pace
from farmiq.cloud.dead_letters.saved import SavedLetter
from farmiq.cloud.dead_letters.summary import Summary
from farmiq.kit.amqp import BusAway, Publisher
from farmiq.kit.amqp_channel import CONNECT_SECONDS_MAX
from farmiq.kit.amqp_inspection import connected as connected_bus
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Rejected

NAME = "farmiq-dlq"
SEEN_MAX = 1_000_000
FIXES: dict[type[Rejected], str] = {NoSuchQueue: "farmiq cloud topology apply"}


@dataclass(frozen=True)
class Place:
    bus: Bus
    cloud: Cloud


async def summaries(place: Place, services: Iterable[str]) -> list[Summary]:
    async with connected(place.cloud, "dlq", FIXES) as connection:
        return [await handlers.summarize(connection, place.bus.amqp_url, service, SEEN_MAX) for service in services]


async def letters(place: Place, services: Iterable[str], wanted: Filter, limit: int) -> list[SavedLetter]:
    shown: list[SavedLetter] = []
    async with connected(place.cloud, "dlq", FIXES) as connection:
        for service in services:
            shown += await handlers.find(
                connection, place.bus.amqp_url, service, wanted, limit=limit - len(shown), messages_max=SEEN_MAX
            )
    return shown


async def replay(place: Place, asked: Asked, per_second: float | None, on_progress: OnProgress) -> Result:
    async with connected(place.cloud, "dlq", FIXES) as connection, _publisher(place.bus) as publisher:
        return await handlers.replay(
            connection,
            place.bus.amqp_url,
            publisher,
            asked,
            seen_max=SEEN_MAX,
            pace=Pace(per_second, Clock()),
            on_progress=on_progress,
        )


async def discard(place: Place, asked: Asked, on_progress: OnProgress) -> Result:
    async with connected(place.cloud, "dlq", FIXES) as connection:
        return await handlers.discard(connection, place.bus.amqp_url, asked, seen_max=SEEN_MAX, on_progress=on_progress)


async def last_actions(place: Place, limit: int) -> list[Action]:
    async with connected(place.cloud, "dlq", FIXES) as connection:
        return await audit.actions(connection, limit)


def asked_here(
    kind: Kind, service: str, wanted: Filter, *, limit: int | None, is_dry_run: bool, note: str | None = None
) -> Asked:
    return Asked(
        kind=kind,
        service=service,
        queue=dead_letter_queue_of(service),
        wanted=wanted,
        messages_max=limit,
        is_dry_run=is_dry_run,
        asked_by=person(),
        asked_over="cli",
        note=note,
    )


@asynccontextmanager
async def _publisher(bus: Bus) -> AsyncIterator[Publisher]:
    """Without a topology: a queue that is not there any more is told, and not made.

    A publisher waits for a broker for ever; a person who has typed a command does not. So somebody knocks first.
    """
    async with connected_bus(bus.amqp_url, NAME):
        pass
    publisher = Publisher(bus.amqp_url, name=NAME)
    await publisher.start()
    try:
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await publisher.wait_connected()
        except TimeoutError as error:
            raise BusAway("RabbitMQ does not let us in") from error
        yield publisher
    finally:
        await publisher.stop()
