"""Anchors from the edge's responses, what they are worth, and how a boot's times follow from them."""

import random
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import UNSET

from farmiq.contracts.ack import DeviceAck, TimeResponse
from farmiq.contracts.telemetry import TimeSegment
from farmiq.contracts.timestamps import from_us
from farmiq.device.node_forwarder.node_time import (
    ANCHORS_FILE,
    BACKLOG_WAIT_US,
    LIVE_WAIT_US,
    RESPONSE_US,
    UNCERTAINTY_US_MAX,
    NodeTime,
)
from farmiq.device.node_forwarder.timeline import ANCHORS_MAX, SLOT_US, Anchor, Boot, Timeline, correction_of
from farmiq.spool import Channel, Frame, Header, Run
from support.offline_week import Scenario, offline_week

BOOT, EARLIER, EPOCH = UUID(int=1), UUID(int=2), UUID(int=3)
TRUE_US = 1_790_000_000_000_000
SECOND_US = 1_000_000
HEADER = Header(UUID(int=9), BOOT, 1, 0, (Channel("temperature", "C", ""),))


class World:
    """A node whose monotonic clock the test moves, and an edge whose clock is right."""

    def __init__(self, folder: Path | None = None, boot_id: UUID = BOOT) -> None:
        self.now_us = 1_000 * SECOND_US
        self.time = NodeTime(boot_id, lambda: self.now_us, folder)
        self.number = 0

    @property
    def asks(self) -> bool:
        return self.time.is_request_due

    def sample(self, quality: int = 0, wall_us: int = 0) -> None:
        self.time.note(BOOT, [(wall_us, self.now_us, 0, quality, 1.0)])

    def exchange(self, there_us: int = 5_000, edge_us: int = 50_000, back_us: int = 5_000, quality: int = 2) -> None:
        self.number += 1
        event_id = UUID(int=self.number)
        self.time.requested(event_id)
        received_at = from_us(TRUE_US + self.now_us + there_us)
        response = TimeResponse(event_id=event_id, received_at=received_at, quality=quality)
        self.now_us += there_us + edge_us + back_us
        at = received_at + timedelta(microseconds=edge_us)
        self.time.take(DeviceAck(epoch=EPOCH, ts=at, time=response))

    def run(self, quality: int = 0, wall_us: int = 0) -> Run:
        return Run(HEADER, [Frame(1, wall_us, self.now_us, 0, quality, 1.0)])

    def corrected_us(self, quality: int = 0, wall_us: int = 0) -> int | None:
        segments = self.time.correction(self.run(quality, wall_us))
        return segments[0].corrected(wall_us) if isinstance(segments, list) else None


def test_a_response_corrects_the_samples_of_its_boot_to_within_half_of_its_way() -> None:
    world = World()
    world.sample()
    assert world.corrected_us() is None
    world.exchange(there_us=30_000, back_us=2_000)
    corrected_us = world.corrected_us()
    assert corrected_us is not None
    assert abs(corrected_us - TRUE_US - world.now_us) <= 16_000


def test_a_response_that_a_broker_held_back_is_no_anchor() -> None:
    world = World()
    world.exchange(back_us=2 * UNCERTAINTY_US_MAX + 100_000)
    assert world.corrected_us() is None
    assert world.time.settled.is_set()
    # Nor is one to a request of an earlier connection, or to none of ours.
    response = TimeResponse(event_id=UUID(int=99), received_at=from_us(TRUE_US), quality=2)
    world.time.take(DeviceAck(epoch=EPOCH, ts=from_us(TRUE_US), time=response))
    assert world.corrected_us() is None


def test_how_long_the_edge_took_does_not_count() -> None:
    world = World()
    world.exchange(edge_us=30 * SECOND_US)
    corrected_us = world.corrected_us()
    assert corrected_us is not None
    assert abs(corrected_us - TRUE_US - world.now_us) <= 5_000


def test_an_edge_without_a_good_clock_is_believed_by_nobody_and_one_that_had_it_by_those_who_know_nothing_better() -> (
    None
):
    world = World()
    world.exchange(quality=0)
    assert world.corrected_us() is None
    world.exchange(quality=1)
    assert world.corrected_us() is not None
    good = World()
    good.sample(2, TRUE_US + good.now_us)
    good.now_us += 10 * SECOND_US
    good.sample(1, TRUE_US + good.now_us)
    good.time.requested(UUID(int=50))
    response = TimeResponse(event_id=UUID(int=50), received_at=from_us(TRUE_US), quality=1)
    good.time.take(DeviceAck(epoch=EPOCH, ts=from_us(TRUE_US), time=response))
    # A quarter of an hour wrong, by the word of an edge that is not better off: the node's clock was right ten seconds ago.
    assert good.corrected_us(1, TRUE_US + good.now_us) is None


