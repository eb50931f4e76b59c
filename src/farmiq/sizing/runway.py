"""How long a disk lasts while the next tier is away. Pure."""

from typing import Final

import msgspec

from farmiq.sizing import measured
from farmiq.sizing.farm import DAY_SECONDS, Farm
from farmiq.sizing.sizes import edge_bytes, spool_bytes_per_second

LONGEST_SECONDS: Final = 3650.0 * DAY_SECONDS
"""Ten years: whatever lasts longer is told as this."""
_STEPS: Final = 60


def node_runway_seconds(farm: Farm, spool_bytes: float) -> float:
    """Until a spool of this size gives up its oldest samples."""
    per_second = spool_bytes_per_second(farm)
    room = spool_bytes - measured.SPOOL_BYTES_BESIDES
    return max(0.0, min(LONGEST_SECONDS, room / per_second)) if per_second else LONGEST_SECONDS


def edge_runway_seconds(farm: Farm, disk_bytes: float) -> float | None:
    """How long the cloud may be away; None when what is kept without any outage does not fit."""
    if _total(farm, 0.0) > disk_bytes:
        return None
    if _total(farm, LONGEST_SECONDS) <= disk_bytes:
        return LONGEST_SECONDS
    fits, too_long = 0.0, LONGEST_SECONDS
    for _ in range(_STEPS):
        middle = (fits + too_long) / 2
        if _total(farm, middle) <= disk_bytes:
            fits = middle
        else:
            too_long = middle
    return fits


def raw_days_that_fit(farm: Farm, disk_bytes: float) -> int | None:
    """How long samples may be kept so that the outage fits the disk. None: it does as it is, or whatever one does."""
    if edge_bytes(farm).total <= disk_bytes:
        return None
    days = int(farm.kept.raw_days)
    while days >= 1 and _total_with(farm, days) > disk_bytes:
        days -= 1
    return days if days >= 1 else None


def _total_with(farm: Farm, raw_days: int) -> float:
    kept = msgspec.structs.replace(farm.kept, raw_days=raw_days)
    return edge_bytes(msgspec.structs.replace(farm, kept=kept)).total


def _total(farm: Farm, outage_seconds: float) -> float:
    return edge_bytes(msgspec.structs.replace(farm, outage_seconds=outage_seconds)).total
