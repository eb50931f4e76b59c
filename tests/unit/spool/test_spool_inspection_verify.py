"""A spool is hurt on purpose and looked at from outside; then its owner opens it and must come to the same verdict."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farmiq.spool import Cause, Spool, segment_view
from farmiq.spool.inspection import inspect, read
from farmiq.spool.segment_file import SegmentFile
from farmiq.spool.verification import Finding, Kind, Standing, verify
from unit.spool.spool_world import kept, lost, open_spool, samples, segment_files, small

Told = list[tuple[str | None, int, int, Kind, Standing]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Closed 1-89, 90-178, 179-267; open 268-300; all synced, 50 acknowledged. Nobody writes it."""
    spool = open_spool(tmp_path)
    spool.append_many(samples(300))
    spool.sync()
    spool.acknowledge(50)
    spool.save_ack()
    spool.release()
    return tmp_path


def findings(folder: Path) -> list[Finding]:
    return list(verify(inspect(folder)))


def told(folder: Path) -> Told:
    return [(one.segment, one.first_seq, one.last_seq, one.kind, one.standing) for one in findings(folder)]


def spoil(folder: Path, index: int, *seqs: int) -> str:
    path = folder / segment_files(folder)[index]
    data = bytearray(path.read_bytes())
    for seq in seqs:
        data[512 + (seq - int(path.name[:20])) * 40 + 20] ^= 1
    path.write_bytes(data)
    return path.name


def test_a_sound_spool_gives_no_finding_and_progress_reaches_the_end(folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    assert list(verify(inspect(folder), lambda done, total: steps.append((done, total)))) == []
    assert steps[0] == (0, 300 * 40)
    assert steps[-1] == (300 * 40, 300 * 40)
    assert steps == sorted(steps)


def test_damage_is_named_by_its_range_and_by_what_became_of_it(folder: Path) -> None:
    name = spoil(folder, 0, 10, 11, 12, 49, 50, 51, 52, 80)
    assert told(folder) == [
        (name, 10, 12, Kind.DAMAGED, Standing.ACKNOWLEDGED),
        (name, 49, 50, Kind.DAMAGED, Standing.ACKNOWLEDGED),
        (name, 51, 52, Kind.DAMAGED, Standing.UNDECLARED),
        (name, 80, 80, Kind.DAMAGED, Standing.UNDECLARED),
    ]
    assert [one.is_breach for one in findings(folder)] == [False, False, True, True]
    spool = open_spool(folder)
    kept(spool)
    assert {51, 52, 80} <= lost(spool)
    spool.close()
    assert [one for one in findings(folder) if one.is_breach] == []
    assert {one.standing for one in findings(folder)} == {Standing.ACKNOWLEDGED, Standing.DECLARED}


def test_damage_over_many_reads_is_one_finding(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, small(segment_bytes=1 << 22, grow_bytes=1 << 22, max_spool_bytes=1 << 26))
    spool.append_many(samples(60_000))
    spool.close()
    path = tmp_path / segment_files(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[512 + 40 * 10 : 512 + 40 * 59_000] = bytes(40 * 58_990)
    path.write_bytes(data)
    assert told(tmp_path) == [(path.name, 11, 59_000, Kind.DAMAGED, Standing.UNDECLARED)]


def test_a_torn_tail_is_normal_and_a_cut_below_the_synced_mark_is_not(folder: Path) -> None:
    path = folder / segment_files(folder)[-1]
    whole = path.read_bytes()[: 512 + 33 * 40]
    path.write_bytes(whole + b"\xff" * 23)
    finding = findings(folder)
    assert [(one.kind, one.first_seq, one.standing) for one in finding] == [(Kind.TORN_TAIL, 301, Standing.UNPROMISED)]
    assert "23 bytes" in finding[0].detail
    assert not finding[0].is_breach
    path.write_bytes(whole[:-7])
    assert (path.name, 300, 300, Kind.DAMAGED, Standing.UNDECLARED) in told(folder)
    assert lost(open_spool(folder)) == {300}


def test_a_hole_behind_the_synced_mark_is_damage_as_it_is_for_the_next_start(folder: Path) -> None:
    spool = open_spool(folder)
    spool.append_many(samples(20, 301))
    spool.release()
    name = spoil(folder, -1, 310)
    assert told(folder) == [(name, 310, 310, Kind.DAMAGED, Standing.UNDECLARED)]
    assert lost(open_spool(folder)) == {310}


def test_a_segment_without_a_header_is_damaged_as_a_whole(folder: Path) -> None:
    path = folder / segment_files(folder)[1]
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    data[256 + 30] ^= 1
    path.write_bytes(data)
    assert told(folder) == [(path.name, 90, 178, Kind.DAMAGED, Standing.UNDECLARED)]
    assert "header" in findings(folder)[0].detail


def test_a_segment_that_is_gone_is_missing_with_the_part_that_the_edge_has_told_apart(folder: Path) -> None:
    spool = open_spool(folder)
    spool.acknowledge(100)
    spool.close()
    (folder / segment_files(folder)[1]).unlink()
    assert told(folder) == [
        (None, 90, 100, Kind.MISSING, Standing.ACKNOWLEDGED),
        (None, 101, 178, Kind.MISSING, Standing.UNDECLARED),
    ]


def test_an_open_file_whose_making_was_interrupted_holds_nothing_to_miss(folder: Path) -> None:
    (folder / f"{301:020d}.open").write_bytes(b"")
    assert told(folder) == []


def test_files_that_go_or_change_their_name_while_they_are_read(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, small(keep_acked_bytes=0))
    spool.append_many(samples(300))
    spool.sync()
    view = inspect(tmp_path)
    spool.append_many(samples(100, 301))  # the open segment is closed
    spool.acknowledge(89)
    spool.trim()  # the first is deleted
    assert list(verify(view)) == []
    missed: list[tuple[int, int]] = []
    seqs = [frame.seq for run in read(view, (1, 300), missed.append) for frame in run.frames]
    assert (seqs, missed) == (list(range(90, 301)), [(1, 89)])
    (tmp_path / segment_files(tmp_path)[1]).unlink()
    assert [(one.kind, one.first_seq, one.last_seq) for one in verify(view)] == [(Kind.MISSING, 179, 267)]


class Once:
    """Stands before a function, and does something else too after its first call."""

    def __init__(self, function: Callable[..., Any], afterwards: Callable[[], object]) -> None:
        self._function = function
        self._afterwards = [afterwards]

    def __call__(self, *arguments: Any) -> Any:
        answer = self._function(*arguments)
        if self._afterwards:
            self._afterwards.pop()()
        return answer


@pytest.mark.parametrize("listing", ["open_files", "closed_segments"])
def test_a_segment_that_is_closed_between_two_listings_is_seen_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: str
) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(300))
    spool.sync()
    place = f"farmiq.spool.segment_view.{listing}"
    rotated = Once(getattr(segment_view, listing), lambda: spool.append_many(samples(100, 301)))
    monkeypatch.setattr(place, rotated)
    view = inspect(tmp_path)
    assert [one.first_seq for one in view.segments] == [1, 90, 179, 268]
    assert view.missing == []
    assert list(verify(view)) == []


