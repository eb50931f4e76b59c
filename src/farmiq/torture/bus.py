"""The campaign's hands on RabbitMQ: poison into a queue, how full each queue is, and what lies among the dead letters."""

import asyncio
import re
import time
from collections.abc import Sequence
from uuid import UUID

import asyncpg
from aiormq.abc import AbstractConnection
from aiormq.exceptions import PublishError
from pamqp.commands import Basic

from farmiq.cloud.dead_letters.filters import EVERYTHING
from farmiq.cloud.dead_letters.handlers import find
from farmiq.cloud.work_queues import work_queue
from farmiq.contracts import event_types
from farmiq.contracts.bus import (
    ANALYTICS_KPI_QUEUE,
    BINDINGS,
    MEDIA_STORE_QUEUE,
    TELEMETRY_INGEST_QUEUE,
    exchange_for,
)
from farmiq.kit.amqp_channel import BusAway
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.ids import new_id
from farmiq.stack.rabbitmq import NotEvaluated, RabbitMq
from farmiq.torture.ledger import BusPoison, LedgerWriter

NAME = "farmiq-torture"
POISON_SECONDS_MAX = 30.0
LETTERS_MAX = 1_000_000
CONSUMERS = {
    "cloud-telemetry-service": TELEMETRY_INGEST_QUEUE,
    "cloud-analytics-service": ANALYTICS_KPI_QUEUE,
    "cloud-media-store": MEDIA_STORE_QUEUE,
}
# Event types under which poison comes, so that it takes the way of a message of that type.
POISONED = (event_types.TELEMETRY_BATCH_INGESTED, event_types.IMAGE_CAPTURED, event_types.MEDIA_STORED)
# Asked of the queue's own state: what RabbitMQ shows elsewhere is up to five seconds old, and clients are told only of messages
# that nobody has in hand. One that waits for its confirmation among the dead letters counts too.
_COUNT = """
[case rabbit_amqqueue:lookup(rabbit_misc:r(<<"{virtual_host}">>, queue, Name)) of
   {{ok, Q}} -> case ra:leader_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1) of
                {{ok, {{_, Count}}, _}} -> {{count, Count}};
                _ -> unknown
              end;
   _ -> unknown
 end || Name <- [{names}]].
"""
_ANSWER = re.compile(r"\{count, (\d+)\}|unknown")
_POISON = re.compile(rb"\{poison ([0-9a-f-]{36})")


def services_reached(event_type: str) -> list[str]:
    exchange = exchange_for(event_type)
    queues = {one.queue for one in BINDINGS if one.exchange == exchange and fits(one.routing_key, event_type)}
    return [service for service, queue in CONSUMERS.items() if queue in queues]


def fits(pattern: str, event_type: str) -> bool:
    """Of the two kinds of pattern that our bindings have."""
    return pattern == event_type or (pattern.endswith("#") and event_type.startswith(pattern.removesuffix("#")))


class Poisoner:
    def __init__(self, amqp_url: str, ledger: LedgerWriter) -> None:
        self._amqp_url = amqp_url
        self._ledger = ledger

    async def poison(self, event_type: str) -> bool:
        """False when RabbitMQ did not confirm it: then it may be there or not."""
        poison, services = new_id(), services_reached(event_type)
        self._ledger.note(BusPoison(poison, services, is_confirmed=False))
        deadline = time.monotonic() + POISON_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                async with asyncio.timeout(10), connected(self._amqp_url, NAME) as connection:
                    await _publish(connection, event_type, poison)
            except (BusAway, PublishError, TimeoutError):
                await asyncio.sleep(0.5)
            else:
                self._ledger.note(BusPoison(poison, services, is_confirmed=True))
                return True
        return False


async def _publish(connection: AbstractConnection, event_type: str, poison: UUID) -> None:
    channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
    await channel.basic_publish(
        b"{poison " + str(poison).encode(),
        exchange=exchange_for(event_type),
        routing_key=event_type,
        mandatory=True,
        properties=Basic.Properties(delivery_mode=2, message_id=str(poison)),
    )


def waiting_queues() -> list[str]:
    """Where a message may be that somebody still has to store: the work of each service, and what waits for another try."""
    queues = [work_queue(service, queue) for service, queue in CONSUMERS.items()]
    return [name for queue in queues for name in queue.queue_names() if name != queue.dead_letter_queue]


async def depths(server: RabbitMq, queues: Sequence[str], virtual_host: str = "/") -> dict[str, int | None]:
    """How many messages each has, those that a consumer has in hand too. None: it is not there, or nobody leads it."""
    names = ", ".join(f'<<"{queue}">>' for queue in queues)
    try:
        told = await server.evaluate(_COUNT.format(virtual_host=virtual_host, names=names))
    except NotEvaluated as error:
        raise BusAway(f"RabbitMQ does not count its messages: {error}") from error
    counts = [int(found[1]) if found[1] else None for found in _ANSWER.finditer(told)]
    return dict(zip(queues, counts, strict=True))


async def dead_letters(cloud_url: str, amqp_url: str) -> list[tuple[str, UUID | None]]:
    """The poison in each dead letter of each service, None for one that is something else."""
    connection = await asyncpg.connect(cloud_url)
    try:
        return [
            (service, poison_in(one.delivery.body))
            for service in CONSUMERS
            for one in await find(
                connection, amqp_url, service, EVERYTHING, limit=LETTERS_MAX, messages_max=LETTERS_MAX
            )
        ]
    finally:
        await connection.close()


def poison_in(body: bytes) -> UUID | None:
    match = _POISON.match(body)
    return UUID(match[1].decode()) if match else None
