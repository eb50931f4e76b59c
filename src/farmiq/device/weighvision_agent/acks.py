"""Which database speaks in an acknowledgement. They come twice, late, out of order, and now and then from a restored backup."""

from collections.abc import Callable
from enum import Enum
from typing import Final
from uuid import UUID

from farmiq.contracts.ack import DeviceAck
from farmiq.device.doubts import Doubts

_COMMITS: Final = "commits"


class Speaker(Enum):
    SAME = "same"
    NEW = "new"
    DEAD = "dead"
    WENT_BACK = "went back"


class Epochs:
    """Remembers whom it believes, without a look at any clock of the edge. An epoch never seen is believed at once; one that was
    left, when nothing else speaks for a minute: what was delayed on its way must not bring a dead database back. A count of
    commits that is lower for a minute under the same epoch: that database has lost some, and does not know it."""

    def __init__(self, epoch: UUID | None, monotonic: Callable[[], float]) -> None:
        self.epoch = epoch
        self._left: set[UUID] = set()
        self._commits = 0
        self._doubts = Doubts(monotonic)

    def hear(self, ack: DeviceAck) -> Speaker:
        if ack.epoch != self.epoch and self.epoch is not None:
            if ack.epoch in self._left and not self._doubts.persists(ack.epoch):
                return Speaker.DEAD
            self._left.add(self.epoch)
            self._doubts.end_all()
            self.epoch, self._commits = ack.epoch, ack.commits or 0
            return Speaker.NEW
        self.epoch = ack.epoch
        self._doubts.end(*self._left)
        if not ack.commits:  # an edge of 0.1.0 does not count
            return Speaker.SAME
        if ack.commits >= self._commits:
            self._doubts.end(_COMMITS)
        elif self._doubts.persists(_COMMITS):
            self._doubts.end(_COMMITS)
            self._commits = ack.commits
            return Speaker.WENT_BACK
        self._commits = max(self._commits, ack.commits)
        return Speaker.SAME
