"""The edge's disk, and the floor below which nobody may fill it.

Everything that the edge keeps shares one disk: the database, the pictures, the outbox. What settles, expires or deletes needs
room too, so the last of it is theirs. Between one and two floors only those are stopped who have sent more than their part; below
the floor, everybody. What is not taken stays on its device, and comes when there is room again.
"""

import os
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from farmiq.kit.logging import get_logger
from farmiq.kit.settings import HttpSettings

log = get_logger(__name__)

State = Literal["free", "low", "full"]
LEVELS: Final[dict[State, int]] = {"free": 0, "low": 1, "full": 2}

_LOOK_SECONDS: Final = 1.0
_LOW_FLOORS: Final = 2.0
_BACK_ABOVE: Final = 1.25
"""A state ends when there is clearly more room than where it began: the disk does not open and shut with every message."""
RETRY_AFTER_SECONDS: Final = 30
FAIR_PART: Final = 1.5
"""So many times what a device sends on average is more than its part."""


class DiskSettings(HttpSettings, frozen=True, kw_only=True):
    edge_data_dir: str | None = None
    """A folder on the disk that holds the edge's database and pictures. Not set: its room is not known, and there is no floor."""
    edge_disk_floor_bytes: Annotated[int, Meta(ge=0)] = 2_000_000_000
    """Free bytes that devices may not take. Whichever is less counts: this, or EDGE_DISK_FLOOR_PERCENT of the disk."""
    edge_disk_floor_percent: Annotated[float, Meta(ge=0, le=50)] = 5.0
    """Free percent of the disk that devices may not take. Below twice the floor, those that sent more than their part may not."""

    def disk(self) -> "Disk":
        return Disk(self.edge_data_dir, self.edge_disk_floor_bytes, self.edge_disk_floor_percent)


class Room(Struct, frozen=True):
    """Null when `EDGE_DATA_DIR` is not set, or is not there: not known is not the same as full."""

    disk_free_bytes: int | None = None
    disk_bytes: int | None = None


def room_on(folder: str | None) -> Room:
    """In bytes that we may use."""
    if folder is None:
        return Room()
    try:
        found = os.statvfs(folder)
    except OSError:
        return Room()
    used_blocks = found.f_blocks - found.f_bfree
    return Room(found.f_bavail * found.f_frsize, (used_blocks + found.f_bavail) * found.f_frsize)


def next_state(before: State, room: Room, floor_bytes: int, floor_percent: float) -> State:
    if room.disk_free_bytes is None or room.disk_bytes is None:
        return "free"
    floor = min(floor_bytes, room.disk_bytes * floor_percent / 100)
    was = LEVELS[before]
    if room.disk_free_bytes < floor * (_BACK_ABOVE if was >= LEVELS["full"] else 1.0):
        return "full"
    if room.disk_free_bytes < floor * _LOW_FLOORS * (_BACK_ABOVE if was >= LEVELS["low"] else 1.0):
        return "low"
    return "free"


class Disk:
    """Asked of the kernel, at most once a second."""

    def __init__(self, folder: str | None, floor_bytes: int, floor_percent: float) -> None:
        self._folder = folder
        self._floor = floor_bytes, floor_percent
        self._state: State = "free"
        self._looked_at = float("-inf")

    def state(self, now: float) -> State:
        if now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            room = room_on(self._folder)
            before, self._state = self._state, next_state(self._state, room, *self._floor)
            if self._state != before:
                log.warning("disk_state_changed", before=before, state=self._state, free_bytes=room.disk_free_bytes)
        return self._state
