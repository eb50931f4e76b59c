"""Times and amounts of a spool as a person reads them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def wall_time(wall_us: int) -> str:
    """RFC 3339 with all microseconds. A clock that was set wrong enough gives a time that no calendar has."""
    try:
        moment = _EPOCH + timedelta(microseconds=wall_us)
    except OverflowError:
        return f"{wall_us} us"
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def wall_time_or_none(wall_us: int | None) -> str | None:
    return None if wall_us is None else wall_time(wall_us)


def size(count_bytes: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count_bytes >= factor:
            return f"{count_bytes / factor:.1f} {unit}"
    return f"{count_bytes} B"


def samples(count: int) -> str:
    return f"{count:,} sample" if count == 1 else f"{count:,} samples"