def crowded(folder: Path) -> tuple[Spool, Callable[[], None]]:
    """A spool, and what makes it drop its two oldest segments: the edge has them, and only this process knows that."""
    spool = open_spool(folder, small(max_spool_bytes=6 * 4096))
    spool.append_many(samples(400))
    spool.sync()

    def drop() -> None:
        spool.acknowledge(0, received=[(1, 178)])
        spool.append_many(samples(270, 401))
        spool.sync()
        assert (min(kept(spool)), lost(spool)) == (179, set())

    return spool, drop


def test_segments_deleted_while_they_are_looked_at_leave_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, drop = crowded(tmp_path)
    monkeypatch.setattr(SegmentFile, "open", Once(SegmentFile.open, drop))
    assert inspect(tmp_path).gaps == []


def test_segments_deleted_while_they_are_read_are_no_finding(tmp_path: Path) -> None:
    _, drop = crowded(tmp_path)
    view = inspect(tmp_path)
    drop()
    assert list(verify(view)) == []


def test_a_spool_that_is_written_acknowledged_and_trimmed_meanwhile_never_looks_broken(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, small(max_spool_bytes=40 * 4096, keep_acked_bytes=4 * 4096))
    is_over = threading.Event()
    written = threading.Thread(target=live, args=(spool, is_over))
    written.start()
    try:
        seen = list(looks(tmp_path))
    finally:
        is_over.set()
        written.join(30)
    assert [finding for found in seen for finding in found] == []
    assert spool.synced_seq > 1000


def live(spool: Spool, is_over: threading.Event) -> None:
    """Rotations, deletions by acknowledgement and by the cap, ranges received ahead, losses declared and forgotten."""
    start = 1
    while not is_over.is_set() or start < 2000:
        spool.append_many(samples(60, start))
        seq = spool.sync()
        start += 60
        if start % 7 == 0:
            spool.acknowledge(max(0, seq - 500), received=[(seq - 100, seq)] if seq > 600 else [])
            spool.losses.acknowledge([loss.loss_id for loss in spool.losses.outstanding()])
            spool.trim()


def looks(folder: Path) -> Iterator[list[Finding]]:
    for _ in range(60):
        view = inspect(folder)
        yield [finding for finding in verify(view) if finding.is_breach]
        list(read(view, (1, 1 << 40), lambda _span: None))


def test_the_reasons_are_read_again_for_each_finding(folder: Path) -> None:
    """One that its owner declares while this runs is told as declared."""
    for index, seq in enumerate((80, 100, 200)):
        spoil(folder, index, seq)
    walk = verify(inspect(folder))
    first = next(walk)
    spool = open_spool(folder)
    spool.losses.declare((200, 200), Cause.DAMAGED)
    standings = {one.first_seq: one.standing for one in (first, *walk)}
    assert (standings[80], standings[200]) == (Standing.UNDECLARED, Standing.DECLARED)
