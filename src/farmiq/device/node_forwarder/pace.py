"""How fast samples come in and are acknowledged, over the last minute: what a forecast can be made of."""

from collections import deque
from typing import NamedTuple

SECONDS_MAX = 60.0


class Look(NamedTuple):
    at: float
    captured_seq: int
    unacked: int


class Pace:
    def __init__(self) -> None:
        self._looks: deque[Look] = deque()

    def look(self, at: float, captured_seq: int, unacked: int) -> None:
        self._looks.append(Look(at, captured_seq, unacked))
        while at - self._looks[0].at > SECONDS_MAX:
            self._looks.popleft()

    @property
    def captured_per_second(self) -> float:
        first, last = self._looks[0], self._looks[-1]
        return (last.captured_seq - first.captured_seq) / (last.at - first.at) if last.at > first.at else 0.0

    def drain_seconds(self) -> float | None:
        """Until nothing waits for an acknowledgement, at the speed of the last minute; None while it does not get less."""
        first, last = self._looks[0], self._looks[-1]
        drained = first.unacked - last.unacked
        if last.unacked == 0:
            return 0.0
        return last.unacked * (last.at - first.at) / drained if drained > 0 else None

    def runway_seconds(self, room_bytes: int, bytes_per_sample: int) -> float | None:
        """How long the node can go on without the edge before the cap costs a sample; None when none come in."""
        rate = self.captured_per_second
        return room_bytes / (rate * bytes_per_sample) if rate > 0 else None
