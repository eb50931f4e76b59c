"""What has to exist on RabbitMQ before anything is published, as plain data, and how it is made.

Every queue is a durable quorum queue. What a queue refuses or gives up on goes to its dead-letter queue *at least once*:
the message leaves the queue only when the dead-letter queue has confirmed it. RabbitMQ grants that only together with
`reject-publish`, so a full queue refuses new messages (the publisher is told) instead of dropping old ones.
"""

from collections.abc import Awaitable
from typing import Any

import msgspec
from aiormq.abc import AbstractChannel
from aiormq.exceptions import ChannelPreconditionFailed

from farmiq.kit.errors import Fatal


class Exchange(msgspec.Struct, frozen=True):
    name: str
    kind: str = "topic"


class Queue(msgspec.Struct, frozen=True):
    """`delivery_limit`: how often a message may come back before it is dead-lettered.

    RabbitMQ 3.10 counts every return, also of messages that a consumer had merely prefetched when it was restarted. A low
    limit would send good messages away because of a few restarts.
    """

    name: str
    dead_letter_queue: str | None = None
    delivery_limit: int | None = None
    bytes_max: int | None = None

    def arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {"x-queue-type": "quorum", "x-overflow": "reject-publish"}
        if self.dead_letter_queue is not None:
            # Through the default exchange, where every queue is bound under its own name.
            arguments["x-dead-letter-exchange"] = ""
            arguments["x-dead-letter-routing-key"] = self.dead_letter_queue
            arguments["x-dead-letter-strategy"] = "at-least-once"
        if self.delivery_limit is not None:
            arguments["x-delivery-limit"] = self.delivery_limit
        if self.bytes_max is not None:
            arguments["x-max-length-bytes"] = self.bytes_max
        return arguments


class Binding(msgspec.Struct, frozen=True):
    exchange: str
    queue: str
    routing_key: str


class Topology(msgspec.Struct, frozen=True):
    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()


class IncompatibleTopology(Fatal):
    """An exchange or a queue exists with other settings than FarmIQ needs. The message names it and what to do."""

    code = "incompatible_topology"


async def declare(channel: AbstractChannel, topology: Topology) -> None:
    """Make what is missing. What exists is left as it is: a queue with other settings is an error, never deleted.

    RabbitMQ closes the channel when it finds one, so the channel is of no further use after `IncompatibleTopology`.
    """
    for exchange in topology.exchanges:
        making = channel.exchange_declare(exchange.name, exchange_type=exchange.kind, durable=True)
        await _compatibly("exchange", exchange.name, making)
    for queue in topology.queues:
        await _compatibly(
            "queue", queue.name, channel.queue_declare(queue.name, durable=True, arguments=queue.arguments())
        )
    for binding in topology.bindings:
        await channel.queue_bind(binding.queue, binding.exchange, binding.routing_key)


async def _compatibly(kind: str, name: str, making: Awaitable[object]) -> None:
    try:
        await making
    except ChannelPreconditionFailed as error:
        raise IncompatibleTopology(
            f"The {kind} {name} exists with other settings: {error}. FarmIQ never deletes one. Let its consumers empty it, "
            f"delete the {kind} (rabbitmqctl eval or the management page), and start this service again"
        ) from error
