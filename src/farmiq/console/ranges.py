"""Which time a page is about: a length up to now (`?range=24h`), or two fixed ends (`?since=&until=`) for a link that stays."""

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from farmiq.kit.http_server import ApiError

LENGTHS: Final = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "31d": timedelta(days=31),
    "1y": timedelta(days=366),
}


class TimeRange(Struct, frozen=True):
    """`name` is None when both ends are fixed."""

    since: datetime
    until: datetime
    name: str | None

    @property
    def length(self) -> timedelta:
        return self.until - self.since


def time_range(
    name: str | None, since: datetime | None, until: datetime | None, now: datetime, default: str = "24h"
) -> TimeRange:
    if since is not None or until is not None:
        upper = _aware(until or now)
        lower = _aware(since) if since is not None else upper - LENGTHS[default]
        if lower >= upper:
            raise ApiError(400, "bad_range", "The time range ends before it begins")
        return TimeRange(lower, upper, None)
    chosen = name or default
    if chosen not in LENGTHS:
        raise ApiError(400, "bad_range", f"A time range is one of {', '.join(LENGTHS)}")
    return TimeRange(now - LENGTHS[chosen], now, chosen)


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
