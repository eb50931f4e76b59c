"""What an acknowledgement means. They come twice, late, out of order, and now and then from another database."""

from collections.abc import Callable
from enum import Enum
from uuid import UUID

from farmiq.contracts.ack import DeviceAck
from farmiq.device.doubts import Doubts


class Meaning(Enum):
    NOT_OURS = "not ours"
    STALE = "stale"
    PROGRESS = "progress"
    WENT_BACK = "went back"


class AckReader:
    """Which acknowledgements are believed. No clock of the edge decides: only how long something is said, on a monotonic clock.

    An epoch never seen is believed at once. One that was left is believed again when nothing else speaks for a minute: what was
    delayed on its way must not bring a dead database back. A mark that is lower than the believed one, of the same epoch, for a
    minute: that database has lost commits and does not know it.
    """

    def __init__(self, epoch: str, monotonic: Callable[[], float]) -> None:
        self._epoch = epoch
        self._left: set[str] = set()
        self._doubts = Doubts(monotonic)
        self._is_new = False
        self._known: set[UUID] = set()

    def read(self, ack: DeviceAck, stream_ids: list[UUID], believed_seq: int) -> Meaning:
        """`believed_seq`: the mark of the acknowledgement's stream that this node went by so far."""
        if ack.stream_id not in stream_ids:
            return Meaning.NOT_OURS
        epoch = str(ack.epoch)
        if epoch != self._epoch:
            if epoch in self._left and not self._doubts.persists(epoch):
                return Meaning.STALE
            self._left.add(self._epoch)
            self._epoch = epoch
            self._is_new = True
            self._doubts.end_all()
            self._known = {ack.stream_id}
            return Meaning.WENT_BACK
        self._doubts.end(*self._left)
        is_first = self._is_new and ack.stream_id not in self._known
        self._known.add(ack.stream_id)
        if ack.acked_seq >= believed_seq:
            self._doubts.end(ack.stream_id)
        elif is_first or self._doubts.persists(ack.stream_id):
            self._doubts.end(ack.stream_id)
            return Meaning.WENT_BACK
        return Meaning.PROGRESS

    def is_of_the_living(self, ack: DeviceAck) -> bool:
        """It comes from the database that is believed now, whatever it is about."""
        return str(ack.epoch) == self._epoch
