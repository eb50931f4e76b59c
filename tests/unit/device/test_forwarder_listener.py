"""What an acknowledgement does to the spool. The broker is not asked here: these are words that were delayed on their way."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from farmiq.contracts.ack import BootHeld, DeviceAck, EventAck, PutOff, StreamHeld
from farmiq.contracts.decoding import encode
from farmiq.device.doubts import PERSISTS_SECONDS
from farmiq.device.node_forwarder.acks import AckReader
from farmiq.device.node_forwarder.batches import Messages
from farmiq.device.node_forwarder.lanes import Lanes
from farmiq.device.node_forwarder.listener import _hear
from farmiq.device.node_forwarder.publisher import Publisher
from farmiq.device.node_forwarder.recorder import Recorder
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.mqtt import Message, MqttClient
from unit.spool.spool_world import BOOT, START_US, open_spool, samples

OLD, RESTORED, LOSS = uuid4(), uuid4(), uuid4()
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
BROKER = "mqtt://127.0.0.1:1"
SETTINGS = ForwarderSettings(
    tenant_id="t", farm_id="f", barn_id="b", device_id="node-1", mqtt_url=BROKER,
    node_forwarder_socket="", node_forwarder_spool_dir="",
)  # fmt: skip


@dataclass
class Ears:
    recorder: Recorder
    lanes: Lanes
    publisher: Publisher
    reader: AckReader
    clock: list[float]

    async def hear(self, epoch: UUID, minutes: int, acked_seq: int, *losses: UUID) -> None:
        ack = DeviceAck(
            epoch=epoch,
            ts=NOON + timedelta(minutes=minutes),
            stream_id=self.recorder.spool.stream_id,
            acked_seq=acked_seq,
            events=[EventAck(event_id=loss, result="stored") for loss in losses],
        )
        message = Message("iot/node-1/ack", encode(ack), 1, False, False, 1, 1)
        await _hear(message, self.reader, self.recorder, self.lanes, self.publisher)

    async def answer(self, ack: DeviceAck) -> None:
        message = Message("iot/node-1/ack", encode(ack), 1, False, False, 1, 1)
        await _hear(message, self.reader, self.recorder, self.lanes, self.publisher)

    async def say(self, *events: EventAck, put_off: Sequence[PutOff] = ()) -> None:
        epoch = UUID(self.recorder.spool.acked.epoch) if self.recorder.spool.acked.epoch else OLD
        ack = DeviceAck(epoch=epoch, ts=NOON, events=list(events), put_off=list(put_off))
        if not self.recorder.spool.acked.epoch:
            await self.hear(epoch, 0, 0)
        message = Message("iot/node-1/ack", encode(ack), 1, False, False, 1, 1)
        await _hear(message, self.reader, self.recorder, self.lanes, self.publisher)

    @property
    def outstanding(self) -> list[UUID]:
        return [loss.loss_id for loss in self.recorder.spool.losses.outstanding()]


@pytest.fixture
async def ears(tmp_path: Path) -> AsyncIterator[Ears]:
    """Five samples, a loss of three, five samples more; an edge that has heard of nothing."""
    spool = open_spool(tmp_path / "spool")
    spool.append_many(samples(5))
    spool.give_up(LOSS, 3, (START_US, START_US + 1))
    spool.append_many(samples(5, start=20))
    spool.sync()
    life = Lifetime("node-forwarder")
    recorder = Recorder(spool, ThreadPoolExecutor(max_workers=1), life.clock, 0.05)
    lanes = Lanes(spool.synced_seq, 0)
    mqtt = MqttClient(BROKER, client_id="node-1")
    publisher = Publisher(life, SETTINGS, mqtt, recorder, lanes, Messages(SETTINGS, life.clock))
    clock = [0.0]
    yield Ears(recorder, lanes, publisher, AckReader("", lambda: clock[0]), clock)
    await recorder.close()


async def test_a_loss_is_told_until_the_edge_has_it(ears: Ears) -> None:
    await ears.hear(OLD, 1, 5)
    assert ears.outstanding == [LOSS]
    await ears.hear(OLD, 2, 13, LOSS)
    assert ears.outstanding == []


async def test_an_edge_that_takes_no_more_is_given_time_and_nothing_is_forgotten(ears: Ears) -> None:
    await ears.hear(OLD, 1, 5)
    assert ears.publisher.held_back_seconds == 0
    ack = DeviceAck(epoch=OLD, ts=NOON + timedelta(minutes=2), retry_after_seconds=60.0)
    message = Message("iot/node-1/ack", encode(ack), 1, False, False, 1, 1)
    await _hear(message, ears.reader, ears.recorder, ears.lanes, ears.publisher)
    assert 0 < ears.publisher.held_back_seconds <= 60
    assert ears.recorder.spool.acked.seq == 5
    assert ears.outstanding == [LOSS]


async def test_an_edge_can_not_silence_a_node_for_long(ears: Ears) -> None:
    ears.publisher.hold_back(3600.0)
    assert ears.publisher.held_back_seconds <= 120


async def test_a_late_word_of_the_database_before_the_restore_does_not_silence_a_loss(ears: Ears) -> None:
    """The restored database lacks the loss. Taken for told, it would be a hole that nobody names, and the mark would stand
    still before it for ever."""
    await ears.hear(OLD, 1, 5)
    await ears.hear(RESTORED, 3, 5)
    await ears.hear(OLD, 2, 13, LOSS)
    assert ears.outstanding == [LOSS]
    await ears.hear(RESTORED, 4, 13, LOSS)
    assert ears.outstanding == []


async def test_the_first_word_of_a_restored_database_counts_for_what_it_holds(ears: Ears) -> None:
    await ears.hear(OLD, 1, 13, LOSS)
    await ears.hear(RESTORED, 2, 5)
    assert ears.outstanding == [LOSS]
    await ears.hear(uuid4(), 3, 5, LOSS)
    assert ears.outstanding == []


@pytest.mark.parametrize("code", ["not_provisioned", "stream_of_another_device", "not_storable", "schema", None])
async def test_a_refusal_acknowledges_no_loss(ears: Ears, code: str | None) -> None:
    """Finding 1 of the reading of the path from device to edge: the hole was then in nobody's record, for ever."""
    await ears.say(EventAck(event_id=LOSS, result="rejected", code=code))
    assert ears.outstanding == [LOSS]
    assert ears.publisher.is_refused(LOSS), "and it is not told again every few seconds"
    assert ears.publisher.put_off_code == (None if code in ("schema", None) else code)
    await ears.say(EventAck(event_id=LOSS, result="stored"))
    assert ears.outstanding == []


