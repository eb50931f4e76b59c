"""Whose spool it is, and which stream its samples are in: disks that were set back, copied folders, other machines.

Findings 2 and 3 of the reading of the path from device to edge."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from farmiq.spool import Channel, HeldBoot, Limits, Owner, Spool, disk, inspection
from farmiq.spool.losses import Cause
from farmiq.spool.streams import SET_ASIDE
from unit.spool.spool_world import BOOT, CHANNELS, OTHER_BOOT, START_US, SampleFields, small

DAY_US = 86_400_000_000
OWNER = Owner("node-1", "machine-1")
Name = tuple[UUID, int]


def later(count: int, first: int = 1, *, after_us: int = DAY_US) -> list[SampleFields]:
    """As `samples`, a day later and with other values."""
    return [(START_US + after_us + i * 1000, i * 1000, i % 2, 2, 5000.0 + i) for i in range(first, first + count)]


def samples(count: int, first: int = 1) -> list[SampleFields]:
    return [(START_US + i * 1000, i * 1000, i % 2, 2, float(i)) for i in range(first, first + count)]


def opened(folder: Path, boot: UUID = BOOT, owner: Owner | None = OWNER, limits: Limits | None = None) -> Spool:
    spool = Spool(folder, limits or small(), wall_us=lambda: START_US, monotonic=lambda: 0.0, owner=owner)
    spool.begin(boot, CHANNELS)
    return spool


def recorded(spool: Spool, fields: list[SampleFields]) -> None:
    spool.append_many(fields)
    spool.sync()


class Edge:
    """As much of one as the node compares with: what is stored under each name, and of which boot."""

    def __init__(self) -> None:
        self.stored: dict[Name, tuple[UUID, int, float]] = {}

    def take(self, spool: Spool) -> None:
        """Everything that is not acknowledged, as the publisher sends it."""
        reader = spool.reader()
        after_seq = spool.acked.seq
        while (run := reader.read(after_seq, 7)) is not None:
            for frame in run.frames:
                name = (run.header.stream_id, frame.seq - run.offset)
                assert self.stored.setdefault(name, (run.header.boot_id, frame.wall_us, frame.value))[2] == frame.value
            after_seq = run.frames[-1].seq
        reader.close()

    def mark(self, stream_id: UUID) -> int:
        seq = 0
        while (stream_id, seq + 1) in self.stored:
            seq += 1
        return seq

    def boots(self, stream_id: UUID) -> list[HeldBoot]:
        found: dict[UUID, HeldBoot] = {}
        for (stream, seq), (boot_id, wall_us, _) in sorted(self.stored.items()):
            if stream == stream_id:
                first_seq = found[boot_id].first_seq if boot_id in found else seq
                found[boot_id] = HeldBoot(boot_id, first_seq, seq, wall_us)
        return list(found.values())

    def first_unlike(self, spool: Spool, *, knows_boots: bool = True) -> int | None:
        mark = self.mark(spool.stream_id)
        boots = self.boots(spool.stream_id) if knows_boots else []
        return spool.first_unlike(boots, [(1, mark)] if mark else [])

    @property
    def values(self) -> list[float]:
        return sorted(value for _, _, value in self.stored.values())


@pytest.fixture
def set_back(tmp_path: Path) -> tuple[Path, Edge]:
    """An image of a disk with 40 samples, of which 30 were acknowledged; the edge got 100 before the disk was set back to it."""
    edge = Edge()
    spool = opened(tmp_path / "disk")
    recorded(spool, samples(40))
    spool.acknowledge(30)
    spool.close()
    shutil.copytree(tmp_path / "disk", tmp_path / "image")
    spool = opened(tmp_path / "disk")
    recorded(spool, samples(60, 41))
    edge.take(spool)
    edge.stored |= {(spool.stream_id, seq): (BOOT, START_US + seq * 1000, float(seq)) for seq in range(1, 31)}
    spool.close()
    return tmp_path / "image", edge


@pytest.mark.parametrize("count", [30, 60, 61, 200])
@pytest.mark.parametrize("boot", [BOOT, OTHER_BOOT], ids=["same boot", "other boot"])
def test_nothing_that_was_stored_after_a_setback_vanishes(set_back: tuple[Path, Edge], count: int, boot: UUID) -> None:
    """promise-device-edge 2: fewer samples than the edge has, exactly as many, and more, so that its mark is not absurd."""
    folder, edge = set_back
    spool = opened(folder, boot)
    old = spool.stream_id
    recorded(spool, later(count))
    assert edge.first_unlike(spool) == 41, "what the edge has already is not sent again"
    spool.begin_stream(41)
    spool.acknowledge(edge.mark(old), stream_id=old)
    assert spool.acked.seq == 40
    edge.take(spool)
    assert edge.values == sorted([*map(float, range(1, 101)), *(5000.0 + i for i in range(1, count + 1))])
    assert spool.stream_id != old
    assert edge.first_unlike(spool) is None, "and the new stream is this spool's own"
    spool.acknowledge(edge.mark(spool.stream_id))
    assert (spool.acked.seq, spool.usage().unacked_samples) == (40 + count, 0)
    assert spool.losses.all() == []
    spool.close()


def test_after_several_boots_since_the_setback_each_sample_is_sent_once(set_back: tuple[Path, Edge]) -> None:
    folder, edge = set_back
    boots = [uuid4(), uuid4(), uuid4()]
    for number, boot in enumerate(boots):
        spool = opened(folder, boot)
        recorded(spool, later(30, 1 + 30 * number))
        spool.close()
    spool = opened(folder, boots[-1])
    assert edge.first_unlike(spool) == 41
    spool.begin_stream(41)
    edge.take(spool)
    assert edge.values == sorted([*map(float, range(1, 101)), *(5000.0 + i for i in range(1, 91))])
    spool.close()


def test_from_an_edge_that_knows_no_boots_all_that_is_unacknowledged_is_sent_again(set_back: tuple[Path, Edge]) -> None:
    """An edge of 0.1.0 says only how far it is: what it may have or not have is sent, rather than lost."""
    folder, edge = set_back
    spool = opened(folder, OTHER_BOOT)
    recorded(spool, later(30))
    assert edge.first_unlike(spool, knows_boots=False) == 31
    spool.begin_stream(31)
    edge.take(spool)
    assert {5000.0 + i for i in range(1, 31)} <= set(edge.values)
    spool.close()


def test_a_setback_before_anything_new_was_captured_costs_no_number_twice(set_back: tuple[Path, Edge]) -> None:
    folder, edge = set_back
    spool = opened(folder, OTHER_BOOT)
    old = spool.stream_id
    assert edge.first_unlike(spool) == 41
    spool.begin_stream(41)
    spool.acknowledge(edge.mark(old), stream_id=old)
    assert spool.usage().unacked_samples == 0
    recorded(spool, later(5))
    edge.take(spool)
    assert edge.mark(spool.stream_id) == 5
    spool.close()


def test_a_spool_that_goes_on_as_it_should_begins_no_stream(tmp_path: Path) -> None:
    """Reboots, and clocks that are set in between."""
    edge = Edge()
    for number, (boot, after_us) in enumerate(
        [(BOOT, 0), (OTHER_BOOT, -DAY_US), (uuid4(), DAY_US), (BOOT, 3 * DAY_US)]
    ):
        spool = opened(tmp_path, uuid4() if number == 3 else boot)
        recorded(spool, later(20, 1 + 20 * number, after_us=after_us))
        assert edge.first_unlike(spool) is None
        edge.take(spool)
        assert edge.first_unlike(spool) is None
        spool.acknowledge(edge.mark(spool.stream_id) - 5)
        assert edge.first_unlike(spool) is None
        spool.close()
    assert len({stream for stream, _ in edge.stored}) == 1


def test_losses_of_what_moves_to_a_new_stream_are_told_anew_as_its_own(set_back: tuple[Path, Edge]) -> None:
    folder, _ = set_back
    spool = opened(folder, OTHER_BOOT)
    old = spool.stream_id
    recorded(spool, later(5))
    told = uuid4()
    spool.give_up(told, 10, (START_US, START_US))
    spool.losses.acknowledge([told])
    spool.begin_stream(41)
    (loss,) = spool.losses.outstanding()
    assert loss.loss_id != told
    assert (loss.stream_id, loss.first_seq - loss.offset, loss.last_seq - loss.offset) == (spool.stream_id, 6, 15)
    spool.close()
    spool = opened(folder, OTHER_BOOT)
    assert spool.losses.outstanding() == [loss]
    assert spool.former_streams == [old]
    spool.close()


def test_a_loss_that_reaches_over_both_streams_is_one_of_each(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    recorded(spool, samples(10))
    told = uuid4()
    spool.give_up(told, 10, (START_US, START_US))
    spool.losses.acknowledge([told])
    old = spool.stream_id
    spool.begin_stream(16)
    pieces = [(one.stream_id, one.first_seq - one.offset, one.last_seq - one.offset) for one in spool.losses.all()]
    assert pieces == [(old, 11, 15), (spool.stream_id, 1, 5)]
    assert [one.is_acknowledged for one in spool.losses.all()] == [True, False]
    spool.close()


class Killed(Exception):
    pass


@pytest.mark.parametrize("step", range(1, 12))
def test_killed_at_any_step_of_beginning_a_stream_nothing_is_lost_or_named_twice(
    set_back: tuple[Path, Edge], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, edge = set_back
    spool = opened(folder, OTHER_BOOT)
    recorded(spool, later(30))
    loss_id = uuid4()
    spool.give_up(loss_id, 5, (START_US, START_US))
    calls = 0

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step:
                raise Killed
            return real(*given)

        return call

    with monkeypatch.context() as patched:
        for name in ("write_all", "sync_file", "sync_folder", "sync_data"):
            patched.setattr(disk, name, dying(getattr(disk, name)))
        with contextlib.suppress(Killed):
            spool.begin_stream(41)
    spool.release()
    spool = opened(folder, uuid4())
    if (first_seq := edge.first_unlike(spool)) is not None:
        assert first_seq == 41
        spool.begin_stream(first_seq)
    edge.take(spool)
    assert edge.values == sorted([*map(float, range(1, 101)), *(5000.0 + i for i in range(1, 31))])
    (loss,) = spool.losses.outstanding()
    assert (loss.stream_id, loss.first_seq - loss.offset, loss.cause) == (spool.stream_id, 31, Cause.NOT_CAPTURED)
    spool.close()


def test_a_former_stream_is_acknowledged_and_read_under_its_own_numbers(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    recorded(spool, samples(10))
    old = spool.stream_id
    spool.begin_stream(11)
    recorded(spool, samples(10, 11))
    runs, reader, after_seq = [], spool.reader(), 0
    while (run := reader.read(after_seq, 100)) is not None:
        runs.append((run.header.stream_id, run.frames[0].seq - run.offset, len(run.frames)))
        after_seq = run.frames[-1].seq
    reader.close()
    assert runs == [(old, 1, 10), (spool.stream_id, 1, 10)]
    spool.acknowledge(4)
    assert (spool.acked.seq, spool.received, spool.usage().unacked_samples) == (0, [(11, 14)], 16)
    spool.acknowledge(100, stream_id=old)
    assert (spool.acked.seq, spool.usage().unacked_samples) == (14, 6)
    assert (spool.mark_of(old), spool.mark_of(spool.stream_id)) == (10, 4)
    spool.close()


def test_an_edge_that_went_back_gets_the_former_streams_again_too(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    recorded(spool, samples(10))
    old = spool.stream_id
    spool.begin_stream(11)
    recorded(spool, samples(10, 11))
    spool.go_back(10, "first")
    spool.acknowledge(10, stream_id=old)
    assert spool.usage().unacked_samples == 0
    spool.go_back(3, "second")
    assert (spool.usage().unacked_samples, spool.losses.all()) == (17, [])
    spool.acknowledge(10)
    spool.go_back(6, "second", stream_id=old)
    assert (spool.usage().unacked_samples, spool.received) == (4, [(11, 20)])
    spool.close()


# Whose spool it is


def test_a_folder_from_another_device_is_set_aside_as_a_whole(tmp_path: Path) -> None:
    """promise-device-edge 3: a golden image with a spool folder in it."""
    spool = opened(tmp_path)
    recorded(spool, samples(10))
    spool.give_up(uuid4(), 3, (START_US, START_US))
    theirs = spool.stream_id
    spool.close()
    spool = opened(tmp_path, owner=Owner("node-2", "machine-2"))
    assert spool.stream_id != theirs
    assert (spool.synced_seq, spool.usage().unacked_samples, spool.losses.all()) == (0, 0, [])
    assert spool.streams.set_aside == tmp_path / SET_ASIDE / str(theirs)
    recorded(spool, later(4))
    spool.close()
    spool = opened(tmp_path, owner=Owner("node-2", "machine-2"))
    assert (spool.synced_seq, spool.streams.set_aside) == (4, None)
    spool.close()
    view = inspection.inspect(tmp_path / SET_ASIDE / str(theirs))
    assert (view.stream_id, sum(last - first + 1 for first, last in view.unacked)) == (theirs, 10)
    assert [loss.count for loss in view.losses] == [3]


@pytest.mark.parametrize("step", range(1, 9))
def test_killed_while_a_folder_is_set_aside_it_is_set_aside_as_a_whole(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = opened(tmp_path, limits=small(segment_seconds=0.0))
    for number in range(3):
        recorded(spool, samples(10, 1 + 10 * number))
    theirs = spool.stream_id
    spool.close()
    calls, rename = 0, Path.rename

    def dying(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == step:
            raise Killed
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dying)
        with contextlib.suppress(Killed):
            opened(tmp_path, owner=Owner("node-2")).release()
    spool = opened(tmp_path, owner=Owner("node-2"))
    assert spool.synced_seq == 0
    assert spool.stream_id != theirs
    spool.close()
    assert inspection.inspect(tmp_path / SET_ASIDE / str(theirs)).held == [(1, 30)]


def test_in_another_machine_a_spool_goes_on_under_a_new_stream_and_keeps_what_it_owes(tmp_path: Path) -> None:
    """The disk was put into another board, or copied: one of two copies must not number on where the other one does."""
    edge = Edge()
    spool = opened(tmp_path / "first")
    recorded(spool, samples(10))
    old = spool.stream_id
    spool.close()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    both = [opened(tmp_path / "first"), opened(tmp_path / "second", uuid4(), Owner("node-1", "machine-2"))]
    assert [spool.is_moved for spool in both] == [False, True]
    recorded(both[0], samples(10, 11))
    recorded(both[1], later(10))
    for spool in both:
        edge.take(spool)
        assert edge.first_unlike(spool) is None
        spool.close()
    assert edge.values == sorted([*map(float, range(1, 21)), *(5000.0 + i for i in range(1, 11))])
    assert edge.mark(old) == 20
    spool = opened(tmp_path / "second", uuid4(), Owner("node-1", "machine-2"))
    assert not spool.is_moved
    spool.close()


def test_a_folder_of_the_release_before_belongs_to_whom_it_is_found_with(tmp_path: Path) -> None:
    spool = opened(tmp_path, owner=None)
    recorded(spool, samples(5))
    stream_id = spool.stream_id
    spool.close()
    assert (tmp_path / "stream").read_text() == f"{stream_id}\n", "and is written as that release did"
    spool = opened(tmp_path)
    assert (spool.stream_id, spool.synced_seq, spool.is_moved) == (stream_id, 5, False)
    spool.close()
    assert (tmp_path / "stream").read_text().splitlines()[0] == str(stream_id)


def test_when_nothing_says_any_more_which_numbers_were_whose_the_rest_begins_a_stream(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    recorded(spool, samples(10))
    spool.acknowledge(10)
    spool.begin_stream(11)
    recorded(spool, later(10))
    newest = spool.stream_id
    spool.close()
    os.truncate(tmp_path / "stream", 50)
    spool = opened(tmp_path)
    assert spool.stream_id != newest
    assert (spool.usage().unacked_samples, spool.streams.current.offset) == (10, 10)
    spool.close()


def test_channels_of_a_run_are_those_of_its_segment_whatever_the_stream(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    recorded(spool, samples(4))
    spool.begin_stream(3)
    run = spool.reader().read(2, 10)
    assert run is not None
    assert (run.header.channels, run.offset) == (tuple(map(Channel._make, CHANNELS)), 2)
    spool.close()


def test_a_full_disk_keeps_no_spool_of_an_earlier_release_from_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file names no owner yet, and there is no room to write one."""
    spool = opened(tmp_path, owner=None)
    recorded(spool, samples(5))
    spool.release()

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(disk, "replace_file", refuse)
        again = Spool(tmp_path, small(), wall_us=lambda: START_US, monotonic=lambda: 0.0, owner=OWNER)
    assert (again.stream_id, again.streams.layout.owner) == (spool.stream_id, OWNER)
    again.release()
    opened(tmp_path).release()
    assert opened(tmp_path, owner=None).streams.layout.owner == OWNER, "noted at the next start"
