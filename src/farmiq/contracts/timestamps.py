"""Points in time on the wire: RFC 3339 with an offset when they come in, always UTC once they are here."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The first and the last day of the calendar are left out: drivers take its two ends for minus and plus infinity, and a window
# that begins on the last day could not end.
EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)
Timestamp = Annotated[datetime, Meta(tz=True)]


def to_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time without a time zone means nothing on another machine")
    try:
        return value.astimezone(UTC)
    except OverflowError as overflow:
        raise ValueError("the time leaves the calendar when it is turned into UTC") from overflow


def from_us(microseconds: int) -> datetime:
    """Exact, as `datetime.fromtimestamp` is not: it goes through a float."""
    return EPOCH + timedelta(microseconds=microseconds)


def to_us(value: datetime) -> int:
    return (to_utc(value) - EPOCH) // timedelta(microseconds=1)


def keep_utc(message: Struct, *fields: str) -> None:
    """Called from `__post_init__`, which is the only moment at which a frozen message may still change."""
    for field in fields:
        value: datetime | None = getattr(message, field)
        if value is None:
            continue
        if value.tzinfo is not UTC:
            value = to_utc(value)
            force_setattr(message, field, value)
        if not EARLIEST <= value <= LATEST:
            raise ValueError(f"{field} is outside the years that can be stored")
