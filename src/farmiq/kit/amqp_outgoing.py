"""Messages on their way out: many in one write, a confirm for each.

aiormq publishes one message at a time, with a lock, a write and a wait of its own. A hundred in one write cost a quarter of that,
and what a message costs here decides how many of them the entrance takes. RabbitMQ numbers what comes in on a channel, one by
one, and confirms by that number: so whoever writes also counts, and both happen under the channel's lock.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from aiormq.abc import ChannelFrame, FrameType
from aiormq.channel import Channel
from aiormq.exceptions import ChannelInvalidStateError
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

GROUP_MESSAGES_MAX: Final = 100
GROUP_BYTES_MAX: Final = 1024 * 1024
"""A group is copied once before it is written. One message may be larger, and is then alone."""

Confirm = asyncio.Future[Any]


class Outgoing(msgspec.Struct, frozen=True):
    """`properties`: AMQP's own, under the names of `CARRIED`, in place of those that we give a message of our own."""

    exchange: str
    routing_key: str
    body: bytes
    message_id: str
    headers: dict[str, Any] = {}
    properties: dict[str, Any] = {}


def groups(messages: Sequence[Outgoing], messages_max: int) -> Iterator[list[Outgoing]]:
    """All of them in their order, no id twice in a group."""
    group: dict[str, Outgoing] = {}
    size_bytes = 0
    for message in messages:
        is_full = len(group) >= messages_max or size_bytes + len(message.body) > GROUP_BYTES_MAX
        if group and (is_full or message.message_id in group):
            yield list(group.values())
            group, size_bytes = {}, 0
        group[message.message_id] = message
        size_bytes += len(message.body)
    if group:
        yield list(group.values())


async def write(channel: Channel, group: Sequence[Outgoing], app_id: str) -> list[Confirm]:
    """Answers when the bytes have left: a future for each message, which ends as RabbitMQ's word about it does."""
    frames = [frame for message in group for frame in _frames(message, app_id, channel.max_content_size)]
    async with channel.lock:
        drained = channel.create_future()
        await _put(channel, frames, drained)
        # Nobody else runs between here and the next await, so no confirm comes before somebody waits for it.
        confirms = [_expect(channel, message.message_id) for message in group]
        await drained
    return confirms


async def answer(channel: Channel, frames: Sequence[FrameType]) -> None:
    """A consumer's words about deliveries, in one write."""
    await _put(channel, frames, None)


async def _put(channel: Channel, frames: Sequence[FrameType | ContentBody], drained: Confirm | None) -> None:
    await channel.write_queue.put(ChannelFrame.marshall(channel.number, frames, drained))
    if channel.is_closed:
        raise ChannelInvalidStateError("the channel was closed")


def _frames(message: Outgoing, app_id: str, content_bytes_max: int) -> Iterator[FrameType | ContentBody]:
    properties = Basic.Properties(
        delivery_mode=2,
        message_id=message.message_id,
        headers=message.headers,
        **{"content_type": "application/json", "app_id": app_id} | message.properties,
    )
    yield Basic.Publish(exchange=message.exchange, routing_key=message.routing_key, mandatory=True)
    yield ContentHeader(properties=properties, body_size=len(message.body))
    for start in range(0, len(message.body), content_bytes_max):
        yield ContentBody(message.body[start : start + content_bytes_max])


def _expect(channel: Channel, message_id: str) -> Confirm:
    channel.delivery_tag += 1
    tag, confirm = channel.delivery_tag, channel.create_future()
    channel.confirmations[tag] = confirm
    channel.message_id_delivery_tag[message_id] = tag
    confirm.add_done_callback(partial(_forget, channel, message_id, tag))
    return confirm


def _forget(channel: Channel, message_id: str, tag: int, _confirm: Confirm) -> None:
    if channel.message_id_delivery_tag.get(message_id) == tag:
        del channel.message_id_delivery_tag[message_id]
