"""What becomes of the bytes of one direction of one connection, and when. Pure: time and chance are given."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from farmiq.stack.relay.faults import NO_FAULTS, Faults

# A slow line is fed in pieces of at most this much of its time, so that it flows instead of stuttering.
_PIECE_SECONDS = 0.02

Ending = Literal["half", "whole"]


@dataclass(frozen=True, slots=True)
class Parcel:
    """Bytes to be handed on at a time. `ending`: afterwards this direction is closed, or the whole connection."""

    due_at: float
    data: bytes
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Doom:
    """What happens to the connection at a time, whatever passes through it until then."""

    at: float
    is_reset: bool


class Shaper:
    def __init__(self, faults: Faults, random: Random, now: float) -> None:
        self._random = random
        # A connection that has lost bytes must never go on as if it had not.
        self.has_swallowed = False
        self.change(faults, now)

    def change(self, faults: Faults, now: float) -> None:
        self._faults = faults
        self._told_at = now
        self._ready_at = now
        self._line_free_at = now
        self._passed_bytes = 0

    @property
    def is_transparent(self) -> bool:
        return self._faults is NO_FAULTS or self._faults == NO_FAULTS

    @property
    def swallows(self) -> bool:
        return self._faults.timeout is not None

    def doom(self) -> Doom | None:
        if self._faults.reset_peer is not None:
            return Doom(self._told_at + self._faults.reset_peer.seconds, is_reset=True)
        if self._faults.timeout is not None and self._faults.timeout.seconds > 0:
            return Doom(self._told_at + self._faults.timeout.seconds, is_reset=False)
        return None

    def admit(self, data: bytes, now: float) -> list[Parcel]:
        if self.swallows:
            self.has_swallowed = True
            return []
        limit = self._faults.limit_data
        if limit is None:
            return self._paced(data, now)
        allowed = data[: max(0, limit.bytes - self._passed_bytes)]
        self._passed_bytes += len(data)
        parcels = self._paced(allowed, now)
        if self._passed_bytes >= limit.bytes:
            parcels.append(Parcel(parcels[-1].due_at if parcels else now, b"", "whole"))
        return parcels

    def finish(self, now: float) -> list[Parcel]:
        """The sender has closed this direction."""
        if self.swallows:
            self.has_swallowed = True
            return []
        slow = self._faults.slow_close
        due_at = max(self._ready(now), self._line_free_at) + (slow.seconds if slow else 0.0)
        return [Parcel(due_at, b"", "half")]

    def _paced(self, data: bytes, now: float) -> list[Parcel]:
        ready_at = self._ready(now)
        return [Parcel(self._leaves_at(ready_at, len(piece)), piece) for piece in self._pieces(data)]

    def _ready(self, now: float) -> float:
        """When bytes that came now come out at the other end of the line. Never before those that came earlier."""
        delay_seconds = 0.0
        if latency := self._faults.latency:
            spread = latency.jitter_seconds
            delay_seconds = max(0.0, latency.seconds + self._random.uniform(-spread, spread))
        self._ready_at = max(self._ready_at, now + delay_seconds)
        return self._ready_at

    def _leaves_at(self, ready_at: float, size: int) -> float:
        leaves_at = max(self._line_free_at, ready_at)
        if line := self._faults.bandwidth:
            leaves_at += size / line.bytes_per_second
        self._line_free_at = leaves_at + (self._faults.slicer.delay_seconds if self._faults.slicer else 0.0)
        return leaves_at

    def _pieces(self, data: bytes) -> list[bytes]:
        pieces = []
        start = 0
        while start < len(data):
            end = start + self._piece_bytes(len(data))
            pieces.append(data[start:end])
            start = end
        return pieces

    def _piece_bytes(self, whole_bytes: int) -> int:
        size = whole_bytes
        if slicer := self._faults.slicer:
            size = slicer.average_bytes + self._random.randint(-slicer.variation_bytes, slicer.variation_bytes)
        if line := self._faults.bandwidth:
            size = min(size, int(line.bytes_per_second * _PIECE_SECONDS))
        return max(1, size)
