from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.spool import Cause, Limits, Spool
from farmiq.spool.retention import Stretch, held_us
from unit.spool.spool_world import BOOT, CHANNELS, OTHER_BOOT, START_US, SampleFields, kept, lost, samples, small

HOUR = 3600
YEARS_US = 40 * 365 * 24 * HOUR * 1_000_000
SEGMENT = 89  # frames to a segment


class Node:
    """A node whose clocks the test sets. It takes one sample each second of running time."""

    def __init__(self, folder: Path, **limits: float) -> None:
        self.folder = folder
        self.limits = small(segment_seconds=1e9, **limits)
        self.running_seconds = 1000.0
        self.wall_us = START_US
        self.boot = BOOT
        self.booted_at_seconds = 0.0
        self.taken = 0
        self.start()

    def start(self) -> None:
        self.spool = Spool(
            self.folder, self.limits, wall_us=lambda: self.wall_us, monotonic=lambda: self.running_seconds
        )
        self.spool.begin(self.boot, CHANNELS)

    def restart(self, *, boot: UUID | None = None) -> None:
        self.spool.release()
        if boot is not None:
            self.boot, self.booted_at_seconds = boot, self.running_seconds
        # A process may find its monotonic clock anywhere: nothing of it may be compared across a start.
        self.running_seconds, self.booted_at_seconds = 7.0, self.booted_at_seconds - self.running_seconds + 7.0
        self.start()

    def measure(self, count: int) -> None:
        for _ in range(count):
            self.pass_seconds(1)
            self.taken += 1
            monotonic_us = int((self.running_seconds - self.booted_at_seconds) * 1_000_000)
            self.spool.append_many([(self.wall_us, monotonic_us, 0, 2, float(self.taken))])
        self.spool.sync()

    def pass_seconds(self, seconds: float) -> None:
        self.running_seconds += seconds
        self.wall_us += int(seconds * 1_000_000)

    def oldest(self) -> int:
        self.spool.trim()
        return min(kept(self.spool))


def test_segments_older_than_the_cap_go_oldest_first_each_with_a_record_that_survives(tmp_path: Path) -> None:
    node = Node(tmp_path, max_spool_seconds=HOUR)
    node.measure(3 * SEGMENT)
    node.pass_seconds(HOUR - 2 * SEGMENT)
    assert node.oldest() == 1
    node.pass_seconds(3)
    assert node.oldest() == SEGMENT + 1
    losses = node.spool.losses.all()
    assert [(loss.first_seq, loss.last_seq, loss.cause) for loss in losses] == [(1, SEGMENT, Cause.AGED_OUT)]
    assert losses[0].first_wall_us == START_US + 1_000_000
    node.spool.release()
    node.start()
    assert node.spool.losses.all() == losses


def test_what_the_edge_has_goes_without_a_record_and_the_newest_frames_stay(tmp_path: Path) -> None:
    node = Node(tmp_path, max_spool_seconds=HOUR)
    node.measure(3 * SEGMENT)
    node.spool.acknowledge(SEGMENT, received=[(SEGMENT + 1, SEGMENT + 80)])
    node.pass_seconds(1000 * HOUR)
    assert node.oldest() == 2 * SEGMENT + 1
    assert lost(node.spool) == set(range(SEGMENT + 81, 2 * SEGMENT + 1))
    node.measure(1)
    assert node.taken == max(kept(node.spool))


