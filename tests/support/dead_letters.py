"""A dead-letter queue of a real service, filled as its worker fills it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from farmiq.cloud.dead_letters import saved
from farmiq.cloud.dead_letters.audit import Asked, Kind
from farmiq.cloud.dead_letters.filters import Filter
from farmiq.cloud.topology import WORK_QUEUES, topology
from farmiq.kit.amqp import Delivery, Outgoing, Publisher
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.amqp_topology import Queue, Topology, declare
from farmiq.kit.bus_headers import failed_headers
from farmiq.kit.postgres import Pool
from support.bus_queue import take_messages
from support.bus_work import publishing

SERVICE = "cloud-telemetry-service"
QUEUE = WORK_QUEUES[SERVICE].name
DEAD_LETTERS = WORK_QUEUES[SERVICE].dead_letter_queue
ALL = 1_000_000
AT = datetime(2026, 1, 1, 10, tzinfo=UTC)


async def make_topology(amqp_url: str) -> None:
    async with connected(amqp_url, "test") as connection:
        await declare(await connection.channel(), msgspec.structs.replace(topology(), rest_seconds=0.0))


@asynccontextmanager
async def filled(amqp_url: str, *letters: Outgoing) -> AsyncIterator[Publisher]:
    """The whole topology, with these in the dead-letter queue."""
    await make_topology(amqp_url)
    queue = msgspec.structs.replace(WORK_QUEUES[SERVICE], rest_seconds=0.0)
    async with publishing(amqp_url, queue) as publisher:
        for first in range(0, len(letters), 500):
            part = letters[first : first + 500]
            assert await publisher.publish_many(part) == [None] * len(part)
        yield publisher


def letter(number: int, reason: str = "schema", tenant_id: str = "demo", body: bytes = b"", **headers: Any) -> Outgoing:
    """The number is in its id, and in how many minutes after `AT` it failed."""
    event = {"event_id": f"e-{number}", "event_type": "telemetry.ingested", "tenant_id": tenant_id, "payload": {}}
    data = body or msgspec.json.encode(event)
    original = Delivery(
        data,
        "farmiq.telemetry.exchange",
        "telemetry.ingested",
        f"m-{number}",
        {"x-trace-id": "t-1"} | headers,
        False,
        1,
        1,
    )
    told = failed_headers(
        original, queue=QUEUE, code=reason, detail="for a test", attempts=1, failed_at=AT + timedelta(minutes=number)
    )
    return Outgoing("", DEAD_LETTERS, data, f"m-{number}", told)


def asked(
    kind: Kind, wanted: Filter | None = None, *, messages_max: int | None = None, is_dry_run: bool = False
) -> Asked:
    return Asked(
        kind=kind,
        service=SERVICE,
        queue=DEAD_LETTERS,
        wanted=wanted or Filter(),
        messages_max=messages_max,
        is_dry_run=is_dry_run,
        asked_by="ann@barn",
        asked_over="cli",
    )


async def ids_in(amqp_url: str, queue: str) -> list[str]:
    """The ids of what waits there, in order, taken out of the queue."""
    return [str(message.header.properties.message_id) for message in await take_messages(amqp_url, queue)]


async def waiting_ids(pool: Pool, amqp_url: str) -> list[str]:
    """The ids of the letters that wait for a person: those that were looked at are in the database, the others in their queue.
    What is in the queue is taken out of it."""
    async with pool.acquire() as connection:
        pages = [page async for page in saved.pages(connection, DEAD_LETTERS, ALL)]
    return [str(one.letter.message_id) for page in pages for one in page] + await ids_in(amqp_url, DEAD_LETTERS)


@asynccontextmanager
async def filled_queue(
    amqp_url: str, *letters: Outgoing, delivery_limit: int | None = None
) -> AsyncIterator[Publisher]:
    """The dead-letter queue alone, as it would be under a delivery limit."""
    async with connected(amqp_url, "test") as connection:
        await declare(
            await connection.channel(), Topology(queues=(Queue(DEAD_LETTERS, delivery_limit=delivery_limit),))
        )
    publisher = Publisher(amqp_url, name="test")
    await publisher.start()
    try:
        await asyncio.wait_for(publisher.wait_connected(), 20)
        assert await publisher.publish_many(letters) == [None] * len(letters)
        yield publisher
    finally:
        await publisher.stop()


def numbered(numbers: Sequence[int]) -> list[str]:
    return [f"m-{number}" for number in numbers]
