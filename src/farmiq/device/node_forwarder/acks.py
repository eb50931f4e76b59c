"""What an acknowledgement means. They come twice, late, out of order, and now and then from another database."""

from datetime import datetime
from enum import Enum
from uuid import UUID

from farmiq.contracts.ack import DeviceAck
from farmiq.spool import Acked


class Meaning(Enum):
    NOT_OURS = "not ours"
    STALE = "stale"
    PROGRESS = "progress"
    NEW_EPOCH = "new epoch"


class AckReader:
    """Remembers the newest acknowledgement that was believed."""

    def __init__(self, stream_id: UUID, epoch: str) -> None:
        self._stream_id = stream_id
        self._epoch = epoch
        self._left: set[str] = set()
        self._newest: datetime | None = None

    def read(self, ack: DeviceAck) -> Meaning:
        """An epoch never heard of is believed at once, whatever the edge's clock says. One that was left before is believed
        only from something newer than all before: what was delayed on the way must not bring a dead database back."""
        if ack.stream_id != self._stream_id:
            return Meaning.NOT_OURS
        is_newest = self._newest is None or ack.ts >= self._newest
        if str(ack.epoch) != self._epoch:
            if str(ack.epoch) in self._left and not is_newest:
                return Meaning.STALE
            self._left.add(self._epoch)
            self._epoch = str(ack.epoch)
            self._newest = ack.ts
            return Meaning.NEW_EPOCH
        if is_newest:
            self._newest = ack.ts
        return Meaning.PROGRESS

    def is_of_the_living(self, ack: DeviceAck) -> bool:
        """It comes from the database that is believed now, whatever it is about."""
        return str(ack.epoch) == self._epoch


def is_absurd(ack: DeviceAck, ceiling_seq: int) -> bool:
    """It names what this node never wrote. To be asked first: an absurd word must not even tell of a new epoch."""
    return max([ack.acked_seq, *(last for _, last in ack.received)]) > ceiling_seq


def mark_to_believe(ack: DeviceAck, held: Acked) -> int:
    """The lower one: what the new database holds beyond it, it says again in its next acknowledgement."""
    return min(ack.acked_seq, held.seq) if held.epoch else ack.acked_seq
