from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from farmiq.contracts.ack import DeviceAck
from farmiq.device.doubts import PERSISTS_SECONDS
from farmiq.device.node_forwarder.acks import AckReader, Meaning

STREAM, FORMER = UUID(int=1), UUID(int=2)
OLD, NEW = UUID(int=10), UUID(int=11)
NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


class Reading:
    """A reader, and what it takes for the mark of each stream."""

    def __init__(self, epoch: UUID | None = OLD) -> None:
        self.now = 0.0
        self.believed = {STREAM: 50, FORMER: 20}
        self.reader = AckReader(str(epoch) if epoch else "", self.monotonic())

    def monotonic(self) -> Callable[[], float]:
        return lambda: self.now

    def read(self, epoch: UUID, acked_seq: int = 50, *, minutes: int = 0, stream: UUID = STREAM) -> Meaning:
        ack = DeviceAck(epoch=epoch, ts=NOON + timedelta(minutes=minutes), stream_id=stream, acked_seq=acked_seq)
        return self.reader.read(ack, list(self.believed), self.believed.get(stream, 0))

    def is_of_the_living(self, epoch: UUID) -> bool:
        return self.reader.is_of_the_living(DeviceAck(epoch=epoch, ts=NOON))


def test_acknowledgements_of_the_known_epoch_are_believed_in_any_order() -> None:
    reading = Reading()
    assert [reading.read(OLD, minutes=minute) for minute in (3, 1, 3, 2)] == [Meaning.PROGRESS] * 4


def test_an_epoch_never_seen_is_believed_at_once_and_once() -> None:
    reading = Reading()
    assert reading.read(NEW, 40, minutes=-300) is Meaning.WENT_BACK
    reading.believed[STREAM] = 40
    assert reading.read(NEW, 40) is Meaning.PROGRESS


def test_an_acknowledgement_of_another_stream_means_nothing_here() -> None:
    assert Reading().read(OLD, stream=UUID(int=3)) is Meaning.NOT_OURS


def test_a_late_acknowledgement_of_the_database_before_the_restore_does_not_bring_it_back() -> None:
    """Known issue: with the edge's clock far ahead before the restore, the old word looked newer than all that came after, and
    the node went on believing a database that was gone."""
    reading = Reading()
    assert reading.read(OLD, minutes=600_000) is Meaning.PROGRESS
    assert reading.read(NEW, 40) is Meaning.WENT_BACK
    assert reading.read(OLD, 70, minutes=600_001) is Meaning.STALE
    reading.believed[STREAM] = 40
    assert [reading.read(NEW, 40, minutes=minute) for minute in range(3)] == [Meaning.PROGRESS] * 3


def test_a_database_that_was_left_is_believed_again_when_nothing_else_speaks_for_a_minute() -> None:
    reading = Reading()
    reading.read(NEW, 40)
    assert reading.read(OLD, 70) is Meaning.STALE
    reading.now += PERSISTS_SECONDS / 2
    reading.read(NEW, 50)
    reading.now += PERSISTS_SECONDS
    assert reading.read(OLD, 70) is Meaning.STALE, "the other one has spoken meanwhile"
    reading.now += PERSISTS_SECONDS
    assert reading.read(OLD, 70) is Meaning.WENT_BACK


def test_a_lower_mark_of_the_same_epoch_is_believed_when_it_persists() -> None:
    """promise-device-edge 4: an edge database that lost commits and does not know it."""
    reading = Reading()
    assert reading.read(OLD, 40) is Meaning.PROGRESS
    reading.now += PERSISTS_SECONDS - 1
    assert reading.read(OLD, 40) is Meaning.PROGRESS
    reading.now += 1
    assert reading.read(OLD, 41) is Meaning.WENT_BACK


def test_a_lower_mark_that_was_only_late_changes_nothing() -> None:
    reading = Reading()
    for _ in range(10):
        assert reading.read(OLD, 40) is Meaning.PROGRESS
        reading.now += PERSISTS_SECONDS / 2
        assert reading.read(OLD, 50) is Meaning.PROGRESS
        reading.now += PERSISTS_SECONDS / 2


def test_a_new_database_is_believed_about_each_stream_from_its_first_word() -> None:
    reading = Reading()
    reading.read(NEW, 50)
    assert reading.read(NEW, 5, stream=FORMER) is Meaning.WENT_BACK
    assert reading.read(NEW, 5, stream=FORMER) is Meaning.PROGRESS


def test_only_the_database_that_is_believed_speaks_about_losses() -> None:
    reading = Reading()
    assert reading.is_of_the_living(OLD)
    reading.read(NEW)
    assert not reading.is_of_the_living(OLD)
    assert reading.is_of_the_living(NEW)
