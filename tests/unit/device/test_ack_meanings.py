from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from farmiq.contracts.ack import DeviceAck
from farmiq.device.node_forwarder.acks import AckReader, Meaning, is_absurd, mark_to_believe
from farmiq.spool import Acked

STREAM = UUID(int=1)
OLD, NEW = UUID(int=10), UUID(int=11)
NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


def ack(acked_seq: int, epoch: UUID = OLD, received: tuple[tuple[int, int], ...] = (), minutes: int = 0) -> DeviceAck:
    at = NOON + timedelta(minutes=minutes)
    return DeviceAck(epoch=epoch, ts=at, stream_id=STREAM, acked_seq=acked_seq, received=list(received))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (ack(100), False),
        (ack(101), True),
        (ack(60, received=((70, 100),)), False),
        (ack(60, received=((70, 101),)), True),
    ],
)
def test_what_was_never_written_cannot_be_acknowledged(message: DeviceAck, expected: bool) -> None:
    assert is_absurd(message, ceiling_seq=100) is expected


def test_a_new_database_is_believed_even_when_its_clock_stands_behind() -> None:
    reader = AckReader(STREAM, str(OLD))
    assert reader.read(ack(60, minutes=30)) is Meaning.PROGRESS
    assert reader.read(ack(40, NEW, minutes=-300)) is Meaning.NEW_EPOCH


def test_a_database_that_was_left_is_believed_again_only_from_something_newer() -> None:
    reader = AckReader(STREAM, str(OLD))
    assert reader.read(ack(40, NEW, minutes=10)) is Meaning.NEW_EPOCH
    assert reader.read(ack(70, OLD, minutes=2)) is Meaning.STALE
    assert reader.read(ack(70, OLD, minutes=60)) is Meaning.NEW_EPOCH


def test_of_two_databases_the_lower_mark_is_believed() -> None:
    assert mark_to_believe(ack(40, NEW), Acked(50, str(OLD))) == 40
    assert mark_to_believe(ack(60, NEW), Acked(50, str(OLD))) == 50
    assert mark_to_believe(ack(60, NEW), Acked()) == 60
