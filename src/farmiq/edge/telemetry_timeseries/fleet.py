"""All devices as one: how many are there, and what they hold that is not safe here yet. Pure."""

from datetime import datetime, timedelta
from math import inf
from typing import Final

import msgspec

from farmiq.edge.telemetry_timeseries.liveness import Clocks, state_of

HOLDING_SECONDS: Final = 600.0
"""A device that is connected and whose oldest sample waits for this long is not getting rid of what it holds."""


class Held(msgspec.Struct, frozen=True):
    """What one device said last of its own disk, at `status_at`."""

    device_id: str = ""
    status_at: datetime | None = None
    spool_bytes: int | None = None
    unacked_count: int | None = None
    oldest_seconds: float | None = None
    runway_seconds: float | None = None


class Fleet(msgspec.Struct):
    online: int = 0
    quiet: int = 0
    never_heard: int = 0
    idle: int = 0
    """Without a schedule, and not online: nothing is expected of these."""
    spool_bytes: int = 0
    unacked_samples: int = 0
    oldest_seconds: float = 0.0
    runway_seconds: float = inf
    """The shortest, of the devices that do not get rid of what they hold."""
    room_seconds: float = inf
    """The shortest of all: how long the first of them could go on if none could deliver any more. It is `room_device_id`."""
    room_device_id: str | None = None

    def add(self, clocks: Clocks, held: Held, now: datetime, online_timeout: timedelta) -> None:
        state = state_of(clocks, is_revoked=False, now=now, online_timeout=online_timeout)
        is_here = state == "online"
        self.online += is_here
        self.quiet += state == "quiet"
        self.idle += state == "idle"
        self.spool_bytes += held.spool_bytes or 0
        self.unacked_samples += held.unacked_count or 0
        since_seconds = max(0.0, (now - held.status_at).total_seconds()) if held.status_at else 0.0
        oldest_seconds = held.oldest_seconds + since_seconds if held.oldest_seconds is not None else 0.0
        self.oldest_seconds = max(self.oldest_seconds, oldest_seconds)
        if held.runway_seconds is None:
            return
        room_seconds = held.runway_seconds
        if not is_here or oldest_seconds > HOLDING_SECONDS:
            # Nothing was heard since, and it is taken to have gone on measuring.
            room_seconds = max(0.0, room_seconds - since_seconds)
            self.runway_seconds = min(self.runway_seconds, room_seconds)
        if room_seconds < self.room_seconds:
            self.room_seconds, self.room_device_id = room_seconds, held.device_id
