"""How much room is left on the disk that fills up while the cloud is away. Asked of the kernel, which costs nothing."""

import os
from typing import Any

from litestar import get
from msgspec import Struct


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


def room_routes(folder: str | None) -> list[Any]:
    @get("/api/v1/sync/room", tags=["sync"], sync_to_thread=False)
    def room() -> Room:
        """The room that what waits for the cloud has on the edge's disk."""
        return room_on(folder)

    return [room]
