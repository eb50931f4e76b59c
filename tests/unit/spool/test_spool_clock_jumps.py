"""Clocks that jump. The sequence is the truth about order, the wall clock is only what a sample says, and the monotonic
clock alone closes segments."""

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farmiq.spool import Capture, Cause, Spool
from unit.spool.spool_world import (
    BOOT,
    CHANNELS,
    OTHER_BOOT,
    START_US,
    SampleFields,
    kept,
    lost,
    open_spool,
    samples,
    segment_files,
    small,
)

SECOND = 1_000_000
HOUR = 3600 * SECOND
YEAR = 8766 * HOUR
JUMPS = {
    "a second on": SECOND,
    "a second back": -SECOND,
    "an hour on": HOUR,
    "an hour back": -HOUR,
    "years on": 30 * YEAR,
    "years back": -30 * YEAR,
    "past 2038": 2**31 * SECOND - START_US + SECOND,
    "to 1970": -START_US,
    "before 1970": -START_US - YEAR,
    "as far back as a clock can be": -(2**63) + 1 - START_US,
}


class Node:
    """A spool whose clocks are set by hand."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.folder = folder
        self.limits = small(**limits)
        self.wall_us = START_US
        self.monotonic_seconds = 1000.0
        self.boot = BOOT
        self.written: list[SampleFields] = []
        self.start()

    def start(self) -> None:
        self.spool = Spool(
            self.folder, self.limits, wall_us=lambda: self.wall_us, monotonic=lambda: self.monotonic_seconds
        )
        self.spool.begin(self.boot, CHANNELS)

    def sample(self, count: int) -> None:
        """One a second."""
        for number in range(len(self.written) + 1, len(self.written) + count + 1):
            self.wall_us += SECOND
            self.monotonic_seconds += 1
            self.written.append((self.wall_us, int(self.monotonic_seconds * SECOND), number % 2, 1, float(number)))
            assert self.spool.append_many(self.written[-1:]) == (number, number)
        self.spool.sync()

    def reboot(self) -> None:
        """Another boot counts its uptime from the beginning, however long the node was off."""
        self.spool.release()
        self.boot = OTHER_BOOT
        self.monotonic_seconds = 3.0
        self.start()

    def read(self) -> list[SampleFields]:
        """In sequence, without their sequences, which have no gap."""
        frames = kept(self.spool)
        assert list(frames) == list(range(len(self.written) - len(frames) + 1, len(self.written) + 1))
        return [frame[1:] for frame in frames.values()]


@pytest.mark.parametrize("jump_us", JUMPS.values(), ids=JUMPS)
def test_a_jump_of_the_wall_clock_changes_neither_order_nor_rotation_and_loses_nothing(
    tmp_path: Path, jump_us: int
) -> None:
    steady, jumping = Node(tmp_path / "steady", segment_seconds=60), Node(tmp_path / "jumping", segment_seconds=60)
    for node in (steady, jumping):
        node.sample(50)
        node.wall_us += jump_us if node is jumping else 0
        node.sample(25)
        node.spool.release()
        node.start()
        node.sample(150)
    assert jumping.read() == jumping.written
    assert lost(jumping.spool) == set()
    assert segment_files(jumping.folder) == segment_files(steady.folder)
    assert len(segment_files(jumping.folder)) > 3


@pytest.mark.parametrize("jump_us", JUMPS.values(), ids=JUMPS)
def test_a_loss_names_the_times_of_its_own_samples_and_when_it_was_decided(tmp_path: Path, jump_us: int) -> None:
    node = Node(tmp_path, max_spool_bytes=4 * 4096)
    node.sample(40)
    node.wall_us += jump_us
    for _ in range(12):
        node.sample(50)
    first = node.spool.losses.all()[0]
    assert (first.first_seq, first.last_seq, first.cause) == (1, 89, Cause.CAP_REACHED)
    assert (first.first_wall_us, first.last_wall_us) == (node.written[0][0], node.written[88][0])
    assert node.written[89][0] <= first.dropped_at_us <= node.wall_us
    assert set(kept(node.spool)) | lost(node.spool) == set(range(1, 641))
    before = node.spool.losses.all()
    node.reboot()
    assert node.spool.losses.all() == before


def test_another_boot_begins_a_segment_and_its_small_uptimes_do_not_hide_its_samples(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.sample(20)
    node.wall_us -= 2 * YEAR  # a node without a battery starts where its last known time was
    node.reboot()
    assert node.spool.last_capture == Capture(BOOT, 1020 * SECOND, 0)
    node.sample(20)
    assert node.spool.last_capture == Capture(OTHER_BOOT, 23 * SECOND, 0)
    assert node.read() == node.written
    reader = node.spool.reader()
    runs = [reader.read(after_seq, 100) for after_seq in (0, 20)]
    assert [(run.header.boot_id, len(run.frames)) for run in runs if run] == [(BOOT, 20), (OTHER_BOOT, 20)]
    reader.close()


def test_time_that_the_node_slept_through_closes_no_segment(tmp_path: Path) -> None:
    node = Node(tmp_path, segment_seconds=60)
    node.sample(30)
    node.wall_us += 30 * 24 * HOUR
    node.sample(30)
    assert segment_files(tmp_path) == [f"{1:020d}.open"]
    node.sample(1)
    assert segment_files(tmp_path) == [f"{1:020d}-{60:020d}.seg", f"{61:020d}.open"]
    assert node.read() == node.written


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    times=st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1, max_size=120),
    clock_us=st.integers(-(2**63) + 1, 2**63 - 1),
)
def test_any_wall_times_in_any_order_come_back_as_they_were_told(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], clock_us: int
) -> None:
    folder = tmp_path_factory.mktemp("times")
    spool = Spool(folder, small(), wall_us=lambda: clock_us, monotonic=lambda: 0.0)
    spool.begin(BOOT, CHANNELS)
    spool.append_many([(wall_us, number, 0, 0, float(number)) for number, wall_us in enumerate(times)])
    spool.give_up(UUID(int=1), 2, (clock_us, clock_us))
    spool.release()
    spool = open_spool(folder)
    assert [frame.wall_us for frame in kept(spool).values()] == times
    assert [(loss.first_wall_us, loss.dropped_at_us) for loss in spool.losses.all()] == [(clock_us, clock_us)]
    assert spool.append_many(samples(1)) == (len(times) + 3, len(times) + 3)
    spool.release()
