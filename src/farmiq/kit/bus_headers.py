"""What we write on a message when it fails, beside its own headers, which stay as they are. Pure.

A message that waited in a retry queue, or was brought back from the dead letters, comes to its queue by name. Where it was first
published is then only in these headers, and whoever reads it is shown that.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from pamqp import decode, encode

from farmiq.kit.amqp import Delivery

EXCHANGE: Final = "x-farmiq-exchange"
ROUTING_KEY: Final = "x-farmiq-routing-key"
QUEUE: Final = "x-farmiq-queue"
ATTEMPTS: Final = "x-farmiq-attempts"
REASON: Final = "x-farmiq-reason"
DETAIL: Final = "x-farmiq-detail"
FAILED_AT: Final = "x-farmiq-failed-at"
REPLAYS: Final = "x-farmiq-replays"

DETAIL_LENGTH_MAX: Final = 300

_OF_A_FAILURE: Final = frozenset({QUEUE, ATTEMPTS, REASON, DETAIL, FAILED_AT})
_DEATHS: Final = ("x-death", "x-first-death-", "x-last-death-")
# RabbitMQ shows it on every delivery, counted anew in every queue.
_DELIVERIES: Final = "x-delivery-count"


def attempts_of(headers: Mapping[str, Any]) -> int:
    """How often this message has failed. Whatever else stands there counts as never."""
    attempts = headers.get(ATTEMPTS)
    return attempts if isinstance(attempts, int) and attempts > 0 else 0


def replays_of(headers: Mapping[str, Any]) -> int:
    replays = headers.get(REPLAYS)
    return replays if isinstance(replays, int) and replays > 0 else 0


def as_first_published(delivery: Delivery) -> Delivery:
    """The delivery under the exchange and the routing key that its publisher gave it."""
    exchange, routing_key = delivery.headers.get(EXCHANGE), delivery.headers.get(ROUTING_KEY)
    if delivery.exchange or not isinstance(exchange, str) or not isinstance(routing_key, str):
        return delivery
    return msgspec.structs.replace(delivery, exchange=exchange, routing_key=routing_key)


def failed_headers(
    delivery: Delivery, *, queue: str, code: str, detail: str, attempts: int, failed_at: datetime
) -> dict[str, Any]:
    """The message's own headers, and why it failed."""
    own = {name: value for name, value in delivery.headers.items() if name != _DELIVERIES}
    return own | {
        EXCHANGE: delivery.exchange,
        ROUTING_KEY: delivery.routing_key,
        QUEUE: queue,
        ATTEMPTS: attempts,
        REASON: code,
        DETAIL: _sendable(detail),
        FAILED_AT: failed_at.isoformat(),
    }


def without_deaths(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Without what RabbitMQ notes when it moves a message.

    It takes a message that comes back to a queue which is named there for one that goes round in circles, and drops it without a
    word. Whatever is on its way back to a queue therefore starts without.
    """
    return {name: value for name, value in headers.items() if not name.startswith((*_DEATHS, _DELIVERIES))}


def replayed_headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    """As if it had never failed, but for how often a person has brought it back."""
    kept = {name: value for name, value in without_deaths(headers).items() if name not in _OF_A_FAILURE}
    return kept | {REPLAYS: replays_of(headers) + 1}


def can_be_sent(headers: Mapping[str, Any]) -> bool:
    """Other clients may put things into headers that ours can read and not write, or not write in full."""
    try:
        _, again = decode.field_table(encode.field_table(dict(headers)))
    except (TypeError, ValueError, OverflowError):
        return False
    return bool(again == headers)


def _sendable(text: str) -> str:
    whole = text.encode("utf-8", "backslashreplace").decode()
    return whole if len(whole) <= DETAIL_LENGTH_MAX else whole[: DETAIL_LENGTH_MAX - 1] + "…"