async def test_a_loss_whose_id_the_edge_knows_from_something_else_is_told_under_another_one(ears: Ears) -> None:
    await ears.say(EventAck(event_id=LOSS, result="rejected", code="event_id_reused"))
    (renamed,) = ears.outstanding
    assert renamed != LOSS
    assert not ears.publisher.is_refused(renamed), "under the new id at once"
    await ears.say(EventAck(event_id=renamed, result="duplicate"))
    assert ears.outstanding == []


async def test_a_restored_database_is_asked_at_once_about_what_the_one_before_refused(ears: Ears) -> None:
    await ears.hear(OLD, 1, 5)
    await ears.say(EventAck(event_id=LOSS, result="rejected", code="not_provisioned"))
    await ears.hear(RESTORED, 2, 5)
    assert not ears.publisher.is_refused(LOSS)


async def test_a_node_shows_why_the_edge_takes_nothing_until_it_does(ears: Ears) -> None:
    await ears.hear(OLD, 1, 2)
    await ears.say(put_off=[PutOff(event_id=uuid4(), code="not_provisioned")])
    assert ears.publisher.put_off_code == "not_provisioned"
    assert (ears.recorder.spool.acked.seq, ears.outstanding) == (2, [LOSS])
    await ears.hear(OLD, 3, 5)
    assert ears.publisher.put_off_code is None


async def test_a_loss_that_is_put_off_is_told_less_often_until_the_edge_takes_something(ears: Ears) -> None:
    await ears.hear(OLD, 1, 2)
    await ears.say(put_off=[PutOff(event_id=LOSS, code="not_storable"), PutOff(event_id=uuid4(), code="not_storable")])
    assert ears.outstanding == [LOSS]
    assert ears.publisher.is_refused(LOSS)
    await ears.hear(OLD, 3, 5)
    assert not ears.publisher.is_refused(LOSS)


