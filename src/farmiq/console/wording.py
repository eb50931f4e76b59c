"""Numbers and times as people read them. Used by every template as filters."""

from datetime import UTC, datetime, timedelta
from typing import Final

from markupsafe import Markup, escape

UNKNOWN: Final = "\u2013"
"""What stands where a number is not known, which is not the same as 0."""

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


def count(value: float | None) -> str:
    """12,345."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def compact(value: float | None) -> str:
    """950, 3.6k, 36k, 1.2M: for places that have room for four signs."""
    if value is None:
        return UNKNOWN
    for unit, size_of in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size_of:
            # Cut, never rounded up: 999,999 is not a million.
            tenths = int(value / size_of * 10)
            return f"{tenths // 10}{unit}" if tenths >= 100 else f"{tenths / 10:.1f}{unit}"
    return f"{value:.0f}"


def decimal(value: float | None, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """Never 100 % when something is missing, however little."""
    if value is None:
        return UNKNOWN
    shown = f"{value:.2f}"
    return f"{'99.99' if shown == '100.00' and value < 100 else shown} %"


def size(bytes_: float | None) -> str:
    if bytes_ is None:
        return UNKNOWN
    value = float(bytes_)
    for unit in _UNITS:
        if abs(value) < 1000 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("the loop has returned")


def duration(seconds: float | timedelta | None) -> str:
    """The largest two units: 3 d 4 h, 12 min, 0.4 s."""
    if seconds is None:
        return UNKNOWN
    total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if total < 10:
        return f"{max(total, 0.0):.1f} s"
    if total < 90:
        return f"{total:.0f} s"
    minutes = round(total / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def when(at: datetime | None) -> Markup:
    """A time element: in UTC for everybody, and the browser adds how long ago that is."""
    if at is None:
        return escape(UNKNOWN)
    stamp = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        escape(stamp.isoformat(timespec="milliseconds")), stamp.strftime("%Y-%m-%d %H:%M:%S")
    )


FILTERS: Final = {
    "count": count,
    "compact": compact,
    "decimal": decimal,
    "percent": percent,
    "size": size,
    "duration": duration,
    "when": when,
}
