"""A spool is hurt on purpose, opened again, and always written to again."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farmiq.spool import Cause, Spool
from unit.spool.spool_world import OTHER_BOOT, kept, lost, open_spool, samples, segment_files, small

FRAMES = 4
REGION = 512
END = REGION + 40 * FRAMES
RESERVED = 80
OPEN = "00000000000000000001.open"
CLOSED = f"00000000000000000001-{FRAMES:020d}.seg"
# The bits of a segment are many. Each part is a test of its own, so that they can run side by side.
PARTS = 4


class Hurt:
    """One spool, brought back to the same state before each hurt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def spools(self, name: str, changes: Iterator[bytes]) -> Iterator[tuple[bytes, Spool]]:
        for changed in changes:
            for path in self.folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for file_name, data in self._files.items():
                (self.folder / file_name).write_bytes(changed if file_name == name else data)
            spool = open_spool(self.folder)
            yield changed, spool
            spool.release()

    def forget(self, name: str) -> None:
        """As if the power had gone before the kernel wrote this file back."""
        self._files[name] = bytes(len(self._files[name]))

    def content(self, name: str) -> bytes:
        return self._files[name]


@pytest.fixture
def open_segment(tmp_path: Path) -> Hurt:
    """Four frames, all synced and acknowledged to their producer, in the open segment; behind them, reserved space."""
    spool = open_spool(tmp_path, small(grow_bytes=END + RESERVED))
    for start in (1, 3):
        spool.append_many(samples(2, start))
        spool.sync()
    assert spool.safe_seq == FRAMES
    spool.release()
    return Hurt(tmp_path)


@pytest.fixture
def closed_segment(tmp_path: Path) -> Hurt:
    """The same frames in a closed segment; two more in the open one."""
    spool = open_spool(tmp_path)
    spool.append_many(samples(FRAMES))
    spool.begin(OTHER_BOOT, ())
    spool.append_many(samples(2, FRAMES + 1))
    spool.sync()
    spool.release()
    return Hurt(tmp_path)


def cuts(data: bytes) -> Iterator[bytes]:
    return (data[:length] for length in range(len(data) + 1))


