"""The campaign's hands on RabbitMQ: poison into a queue, how full each queue is, and what lies among the dead letters."""

import asyncio
import re
import time
from uuid import UUID

from aiormq.abc import AbstractConnection
from pamqp.commands import Basic

from farmiq.contracts.bus import dlq_for
from farmiq.kit.amqp_channel import BusAway
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.amqp_topology import depth
from farmiq.kit.ids import new_id
from farmiq.torture.ledger import BusPoison, LedgerWriter

NAME = "farmiq-torture"
POISON_SECONDS_MAX = 30.0
CONSUMERS = ("cloud-telemetry-service", "cloud-analytics-service", "cloud-media-store")
_POISON = re.compile(rb"\{poison ([0-9a-f-]{36})")


class Poisoner:
    def __init__(self, amqp_url: str, ledger: LedgerWriter) -> None:
        self._amqp_url = amqp_url
        self._ledger = ledger

    async def poison(self, queue: str) -> bool:
        """False when RabbitMQ did not confirm it: then it may be there or not."""
        poison = new_id()
        self._ledger.note(BusPoison(poison, queue, is_confirmed=False))
        deadline = time.monotonic() + POISON_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                async with asyncio.timeout(10), connected(self._amqp_url, NAME) as connection:
                    await _publish(connection, queue, poison)
            except (BusAway, TimeoutError):
                await asyncio.sleep(0.5)
            else:
                self._ledger.note(BusPoison(poison, queue, is_confirmed=True))
                return True
        return False


async def _publish(connection: AbstractConnection, queue: str, poison: UUID) -> None:
    channel = await connection.channel(publisher_confirms=True)
    body = b"{poison " + str(poison).encode()
    await channel.basic_publish(body, routing_key=queue, mandatory=True, properties=Basic.Properties(delivery_mode=2))


async def depths(amqp_url: str, queues: tuple[str, ...]) -> dict[str, int]:
    async with connected(amqp_url, NAME) as connection:
        return {queue: await depth(connection, queue) or 0 for queue in queues}


async def dead_letters(amqp_url: str) -> list[UUID | None]:
    """The poison in each dead letter, None for one that is something else. They stay where they are."""
    found = []
    async with connected(amqp_url, NAME) as connection:
        for service in CONSUMERS:
            channel = await connection.channel()  # closed without an answer, it puts back what it took
            while True:
                message = await channel.basic_get(dlq_for(service))
                if isinstance(message.delivery, Basic.GetEmpty):
                    break
                found.append(poison_in(message.body))
            await channel.close()
    return found


def poison_in(body: bytes) -> UUID | None:
    match = _POISON.match(body)
    return UUID(match[1].decode()) if match else None
