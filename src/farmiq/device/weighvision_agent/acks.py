"""Which database speaks in an acknowledgement. They come twice, late, out of order, and now and then from a restored backup."""

from datetime import datetime
from enum import Enum
from uuid import UUID


class Speaker(Enum):
    SAME = "same"
    NEW = "new"
    DEAD = "dead"


class Epochs:
    """Remembers whom it believes. An epoch never heard of is believed at once; one that was left is believed again only with
    something newer than everything before: what was delayed on its way must not bring a dead database back."""

    def __init__(self, epoch: UUID | None) -> None:
        self.epoch = epoch
        self._left: set[UUID] = set()
        self._newest: datetime | None = None

    def hear(self, epoch: UUID, ts: datetime) -> Speaker:
        is_newest = self._newest is None or ts >= self._newest
        if epoch == self.epoch or self.epoch is None:
            self.epoch = epoch
            self._newest = ts if is_newest else self._newest
            return Speaker.SAME
        if epoch in self._left and not is_newest:
            return Speaker.DEAD
        self._left.add(self.epoch)
        self.epoch = epoch
        self._newest = ts
        return Speaker.NEW
