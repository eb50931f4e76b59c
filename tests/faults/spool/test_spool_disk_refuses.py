import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from farmiq.spool import Cause, Limits, Range, Spool, SpoolFull, SyncFailed, SyncPolicy, disk
from farmiq.spool.ranges import merged, runs, without
from unit.spool.spool_world import kept, lost, open_spool, samples, segment_files, values


class Refusing:
    """Stands before one of the disk's calls and refuses the ones that it is told to."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str, number: int = errno.EIO) -> None:
        self.calls = 0
        self.refused: set[int] = set()
        self._call = getattr(disk, name)
        self._number = number
        patch.setattr(disk, name, self)

    def __call__(self, *arguments: object) -> None:
        self.calls += 1
        if self.calls in self.refused:
            raise OSError(self._number, os.strerror(self._number))
        self._call(*arguments)

    def refuse_next(self) -> None:
        self.refused.add(self.calls + 1)


def test_a_failed_sync_is_not_believed_and_what_was_not_acknowledged_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(5))
    spool.sync()
    before = spool.last_capture
    sync = Refusing(monkeypatch, "sync_data")
    spool.append_many(samples(3, 6))
    sync.refuse_next()
    with pytest.raises(SyncFailed) as failure:
        spool.sync()
    assert failure.value.kept_through == spool.safe_seq == 5
    assert spool.last_capture == before
    assert set(kept(spool)) == {1, 2, 3, 4, 5}
    assert spool.append_many(samples(3, 6)) == (6, 8)
    spool.sync()
    assert segment_files(tmp_path) == [f"{1:020d}-{5:020d}.seg", f"{6:020d}.open"]
    spool.release()
    spool = open_spool(tmp_path)
    assert values(spool) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert lost(spool) == set()


def test_a_failed_first_sync_leaves_no_segment_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool(tmp_path, policy=SyncPolicy.ALWAYS)
    sync = Refusing(monkeypatch, "sync_data")
    sync.refuse_next()
    with pytest.raises(SyncFailed):
        spool.append_many(samples(3))
    assert segment_files(tmp_path) == []
    assert spool.append_many(samples(3)) == (1, 3)
    assert values(spool) == [1.0, 2.0, 3.0]


def test_a_failed_sync_under_the_os_policy_declares_what_had_been_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path, policy=SyncPolicy.OS)
    spool.append_many(samples(2))
    spool.sync()
    sync = Refusing(monkeypatch, "sync_data")
    spool.append_many(samples(4, 3))
    assert spool.safe_seq == 6
    sync.refuse_next()
    with pytest.raises(SyncFailed):
        spool.sync()
    assert [(loss.first_seq, loss.last_seq, loss.cause) for loss in spool.losses.all()] == [(3, 6, Cause.SYNC_FAILED)]
    assert spool.append_many(samples(1, 7)) == (7, 7)
    spool.sync()
    assert values(spool) == [1.0, 2.0, 7.0]


def test_a_write_that_fails_halfway_leaves_no_frames_that_nobody_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(5))
    spool.sync()
    write = disk.write_all

    def half(fd: int, data: bytes, offset: int) -> None:
        write(fd, data[: len(data) - 20], offset)
        raise OSError(errno.EIO, "half of it")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_all", half)
        with pytest.raises(SyncFailed):
            spool.append_many(samples(10, 100))
    assert spool.append_many(samples(1, 6)) == (6, 6)
    spool.sync()
    spool.release()
    assert values(open_spool(tmp_path)) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_recovery_whose_sync_fails_believes_only_what_an_earlier_sync_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(5))
    spool.sync()
    spool.append_many(samples(3, 6))
    spool.release()
    with monkeypatch.context() as patch:
        Refusing(patch, "sync_file").refused.add(3)  # after the journal's and the mark's: the segment's
        spool = open_spool(tmp_path)
    assert set(kept(spool)) == {1, 2, 3, 4, 5}
    assert lost(spool) == {6, 7, 8}
    assert spool.append_many(samples(1, 9)) == (9, 9)
    spool.sync()
    assert values(spool) == [1.0, 2.0, 3.0, 4.0, 5.0, 9.0]


@pytest.mark.parametrize("call", ["sync_folder", "sync_file", "sync_data", "write_all"])
def test_a_disk_that_refuses_any_one_call_costs_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Each run refuses one call later than the run before, through rotations and deletions."""
    for refused in range(1, 40):
        folder = tmp_path / str(refused)
        limits = Limits(segment_bytes=4096, grow_bytes=2048, max_spool_bytes=5 * 4096, keep_acked_bytes=0)
        spool = open_spool(folder, limits)
        with monkeypatch.context() as patch:
            Refusing(patch, call).refused.add(refused)
            promised = fill_until_refused(spool)
        spool.release()
        spool = open_spool(folder, limits)
        accounted = set(kept(spool)) | lost(spool) | set(range(1, spool.acked.seq + 1))
        assert set(range(1, promised + 1)) <= accounted
        span = spool.append_many(samples(1, 5000))
        spool.sync()
        assert span is not None
        assert span[0] > promised
        assert kept(spool)[span[0]].value == 5000.0
        spool.close()


