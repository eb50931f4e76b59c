"""Dead letters in the database: out of their queue in one transaction, then read in pages, then settled.

RabbitMQ has no way to look at a message without taking it, and since 4.0 a quorum queue without a delivery limit has one of 20:
a letter that was taken and returned that often is dropped. So a letter is taken once. It is acknowledged after the transaction
that saves it; killed in between, it is in both places, and its digest shows that it is the same letter.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

from farmiq.cloud.dead_letters.letters import Letter, letter_of
from farmiq.kit.amqp import Delivery
from farmiq.kit.postgres import Connection, Pool

PAGE: Final = 30
"""How many letters are in memory at a time."""

# RabbitMQ counts deliveries in headers, so they differ from one delivery of a letter to the next.
_COUNTED: Final = frozenset({"x-delivery-count", "x-acquired-count"})
_DECIMAL, _BYTE_ARRAY = 1, 2

_SAVE: Final = """
INSERT INTO dead_letters (queue, digest, message, body) VALUES ($1, $2, $3, $4) ON CONFLICT (queue, digest) DO NOTHING
"""
_COUNT: Final = "SELECT count(*) FROM dead_letters WHERE queue = $1 AND settled_at IS NULL"
_PAGE: Final = """
SELECT letter_id, message, body FROM dead_letters
WHERE queue = $1 AND settled_at IS NULL AND letter_id > $2 ORDER BY letter_id LIMIT $3
"""
_SETTLE: Final = "UPDATE dead_letters SET settled_at = now(), message = '', body = '' WHERE letter_id = ANY ($1)"


class SavedLetter(msgspec.Struct, frozen=True):
    letter_id: int
    letter: Letter
    delivery: Delivery


class _Message(msgspec.Struct, frozen=True, array_like=True):
    exchange: str
    routing_key: str
    message_id: str | None
    headers: dict[str, Any]
    properties: dict[str, Any]


async def require_writable(connection: Connection) -> None:
    """Raises what PostgreSQL raises where a row can't be written. A letter that is taken and can't be saved costs a delivery."""
    attempt = connection.transaction()
    await attempt.start()
    try:
        await connection.execute(_SAVE, "", b"", b"", b"")
    finally:
        await attempt.rollback()


async def save(connection: Connection, queue: str, deliveries: Sequence[Delivery]) -> None:
    """In one transaction: when this returns, they may be acknowledged."""
    rows = [(queue, *_packed(delivery), delivery.body) for delivery in deliveries]
    async with connection.transaction():
        await connection.executemany(_SAVE, rows)


async def count(connection: "Connection | Pool", queue: str) -> int:
    """Letters of this queue that are in the database and wait for a person."""
    return int(await connection.fetchval(_COUNT, queue))


async def pages(connection: Connection, queue: str, letters_max: int) -> AsyncIterator[list[SavedLetter]]:
    """The letters that wait, in the order in which they were saved, up to so many."""
    last, left = 0, letters_max
    while left > 0:
        rows = await connection.fetch(_PAGE, queue, last, min(PAGE, left))
        if not rows:
            return
        last, left = rows[-1]["letter_id"], left - len(rows)
        yield [_unpacked(row["letter_id"], row["message"], row["body"]) for row in rows]


async def settle(connection: Connection, letters: Sequence[SavedLetter]) -> None:
    """These are elsewhere now: in the queue of their service, or among the discarded letters."""
    await connection.execute(_SETTLE, [letter.letter_id for letter in letters])


def _packed(delivery: Delivery) -> tuple[bytes, bytes]:
    """Digest and message."""
    headers = {name: value for name, value in delivery.headers.items() if name not in _COUNTED}
    message = _encoder.encode(
        _Message(
            delivery.exchange, delivery.routing_key, delivery.message_id, _plain(headers), _plain(delivery.properties)
        )
    )
    return hashlib.sha256(len(message).to_bytes(8, "big") + message + delivery.body).digest(), message


def _unpacked(letter_id: int, packed: bytes, body: bytes) -> SavedLetter:
    message = _decoder.decode(packed)
    delivery = Delivery(
        body,
        message.exchange,
        message.routing_key,
        message.message_id,
        message.headers,
        is_redelivered=True,
        tag=0,
        connection=0,
        properties=message.properties,
    )
    return SavedLetter(letter_id, letter_of(delivery), delivery)


def _plain(value: Any) -> Any:
    """Header values of two kinds have no counterpart in MessagePack."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return Ext(_DECIMAL, str(value).encode())
    return Ext(_BYTE_ARRAY, bytes(value)) if isinstance(value, bytearray) else value


def _from_extension(code: int, data: memoryview) -> object:
    return Decimal(bytes(data).decode()) if code == _DECIMAL else bytearray(data)


_encoder: Final = Encoder(order="sorted")
_decoder: Final = Decoder(_Message, ext_hook=_from_extension)
