from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from farmiq.contracts.ack import DeviceAck
from farmiq.device.node_forwarder.acks import AckReader, Meaning
from farmiq.device.node_forwarder.throttle import Throttle

STREAM, OLD, RESTORED = uuid4(), uuid4(), uuid4()
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def ack(epoch: object, minutes: int) -> DeviceAck:
    assert isinstance(epoch, type(STREAM))
    return DeviceAck(epoch=epoch, ts=NOON + timedelta(minutes=minutes), stream_id=STREAM, acked_seq=5)


def test_acknowledgements_of_the_known_epoch_are_believed_in_any_order() -> None:
    reader = AckReader(STREAM, str(OLD))
    assert [reader.read(ack(OLD, minute)) for minute in (3, 1, 3, 2)] == [Meaning.PROGRESS] * 4


def test_a_new_epoch_is_believed_once() -> None:
    reader = AckReader(STREAM, str(OLD))
    assert reader.read(ack(RESTORED, 1)) is Meaning.NEW_EPOCH
    assert reader.read(ack(RESTORED, 2)) is Meaning.PROGRESS


def test_a_late_acknowledgement_of_the_database_before_the_restore_does_not_bring_it_back() -> None:
    reader = AckReader(STREAM, str(OLD))
    reader.read(ack(OLD, 1))
    assert reader.read(ack(RESTORED, 3)) is Meaning.NEW_EPOCH
    assert reader.read(ack(OLD, 2)) is Meaning.STALE
    assert reader.read(ack(RESTORED, 4)) is Meaning.PROGRESS


def test_an_acknowledgement_of_another_stream_means_nothing_here() -> None:
    reader = AckReader(uuid4(), str(OLD))
    assert reader.read(ack(OLD, 1)) is Meaning.NOT_OURS


def test_only_the_database_that_is_believed_speaks_about_losses() -> None:
    reader = AckReader(STREAM, str(OLD))
    about_events = DeviceAck(epoch=OLD, ts=NOON)
    assert reader.is_of_the_living(about_events)
    reader.read(ack(RESTORED, 1))
    assert not reader.is_of_the_living(about_events)
    assert reader.is_of_the_living(ack(RESTORED, 1))


def test_the_throttle_lets_a_seconds_worth_pass_and_then_holds_the_rate() -> None:
    throttle = Throttle(messages_per_second=10, bytes_per_second=1_000_000, now=0.0)
    assert [throttle.spend(1, 0.0) for _ in range(10)] == [0.0] * 10
    assert throttle.spend(1, 0.0) == pytest.approx(0.1)
    assert throttle.spend(1, 1.0) == 0.0


def test_the_throttle_counts_bytes_too() -> None:
    throttle = Throttle(messages_per_second=1000, bytes_per_second=100, now=0.0)
    assert throttle.spend(300, 0.0) == pytest.approx(2.0)