def fill_until_refused(spool: Spool) -> int:
    """As far as was promised when the disk refused, or at the end."""
    for start in range(1, 901, 30):
        try:
            spool.append_many(samples(30, start))
            spool.sync()
            if start % 4 == 1:
                spool.acknowledge(spool.synced_seq // 2)
                spool.trim()
        except (OSError, SyncFailed):
            break
    return spool.safe_seq


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a file system of its own needs the right to mount: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def take_all(folder: Path) -> Path:
    """Somebody else's file, over everything that is free."""
    filling = folder / "others"
    with filling.open("wb") as file:
        if free_bytes := disk.free_bytes(folder):
            os.posix_fallocate(file.fileno(), 0, free_bytes)
    return filling


def fill_until_full(spool: Spool) -> int:
    while True:
        try:
            spool.append_many(samples(10, spool.synced_seq + 1))
            spool.sync()
        except SpoolFull:
            return spool.sync()  # what of the group still found room


def test_a_full_disk_drops_the_oldest_with_a_record_and_never_stops_the_writer(tiny_disk: Path) -> None:
    spool = open_spool(tiny_disk / "spool", Limits(segment_bytes=65536, grow_bytes=16384, max_spool_bytes=1 << 30))
    for start in range(1, 100_001, 500):
        assert spool.append_many(samples(500, start)) == (start, start + 499)
        spool.sync()
    readable = kept(spool)
    assert len(readable) > 15_000
    assert readable.keys() | lost(spool) == set(range(1, 100_001))
    spool.acknowledge(100_000)
    spool.append_many(samples(500))
    spool.close()


def test_a_disk_filled_by_others_refuses_the_samples_and_takes_them_when_there_is_room(tiny_disk: Path) -> None:
    limits = Limits(segment_bytes=65536, grow_bytes=16384, max_spool_bytes=1 << 30)
    spool = open_spool(tiny_disk / "spool", limits)
    spool.append_many(samples(300))
    spool.sync()
    filling = take_all(tiny_disk)
    taken = fill_until_full(spool)
    assert set(kept(spool)) == set(range(1, taken + 1))
    spool.release()
    spool = open_spool(tiny_disk / "spool", limits)
    assert set(kept(spool)) == set(range(1, taken + 1))
    filling.unlink()
    assert spool.append_many(samples(10)) == (taken + 1, taken + 10)
    spool.close()


def test_a_disk_filled_and_drained_again_and_again_never_ends_the_process_and_loses_nothing_unsaid(
    tiny_disk: Path,
) -> None:
    """By ourselves, then by others to the last byte, then acknowledged and given back: the same spool throughout."""
    spool = open_spool(tiny_disk / "spool", Limits(segment_bytes=16384, grow_bytes=4096, max_spool_bytes=1 << 30))
    at_edge: list[Range] = []
    dropped: list[Range] = []
    for cycle in range(40):
        write(spool, groups=20 if cycle % 4 else 250)
        filling = take_all(tiny_disk)
        write(spool, groups=20)
        assert_each_is_accounted_for(spool, at_edge)
        filling.unlink()
        acked_seq = max(spool.acked.seq, spool.synced_seq * (10 if cycle % 3 else 9) // 10)
        dropped += told_losses(spool)
        at_edge = merged([(1, acked_seq), *dropped])
        spool.acknowledge(acked_seq)
        spool.trim()
        assert write(spool, groups=1) == 100
        assert_each_is_accounted_for(spool, at_edge)
    assert dropped
    spool.close()


def write(spool: Spool, groups: int) -> int:
    """How many samples were taken. The value of each is its sequence."""
    before_seq = spool.sync()
    for _ in range(groups):
        with contextlib.suppress(SpoolFull):
            spool.append_many(samples(100, spool.synced_seq + 1))
        spool.sync()
    return spool.synced_seq - before_seq


def test_a_full_disk_with_a_full_loss_journal_still_gives_up_its_oldest_and_names_it(tiny_disk: Path) -> None:
    limits = Limits(segment_bytes=4096, grow_bytes=4096, max_spool_bytes=1 << 30)
    spool = open_spool(tiny_disk / "spool", limits)
    write(spool, groups=100)
    filling = take_all(tiny_disk)
    while len(spool.losses.all()) < 511:
        assert write(spool, groups=10) == 1000
    first_ids = {loss.loss_id for loss in spool.losses.all()}
    assert write(spool, groups=50) == 5000
    assert_each_is_accounted_for(spool, [])
    joined = spool.losses.all()[-1]
    assert joined.loss_id not in first_ids
    assert joined.count > 5000
    spool.release()
    spool = open_spool(tiny_disk / "spool", limits)
    assert_each_is_accounted_for(spool, [])
    filling.unlink()
    assert write(spool, groups=50) == 5000
    assert_each_is_accounted_for(spool, [])


def told_losses(spool: Spool) -> list[Range]:
    """The edge has the loss records too, so that the journal does not grow for ever."""
    spool.losses.acknowledge([loss.loss_id for loss in spool.losses.outstanding()])
    return spool.losses.ranges()


def assert_each_is_accounted_for(spool: Spool, at_edge: list[Range]) -> None:
    readable = kept(spool, 1000)
    assert all(frame.value == seq for seq, frame in readable.items())
    assert without((1, spool.synced_seq), [*runs(readable), *spool.losses.ranges(), *at_edge]) == []