def test_a_clock_that_is_kept_right_asks_for_nothing_and_is_left_alone() -> None:
    world = World()
    asked = [world.asks]  # no sample yet, so nothing is known of the clock
    world.sample(2, TRUE_US + world.now_us)
    asked.append(world.asks)
    world.sample(1, TRUE_US + world.now_us)
    asked.append(world.asks)
    world.exchange()
    assert [*asked, world.asks] == [False, False, True, False]
    assert world.corrected_us(2, TRUE_US + world.now_us + 3_600 * SECOND_US) is None
    assert world.corrected_us(1, TRUE_US + world.now_us) is None  # right as it is


def test_a_clock_that_ran_on_by_itself_is_corrected_from_when_it_was_right_to_when_it_was_asked() -> None:
    """Away from its time server for a day, 100 ppm too fast."""
    world, day_us = World(), 86_400 * SECOND_US
    began_us = world.now_us
    world.sample(2, TRUE_US + began_us)
    world.sample(1, TRUE_US + began_us)
    drift_us = day_us // 10_000
    world.now_us += day_us + drift_us
    world.number += 1
    world.time.requested(UUID(int=world.number))
    at = from_us(TRUE_US + began_us + day_us)
    world.time.take(DeviceAck(epoch=EPOCH, ts=at, time=TimeResponse(event_id=UUID(int=1), received_at=at, quality=2)))
    half_us = began_us + (day_us + drift_us) // 2
    segments = world.time.correction(Run(HEADER, [Frame(1, TRUE_US + half_us, half_us, 0, 1, 1.0)]))
    assert isinstance(segments, list)
    assert abs(segments[0].corrected(TRUE_US + half_us) - TRUE_US - began_us - day_us // 2) <= 1_000


def test_an_anchor_that_contradicts_counts_when_a_second_one_agrees_with_it() -> None:
    boot = Boot([Anchor(0, TRUE_US, 1_000, 2)])
    hour_us, minute_us = 3_600 * SECOND_US, 60 * SECOND_US
    assert not boot.add(Anchor(minute_us, TRUE_US + minute_us + hour_us, 1_000, 2))
    assert boot.add(Anchor(2 * minute_us, TRUE_US + 2 * minute_us, 1_000, 2))
    assert not boot.add(Anchor(SLOT_US, TRUE_US + SLOT_US + hour_us, 1_000, 2))
    assert boot.add(Anchor(SLOT_US + minute_us, TRUE_US + SLOT_US + minute_us + hour_us, 1_000, 2))
    assert [anchor.offset_us for anchor in boot.anchors] == [TRUE_US + hour_us]


def test_a_worse_clock_never_replaces_a_better_one_and_a_better_one_replaces_it_at_once() -> None:
    boot = Boot([Anchor(0, TRUE_US, 1_000, 2)])
    for number in range(1, 5):
        assert not boot.add(Anchor(number * SLOT_US, TRUE_US + number * SLOT_US + SECOND_US, 1_000, 1))
    assert [anchor.quality for anchor in boot.anchors] == [2]
    boot = Boot([Anchor(0, TRUE_US, 1_000, 1), Anchor(SLOT_US, TRUE_US + SLOT_US, 1_000, 1)])
    assert boot.add(Anchor(2 * SLOT_US, TRUE_US + 3 * SLOT_US, 1_000, 2))
    assert [anchor.quality for anchor in boot.anchors] == [2]


def test_an_edge_in_1970_is_not_believed() -> None:
    world = World()
    world.time.requested(UUID(int=7))
    response = TimeResponse(event_id=UUID(int=7), received_at=from_us(SECOND_US), quality=2)
    world.time.take(DeviceAck(epoch=EPOCH, ts=from_us(SECOND_US), time=response))
    assert world.time.correction(world.run(wall_us=TRUE_US)) is UNSET


def test_a_boot_keeps_its_first_anchor_and_the_newest_and_never_too_many() -> None:
    boot = Boot()
    for number in range(1000):
        boot.add(Anchor(number * SLOT_US, TRUE_US + number * SLOT_US, 1_000, 2))
    assert len(boot.anchors) <= ANCHORS_MAX
    assert (boot.anchors[0].monotonic_us, boot.anchors[-1].monotonic_us) == (0, 999 * SLOT_US)


def test_a_clock_that_was_set_in_between_begins_a_new_segment() -> None:
    timeline = Timeline(Boot([Anchor(0, TRUE_US, 0, 2)]))
    walls = [at * SECOND_US + (3_600 * SECOND_US if at >= 60 else 0) for at in range(100)]
    frames = [Frame(1 + at, wall_us, at * SECOND_US, 0, 0, 1.0) for at, wall_us in enumerate(walls)]
    assert correction_of(timeline, frames) == [
        TimeSegment(1, 0, TRUE_US, 0),
        TimeSegment(61, 3_660 * SECOND_US, TRUE_US - 3_600 * SECOND_US, 0),
    ]


def test_segments_count_as_the_stream_does_and_not_as_the_spool() -> None:
    timeline = Timeline(Boot([Anchor(0, TRUE_US, 0, 2)]))
    assert correction_of(timeline, [Frame(1001, 5, 5, 0, 0, 1.0)], 1000) == [TimeSegment(1, 5, TRUE_US, 0)]


def test_what_would_leave_the_calendar_is_left_as_it_is() -> None:
    timeline = Timeline(Boot([Anchor(0, -(2**62), 0, 2)]))
    assert correction_of(timeline, [Frame(1, 0, 5, 0, 0, 1.0)]) is UNSET


def test_anchors_outlive_the_process_and_the_boot(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.exchange()
    changes = world.time.changes()
    assert changes is not None
    assert world.time.changes() is None
    world.time.write(changes)
    run = world.run()
    for boot_id in (BOOT, EARLIER):
        assert NodeTime(boot_id, lambda: 0, tmp_path).correction(run) == world.time.correction(run)


@pytest.mark.parametrize("content", [b"", b"[[", b"[[1,2]]", random.Random(1).randbytes(900)])
def test_anchors_that_cannot_be_read_cost_no_more_than_corrections(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ANCHORS_FILE).write_bytes(content)
    world = World(tmp_path)
    assert world.corrected_us() is None
    world.exchange()
    assert world.corrected_us() is not None


def test_live_samples_wait_for_their_first_anchor_only_and_a_backlog_while_the_edge_is_silent() -> None:
    world = World()
    assert world.time.wait_seconds(world.run(), is_live=True) == LIVE_WAIT_US / SECOND_US
    world.now_us += LIVE_WAIT_US
    assert world.time.wait_seconds(world.run(), is_live=True) == 0.0
    assert world.time.wait_seconds(world.run(), is_live=False) == (BACKLOG_WAIT_US - LIVE_WAIT_US) / SECOND_US
    world.now_us += BACKLOG_WAIT_US
    assert world.time.wait_seconds(world.run(), is_live=False) == 0.0
    world.exchange()
    assert world.time.wait_seconds(world.run(), is_live=False) == 0.0
    world.time.connected()
    assert world.time.wait_seconds(world.run(), is_live=False) == BACKLOG_WAIT_US / SECOND_US
    assert world.time.wait_seconds(world.run(), is_live=True) == 0.0  # it has an anchor, if an old one
    assert world.time.wait_seconds(world.run(2), is_live=False) == 0.0
    other = Run(Header(UUID(int=9), EARLIER, 1, 0, ()), world.run().frames)
    assert world.time.wait_seconds(other, is_live=False) == 0.0


def test_nobody_waits_for_an_edge_that_acknowledges_and_knows_no_requests_until_it_responds_after_all() -> None:
    world = World()
    other = DeviceAck(epoch=EPOCH, ts=from_us(TRUE_US))
    world.time.requested(UUID(int=70))
    world.time.take(other)  # it may have been on its way before the request
    assert world.time.wait_seconds(world.run(), is_live=False) > 0
    world.now_us += RESPONSE_US
    world.time.take(other)
    for _ in range(2):
        assert world.time.wait_seconds(world.run(), is_live=False) == 0.0
        world.time.connected()
    world.exchange()  # it was updated
    world.time.connected()
    assert world.time.wait_seconds(world.run(), is_live=False) > 0


def test_a_forwarder_whose_agent_is_gone_asks_for_what_it_has_to_send() -> None:
    world = World()
    asked = [world.asks]
    world.time.wait_seconds(world.run(), is_live=False)
    assert [*asked, world.asks] == [False, True]


def test_after_a_week_offline_samples_of_boots_that_reached_the_edge_are_within_100_ms() -> None:
    """100 ppm of drift, two reboots without a clock, one step of an hour: the aim is 99.9 %."""
    result = offline_week(Scenario(contact_of_middle_boot=True, sample_seconds=60))
    assert result.share(*result.boots) >= 0.999


def test_a_boot_that_never_reached_the_edge_stays_as_its_clock_said_it_and_costs_the_others_nothing() -> None:
    result = offline_week(Scenario(sample_seconds=60))
    first, middle, last = result.boots
    assert result.corrected[middle] == 0
    assert result.share(first, last) >= 0.999
