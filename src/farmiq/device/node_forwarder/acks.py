"""What an acknowledgement means. They come twice, late, out of order, and now and then from another database."""

from datetime import datetime
from enum import Enum
from uuid import UUID

from farmiq.contracts.ack import DeviceAck


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
        self._newest: datetime | None = None

    def read(self, ack: DeviceAck) -> Meaning:
        """Another epoch is believed only from an acknowledgement newer than all before: an old one that was delayed on the
        way must not bring a dead database back."""
        if ack.stream_id != self._stream_id:
            return Meaning.NOT_OURS
        is_newest = self._newest is None or ack.ts >= self._newest
        if str(ack.epoch) != self._epoch:
            if not is_newest:
                return Meaning.STALE
            self._epoch = str(ack.epoch)
            self._newest = ack.ts
            return Meaning.NEW_EPOCH
        if is_newest:
            self._newest = ack.ts
        return Meaning.PROGRESS
