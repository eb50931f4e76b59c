"""What is written on a dead letter. Pure, and content with whatever is there: these are messages that nobody could use."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from farmiq.kit import bus_headers
from farmiq.kit.amqp import Delivery, Outgoing
from farmiq.kit.ids import new_id

UNKNOWN: Final = "unknown"


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is a code of ours, or what RabbitMQ says when it moved the message by itself (`delivery_limit`, `rejected`)."""

    message_id: str | None
    reason: str
    detail: str
    failed_at: datetime | None
    attempts: int
    replays: int
    exchange: str
    routing_key: str
    event_type: str
    event_id: str | None
    tenant_id: str | None
    device_id: str | None = None
    trace_id: str | None
    body_bytes: int


class _Peek(msgspec.Struct, frozen=True):
    event_id: Any = None
    event_type: Any = None
    tenant_id: Any = None
    device_id: Any = None
    trace_id: Any = None


def letter_of(delivery: Delivery) -> Letter:
    headers, death, peek = delivery.headers, _last_death(delivery.headers), _peek(delivery.body)
    routing_key = _first_text(headers.get(bus_headers.ROUTING_KEY), *_texts(death.get("routing-keys"))) or UNKNOWN
    return Letter(
        message_id=delivery.message_id,
        reason=_first_text(headers.get(bus_headers.REASON), death.get("reason")) or UNKNOWN,
        detail=_first_text(headers.get(bus_headers.DETAIL)) or "",
        failed_at=_moment(headers.get(bus_headers.FAILED_AT)) or _moment(death.get("time")),
        attempts=bus_headers.attempts_of(headers),
        replays=bus_headers.replays_of(headers),
        exchange=_first_text(headers.get(bus_headers.EXCHANGE), death.get("exchange")) or "",
        routing_key=routing_key,
        event_type=_first_text(peek.event_type) or routing_key,
        event_id=_first_text(peek.event_id),
        tenant_id=_first_text(peek.tenant_id),
        device_id=_first_text(peek.device_id),
        trace_id=_first_text(peek.trace_id, headers.get("x-trace-id")),
        body_bytes=len(delivery.body),
    )


def replayed(delivery: Delivery, queue: str) -> Outgoing | None:
    """The message as it was before it failed, on its way to `queue`. None when our client can't write its headers."""
    letter = letter_of(delivery)
    headers = bus_headers.replayed_headers(delivery.headers)
    headers |= {bus_headers.EXCHANGE: letter.exchange, bus_headers.ROUTING_KEY: letter.routing_key}
    if not bus_headers.can_be_sent(headers):
        return None
    return Outgoing("", queue, delivery.body, delivery.message_id or str(new_id()), headers, delivery.properties)


def _peek(body: bytes) -> _Peek:
    try:
        return msgspec.json.decode(body, type=_Peek)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Peek()


def _last_death(headers: Mapping[str, Any]) -> Mapping[str, Any]:
    """RabbitMQ writes the latest first."""
    deaths = headers.get("x-death")
    latest = deaths[0] if isinstance(deaths, list) and deaths else None
    return latest if isinstance(latest, dict) else {}


def _first_text(*values: object) -> str | None:
    return next((value for value in values if isinstance(value, str) and value), None)


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _moment(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