# What went back


async def test_an_edge_that_lost_commits_under_its_epoch_gets_them_again(ears: Ears) -> None:
    """promise-device-edge 4: after an hour of "I have 1 to 3 and 9 to 11" the node still took everything for acknowledged."""
    await ears.hear(OLD, 0, 13, LOSS)
    spool = ears.recorder.spool
    assert (spool.acked.seq, ears.lanes.next_replay()) == (13, None)
    lower = DeviceAck(epoch=OLD, ts=NOON, stream_id=spool.stream_id, acked_seq=3, received=[(9, 11)])
    for _ in range(2):
        await ears.answer(lower)
        assert spool.acked.seq == 13, "it may have been late"
        ears.clock[0] += PERSISTS_SECONDS / 2
    await ears.answer(lower)
    assert (spool.acked.seq, ears.outstanding) == (3, [LOSS])
    assert ears.lanes.next_replay() == (3, 8)
    assert spool.usage().unacked_samples == 4
    await ears.hear(OLD, 1, 13, LOSS)
    assert (spool.acked.seq, spool.usage().unacked_samples) == (13, 0)


async def test_an_absurd_acknowledgement_begins_a_stream_and_nothing_stored_vanishes(ears: Ears) -> None:
    """promise-device-edge 2: it was logged, and believed as soon as the node's own sequences had caught up."""
    spool = ears.recorder.spool
    old = spool.stream_id
    boots = [BootHeld(BOOT, 1, 5, START_US + 5_000), BootHeld(uuid4(), 6, 100, START_US + 100_000)]
    await ears.answer(DeviceAck(epoch=OLD, ts=NOON, stream_id=old, acked_seq=100, boots=boots))
    assert spool.stream_id != old
    assert spool.former_streams == [old]
    assert spool.acked.seq == 8, "what the edge has of the old stream is not sent again"
    assert ears.lanes.next_replay() == (8, 13)
    await ears.answer(DeviceAck(epoch=OLD, ts=NOON, stream_id=spool.stream_id, acked_seq=5))
    assert spool.acked.seq == 13


async def test_a_mark_that_the_node_has_caught_up_with_is_compared_all_the_same(ears: Ears) -> None:
    spool = ears.recorder.spool
    old = spool.stream_id
    boots = [BootHeld(uuid4(), 1, 13, START_US + 999_000)]
    await ears.answer(DeviceAck(epoch=OLD, ts=NOON, stream_id=old, acked_seq=13, boots=boots))
    assert spool.stream_id != old
    assert (spool.acked.seq, spool.usage().unacked_samples) == (0, 10)


async def test_a_stream_that_holds_nothing_yet_is_not_left_for_what_was_never_written(ears: Ears) -> None:
    spool = ears.recorder.spool
    await ears.answer(DeviceAck(epoch=OLD, ts=NOON, stream_id=spool.stream_id, acked_seq=100))
    new = spool.stream_id
    await ears.recorder.run(lambda: spool.begin_stream(spool.synced_seq + 1))
    empty = spool.stream_id
    for _ in range(5):
        await ears.answer(DeviceAck(epoch=OLD, ts=NOON, stream_id=empty, acked_seq=7))
    assert spool.stream_id == empty
    assert new in spool.former_streams


async def test_an_edge_that_compared_the_samples_itself_is_believed(ears: Ears) -> None:
    spool = ears.recorder.spool
    old = spool.stream_id
    held = StreamHeld(stream_id=old, acked_seq=13, boots=[BootHeld(uuid4(), 1, 13, START_US)])
    await ears.answer(DeviceAck(epoch=OLD, ts=NOON, contradicted=[held]))
    new = spool.stream_id
    assert (new != old, spool.acked.seq) == (True, 0)
    await ears.answer(DeviceAck(epoch=OLD, ts=NOON, contradicted=[held]))
    assert spool.stream_id == new, "once: it is about a stream that was left"


async def test_nothing_is_sent_after_a_start_before_the_edge_was_compared_with(ears: Ears) -> None:
    assert not ears.publisher.is_compared
    await ears.hear(OLD, 1, 5)
    assert ears.publisher.is_compared