def test_without_an_age_cap_nothing_is_too_old(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.measure(3 * SEGMENT)
    node.pass_seconds(10_000 * HOUR)
    node.restart()
    assert node.oldest() == 1


@pytest.mark.parametrize("jump_us", [YEARS_US, -YEARS_US])
def test_a_wall_clock_that_jumps_by_years_makes_nothing_old_and_nothing_young(tmp_path: Path, jump_us: int) -> None:
    node = Node(tmp_path, max_spool_seconds=HOUR)
    node.measure(2 * SEGMENT)
    node.wall_us += jump_us
    node.measure(2 * SEGMENT)
    assert node.oldest() == 1
    node.restart()
    assert node.oldest() == 1
    node.restart(boot=OTHER_BOOT)
    assert node.oldest() == 1
    node.wall_us -= jump_us
    node.measure(SEGMENT)
    assert node.oldest() == 1
    assert lost(node.spool) == set()
    node.pass_seconds(HOUR + SEGMENT)
    assert node.oldest() > 2 * SEGMENT


def test_age_goes_on_across_a_restart_and_across_a_boot(tmp_path: Path) -> None:
    """10 minutes of samples, a restart after each quarter hour, a boot in between: each start reads the age off the frames."""
    node = Node(tmp_path, max_spool_seconds=HOUR)
    node.measure(SEGMENT)
    for boot in (None, OTHER_BOOT, None):
        node.measure(1)
        node.pass_seconds(HOUR / 4)
        node.measure(SEGMENT)
        node.restart(boot=boot)
        assert node.oldest() == 1
    node.measure(1)
    node.pass_seconds(HOUR / 4)
    assert node.oldest() > SEGMENT
    assert {loss.cause for loss in node.spool.losses.all()} == {Cause.AGED_OUT}


def test_time_between_two_boots_is_not_counted(tmp_path: Path) -> None:
    node = Node(tmp_path, max_spool_seconds=HOUR)
    node.measure(2 * SEGMENT)
    node.pass_seconds(500 * HOUR)
    node.restart(boot=OTHER_BOOT)
    node.measure(2 * SEGMENT)
    assert node.oldest() == 1


def test_a_start_drops_what_is_too_old_by_then(tmp_path: Path) -> None:
    node = Node(tmp_path, max_spool_seconds=10 * HOUR)
    node.measure(SEGMENT)
    node.pass_seconds(2 * HOUR)
    node.measure(SEGMENT + 1)
    node.limits = small(max_spool_seconds=HOUR)
    node.restart()
    assert lost(node.spool) == set(range(1, SEGMENT + 1))


def test_frames_that_cannot_be_read_tell_no_age_and_stop_no_start(tmp_path: Path) -> None:
    node = Node(tmp_path, max_spool_seconds=HOUR)
    node.measure(4 * SEGMENT)
    for path in sorted(tmp_path.glob("*.seg"))[:2]:
        path.write_bytes(bytes(path.stat().st_size))
    node.restart()
    node.spool.trim()
    assert lost(node.spool) == set()
    assert set(kept(node.spool)) == set(range(2 * SEGMENT + 1, 4 * SEGMENT + 1))


def test_by_age_and_by_size_each_loss_names_its_own_cause(tmp_path: Path) -> None:
    node = Node(tmp_path, max_spool_seconds=HOUR, max_spool_bytes=4 * 4096)
    node.measure(2 * SEGMENT + 1)
    node.pass_seconds(2 * HOUR)
    node.spool.append_many(at(node, 5 * SEGMENT))
    node.spool.sync()
    causes = {loss.first_seq: loss.cause for loss in node.spool.losses.all()}
    assert causes[1] == causes[SEGMENT + 1] == Cause.AGED_OUT
    assert causes[2 * SEGMENT + 1] == Cause.CAP_REACHED


def at(node: Node, count: int) -> list[SampleFields]:
    return [(node.wall_us, int(node.running_seconds * 1_000_000), 0, 2, 0.0)] * count


def test_an_age_cap_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="max_spool_seconds"):
        Limits(max_spool_seconds=0)


stretch = st.none() | st.builds(
    lambda boot, first, more: Stretch(UUID(int=boot), first, first + more),
    st.integers(1, 2),
    st.integers(0, 50),
    st.integers(0, 50),
)


@given(st.lists(stretch, max_size=8))
def test_older_segments_are_never_thought_younger_and_none_older_than_the_running_time_shown(
    stretches: list[Stretch | None],
) -> None:
    ages = held_us(stretches)
    assert len(ages) == len(stretches)
    assert ages == sorted(ages, reverse=True)
    assert not ages or ages[-1] == 0
    for index, age in enumerate(ages):
        later = [one for one in stretches[index + 1 :] if one is not None]
        assert age <= sum(one.last_us for one in later)


def test_running_time_adds_up_over_boots() -> None:
    one, two = UUID(int=1), UUID(int=2)
    stretches = [Stretch(one, 0, 10), Stretch(one, 11, 30), Stretch(two, 5, 12), None, Stretch(two, 20, 25), None]
    assert held_us(stretches) == [32, 12, 5, 5, 0, 0]


def test_the_samples_of_a_spool_may_carry_any_time(tmp_path: Path) -> None:
    """Monotonic times that run backwards are somebody's bug, and must not cost data."""
    spool = Spool(tmp_path, small(max_spool_seconds=1), monotonic=lambda: 0.0)
    spool.begin(BOOT, CHANNELS)
    spool.append_many(list(reversed(samples(3 * SEGMENT))))
    spool.close()
    spool = Spool(tmp_path, small(max_spool_seconds=1), monotonic=lambda: 0.0)
    spool.trim()
    assert len(kept(spool)) == 3 * SEGMENT


class PowerCut(BaseException):
    pass


@pytest.mark.parametrize(
    "interrupted",
    ["disk.sync_folder", "keeper.Keeper._declare_dropped", "losses.LossJournal._store", "marks._Slots.sync"],
)
def test_dropping_by_age_interrupted_anywhere_leaves_every_sample_readable_or_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    def power_cut(*_: object) -> None:
        raise PowerCut

    node = Node(tmp_path, max_spool_seconds=HOUR)
    node.measure(4 * SEGMENT)
    node.spool.acknowledge(SEGMENT + 1)
    node.pass_seconds(2 * HOUR)
    with monkeypatch.context() as patch:
        patch.setattr(f"farmiq.spool.{interrupted}", power_cut)
        with pytest.raises(PowerCut):
            node.spool.trim()
    node.restart()
    accounted = set(kept(node.spool)) | lost(node.spool) | set(range(1, node.spool.acked.seq + 1))
    assert accounted == set(range(1, 4 * SEGMENT + 1))
    node.measure(1)
    assert max(kept(node.spool)) == 4 * SEGMENT + 1
