"""What has to exist on RabbitMQ before anything is published, as plain data, and how it is made.

Every queue is a durable quorum queue. What a queue refuses or gives up on goes to its dead-letter queue *at least once*:
the message leaves the queue only when the dead-letter queue has confirmed it. RabbitMQ grants that only together with
`reject-publish`, so a full queue refuses new messages (the publisher is told) instead of dropping old ones.

A queue is bound only after it has rested. RabbitMQ writes the name of a quorum queue's log to disk half a second after
it was made; killed before that, it comes back with an empty log, although it had confirmed what was in it. As nothing is
routed to a queue without bindings, nothing can be confirmed before it would survive. How old a queue is can't be asked, and a
replica that starts beside us may have made it a moment ago: so whoever binds has known the queue for as long as it takes,
also when it was there before.
"""

import asyncio
from collections.abc import Awaitable, Sequence, Set
from typing import Any

import msgspec
from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed

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
    ttl_ms: int | None = None

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
        if self.ttl_ms is not None:
            arguments["x-message-ttl"] = self.ttl_ms
        return arguments


class Binding(msgspec.Struct, frozen=True):
    exchange: str
    queue: str
    routing_key: str


class Topology(msgspec.Struct, frozen=True):
    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()
    rest_seconds: float = 1.0


class IncompatibleTopology(Fatal):
    """An exchange or a queue exists with other settings than FarmIQ needs. The message names it and what to do."""

    code = "incompatible_topology"


async def declare(channel: AbstractChannel, topology: Topology) -> None:
    """Make what is missing. What exists is left as it is: a queue with other settings is an error, never deleted.

    RabbitMQ closes the channel when it finds one, so the channel is of no further use after `IncompatibleTopology`.
    """
    for exchange in topology.exchanges:
        declaring = channel.exchange_declare(exchange.name, exchange_type=exchange.kind, durable=True)
        await _compatibly("exchange", exchange.name, declaring)
    for queue in topology.queues:
        making = channel.queue_declare(queue.name, durable=True, arguments=queue.arguments())
        await _compatibly("queue", queue.name, making)
    if topology.queues:
        await asyncio.sleep(topology.rest_seconds)
    for binding in topology.bindings:
        await channel.queue_bind(binding.queue, binding.exchange, binding.routing_key)


def routes(topology: Topology, exchange: str, routing_key: str) -> bool:
    """Whether a message published so should reach a queue."""
    if not exchange:
        return any(queue.name == routing_key for queue in topology.queues)
    words = routing_key.split(".")
    return any(
        binding.exchange == exchange and _fits(binding.routing_key.split("."), words) for binding in topology.bindings
    )


def _fits(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """A topic exchange's rule: `*` is one word, `#` any number of them."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_fits(pattern[1:], words[place:]) for place in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _fits(pattern[1:], words[1:])


def without(topology: Topology, names: Set[str]) -> Topology:
    """The same but for these exchanges and queues, and what is bound to them."""
    return msgspec.structs.replace(
        topology,
        exchanges=tuple(one for one in topology.exchanges if one.name not in names),
        queues=tuple(one for one in topology.queues if one.name not in names),
        bindings=tuple(one for one in topology.bindings if not {one.exchange, one.queue} & names),
    )


async def depth(connection: AbstractConnection, queue: str) -> int | None:
    """How many messages wait there, without those that somebody has in hand; None when there is no such queue."""
    counts = await depth_and_readers(connection, queue)
    return None if counts is None else counts[0]


async def depth_and_readers(connection: AbstractConnection, queue: str) -> tuple[int, int] | None:
    """The same, and how many consumers there are. Without any, nobody has a message in hand."""
    asking = await connection.channel()
    try:
        answer = await asking.queue_declare(queue, passive=True)
    except ChannelNotFoundEntity:
        return None  # RabbitMQ answers so by closing the channel: each question has one of its own
    await asking.close()
    return answer.message_count or 0, answer.consumer_count or 0


async def _compatibly(kind: str, name: str, making: Awaitable[object]) -> None:
    try:
        await making
    except ChannelPreconditionFailed as error:
        raise IncompatibleTopology(
            f"The {kind} {name} exists with other settings: {error}. FarmIQ never deletes one. Let its consumers empty it, "
            f"delete the {kind} (on the management page, or rabbitmqctl delete_queue), and start this service again"
        ) from error