def whole_frames(data: bytes) -> int:
    return min(max(0, len(data) - REGION) // 40, FRAMES)


def flips(data: bytes, part: int) -> Iterator[bytes]:
    for bit in range(part, len(data) * 8, PARTS):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def assert_written_again(spool: Spool, promised: int) -> None:
    """New samples get new sequences and come back, beside everything that was there before."""
    before, gone = kept(spool), lost(spool)
    span = spool.append_many(samples(3, 900))
    spool.sync()
    assert span is not None
    assert span[0] > max([promised, *before, *gone])
    after = kept(spool)
    assert {seq: after[seq] for seq in before} == before
    assert [after[seq].value for seq in range(span[0], span[1] + 1)] == [900.0, 901.0, 902.0]


def test_a_segment_cut_at_any_byte_keeps_whole_frames_and_declares_what_was_acknowledged(open_segment: Hurt) -> None:
    for data, spool in open_segment.spools(OPEN, cuts(open_segment.content(OPEN))):
        whole = whole_frames(data)
        assert set(kept(spool)) == set(range(1, whole + 1))
        assert lost(spool) == set(range(whole + 1, FRAMES + 1))
        assert_written_again(spool, promised=FRAMES)


def test_a_power_cut_at_any_byte_loses_only_what_was_not_acknowledged(open_segment: Hurt) -> None:
    """Nothing of it was acknowledged here: the mark says so, and a torn tail is then no loss."""
    open_segment.forget("synced")
    for data, spool in open_segment.spools(OPEN, cuts(open_segment.content(OPEN))):
        whole = whole_frames(data)
        assert set(kept(spool)) == set(range(1, whole + 1))
        assert lost(spool) == set()
        assert_written_again(spool, promised=whole)


def test_a_closed_segment_cut_at_any_byte_keeps_whole_frames_and_declares_the_rest(closed_segment: Hurt) -> None:
    for data, spool in closed_segment.spools(CLOSED, cuts(closed_segment.content(CLOSED))):
        whole = whole_frames(data)
        assert set(kept(spool)) == {*range(1, whole + 1), FRAMES + 1, FRAMES + 2}
        assert lost(spool) == set(range(whole + 1, FRAMES + 1))
        assert_written_again(spool, promised=FRAMES + 2)


@pytest.mark.parametrize("part", range(PARTS))
def test_any_flipped_bit_of_the_open_segment_costs_at_most_its_frame_and_that_is_declared(
    open_segment: Hurt, part: int
) -> None:
    check_flips(open_segment, OPEN, part, last_seq=FRAMES)


@pytest.mark.parametrize("part", range(PARTS))
def test_any_flipped_bit_of_a_closed_segment_costs_at_most_its_frame_and_that_is_declared(
    closed_segment: Hurt, part: int
) -> None:
    check_flips(closed_segment, CLOSED, part, last_seq=FRAMES + 2)


def check_flips(hurt: Hurt, name: str, part: int, last_seq: int) -> None:
    original = hurt.content(name)
    assert len(original) == END + (RESERVED if name == OPEN else 0)
    for data, spool in hurt.spools(name, flips(original, part)):
        offset = next(at for at in range(len(data)) if data[at] != original[at])
        spoiled = {(offset - REGION) // 40 + 1} if REGION <= offset < END else set()
        assert set(kept(spool)) == set(range(1, last_seq + 1)) - spoiled
        assert lost(spool) == spoiled
        assert_written_again(spool, promised=last_seq)


def test_a_hole_in_the_open_segment_is_quarantined_and_what_follows_it_stays_readable(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(20))
    spool.sync()
    spool.release()
    data = bytearray((tmp_path / OPEN).read_bytes())
    data[REGION + 40 * 5 : REGION + 40 * 9] = b"\xff" * 160
    (tmp_path / OPEN).write_bytes(data)
    spool = open_spool(tmp_path)
    assert [(loss.first_seq, loss.last_seq, loss.cause) for loss in spool.recovery.lost] == [(6, 9, Cause.DAMAGED)]
    assert set(kept(spool)) == set(range(1, 21)) - {6, 7, 8, 9}
    assert [path.read_bytes() for path in (tmp_path / "quarantine").iterdir()] == [b"\xff" * 160]
    assert_written_again(spool, promised=20)
    assert segment_files(tmp_path) == [f"{1:020d}-{20:020d}.seg", f"{21:020d}.open"]


def test_a_recovery_that_is_itself_interrupted_is_done_again_with_the_same_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(20))
    spool.sync()
    spool.release()
    data = bytearray((tmp_path / OPEN).read_bytes())
    data[REGION + 40 * 5] ^= 1
    (tmp_path / OPEN).write_bytes(data)
    for interrupted in ("farmiq.spool.quarantine.keep", "farmiq.spool.recovery.OpenSegment.seal"):
        with monkeypatch.context() as patch:
            patch.setattr(interrupted, power_cut)
            with pytest.raises(PowerCut):
                open_spool(tmp_path)
    spool = open_spool(tmp_path)
    assert spool.losses.ranges() == [(6, 6)]
    assert set(kept(spool)) == set(range(1, 21)) - {6}
    assert_written_again(spool, promised=20)


class PowerCut(BaseException):
    pass


def power_cut(*_: object) -> None:
    raise PowerCut


@pytest.mark.parametrize(
    "interrupted",
    ["disk.sync_folder", "keeper.Keeper._declare_dropped", "losses.LossJournal._store", "marks._Slots.sync"],
)
def test_a_deletion_interrupted_anywhere_leaves_every_sample_readable_or_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(600))
    spool.sync()
    spool.acknowledge(90)
    spool._keeper.limits = small(max_spool_bytes=4 * 4096)
    with monkeypatch.context() as patch:
        patch.setattr(f"farmiq.spool.{interrupted}", power_cut)
        with pytest.raises(PowerCut):
            spool.trim()
    spool.release()
    spool = open_spool(tmp_path)
    accounted = set(kept(spool)) | lost(spool) | set(range(1, spool.acked.seq + 1))
    assert accounted == set(range(1, 601))
    assert_written_again(spool, promised=600)


def test_two_open_segments_after_a_forgotten_rename_are_read_as_one_stream(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(100))
    spool.sync()
    spool.release()
    closed, still_open = (tmp_path / name for name in segment_files(tmp_path))
    closed.rename(tmp_path / OPEN)
    assert still_open.suffix == ".open"
    spool = open_spool(tmp_path)
    assert set(kept(spool)) == set(range(1, 101))
    assert lost(spool) == set()
    assert_written_again(spool, promised=100)


@pytest.mark.parametrize("name", ["synced", "acked", "losses", "stream", "lock"])
def test_any_small_file_may_be_damaged_or_gone_and_the_start_needs_nobody(tmp_path: Path, name: str) -> None:
    hurts: list[Callable[[Path], object]] = [
        Path.unlink,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff" * 100),
        lambda path: path.write_bytes(b"\xff" * 70_000),
    ]
    spool = open_spool(tmp_path)
    spool.append_many(samples(100))
    spool.sync()
    spool.acknowledge(10)
    spool.close()
    for hurt in hurts:
        hurt(tmp_path / name)
        spool = open_spool(tmp_path)
        assert set(range(1, 101)) <= set(kept(spool))
        assert lost(spool) == set()
        assert_written_again(spool, promised=spool.synced_seq)
        spool.close()
