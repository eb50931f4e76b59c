"""Where a page ended, as text that a caller hands back unread."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta

from farmiq.contracts.telemetry import Count
from farmiq.contracts.timestamps import Timestamp

CURSOR_LENGTH_MAX = 1024

# What PostgreSQL's text can't hold must not reach it, or a question that was merely wrong would look like our failure.
Word = Annotated[str, Meta(pattern=r"^[^\x00]*\Z", max_length=64)]


class AfterReading(NamedTuple):
    at: Timestamp
    id: UUID


class AfterBucket(NamedTuple):
    at: Timestamp
    sensor: Word
    unit: Word


class AfterSeries(NamedTuple):
    device_id: Word
    metric: Word
    sensor: Word
    unit: Word


class AfterStream(NamedTuple):
    device_id: Word
    stream_id: UUID


class AfterGap(NamedTuple):
    seq: Count


class AfterLoss(NamedTuple):
    seq: Count
    event_id: UUID


class BeforeLoss(NamedTuple):
    at: Timestamp
    event_id: UUID


T = TypeVar("T", bound=tuple[Any, ...])


class BadCursor(ValueError):
    """`after` is not the `next` of an earlier page of the same question."""


def cursor(position: tuple[Any, ...]) -> str:
    return urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def position_of(text: str, kind: type[T]) -> T:
    """What `cursor` was given, or `BadCursor`."""
    try:
        position: T = msgspec.json.decode(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)), type=kind)
    except ValueError as error:
        raise BadCursor("`after` is not the `next` of an earlier page") from error
    if any(isinstance(part, datetime) and part.utcoffset() != timedelta(0) for part in position):
        raise BadCursor("`after` is not the `next` of an earlier page")
    return position
