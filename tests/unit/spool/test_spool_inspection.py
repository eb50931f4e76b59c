import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from farmiq.spool import Cause, Spool
from farmiq.spool.errors import NotASpool, UnknownFormat
from farmiq.spool.inspection import SpoolView, inspect, read
from farmiq.spool.lock_holder import holder_pid
from farmiq.spool.ranges import Range
from unit.spool.spool_world import BOOT, CHANNELS, START_US, kept, open_spool, samples, segment_files, small


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Three closed segments and an open one: 1-89, 90-178, 179-267, 268-300."""
    spool = open_spool(tmp_path)
    spool.append_many(samples(300))
    spool.sync()
    return spool


def readable(view: SpoolView, span: Range = (1, 10_000)) -> tuple[list[int], list[Range]]:
    missed: list[Range] = []
    return [frame.seq for run in read(view, span, missed.append) for frame in run.frames], missed


def state_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_what_is_seen_is_what_its_owner_knows(spool: Spool, tmp_path: Path) -> None:
    spool.go_back(100, "edge-7")
    spool.losses.declare((50, 60), Cause.DAMAGED)
    view = inspect(tmp_path)
    assert (view.stream_id, view.synced_seq, view.acked) == (spool.stream_id, 300, spool.acked)
    assert view.writer_pid == os.getpid()
    assert [(one.is_open, one.first_seq, one.last_seq, one.samples) for one in view.segments] == [
        (False, 1, 89, 89),
        (False, 90, 178, 89),
        (False, 179, 267, 89),
        (True, 268, 300, 33),
    ]
    assert [one.size_bytes for one in view.segments] == [4072, 4072, 4072, 4096]
    header = view.segments[-1].header
    assert header is not None
    assert (header.boot_id, header.channels, header.created_at_us) == (BOOT, CHANNELS, START_US)
    assert view.segments[1].first_wall_us == kept(spool)[90].wall_us
    assert view.segments[3].last_wall_us == kept(spool)[300].wall_us
    assert list(view.losses) == spool.losses.all()
    assert view.unacked == [(101, 300)]
    assert view.gaps == []


def test_every_frame_can_be_read_from_outside_and_any_part_of_them(spool: Spool, tmp_path: Path) -> None:
    view = inspect(tmp_path)
    assert readable(view) == (list(range(1, 301)), [])
    assert readable(view, (85, 92)) == (list(range(85, 93)), [])
    assert readable(view, (300, 301)) == ([300], [])
    missed: list[Range] = []
    values = [frame.value for run in read(view, (1, 300), missed.append) for frame in run.frames]
    assert (values, missed) == ([float(i) for i in range(1, 301)], [])


def test_looking_changes_no_byte_and_takes_no_lock(spool: Spool, tmp_path: Path) -> None:
    spool.release()
    before = state_of(tmp_path)
    readable(inspect(tmp_path))
    assert state_of(tmp_path) == before
    open_spool(tmp_path)


def test_what_is_not_synced_is_not_shown_while_somebody_writes(spool: Spool, tmp_path: Path) -> None:
    spool.append_many(samples(5, 301))
    assert inspect(tmp_path).segments[-1].last_seq == 300
    spool.sync()
    assert inspect(tmp_path).segments[-1].last_seq == 305


def test_after_a_crash_everything_readable_is_shown_as_the_next_start_will_keep_it(
    spool: Spool, tmp_path: Path
) -> None:
    spool.append_many(samples(5, 301))
    spool.release()
    path = tmp_path / segment_files(tmp_path)[-1]
    data = bytearray(path.read_bytes())
    data[512 + 38 * 40 : 512 + 38 * 40 + 17] = b"\xff" * 17
    path.write_bytes(data)
    view = inspect(tmp_path)
    assert (view.writer_pid, view.synced_seq) == (None, 300)
    assert (view.segments[-1].last_seq, view.segments[-1].torn_bytes) == (305, 17)
    assert readable(view)[0] == list(kept(open_spool(tmp_path)))


def test_a_lock_file_of_a_dead_process_is_nobody(tmp_path: Path) -> None:
    script = f"import sys; from pathlib import Path; from farmiq.spool import Spool; Spool(Path({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (tmp_path / "lock").read_text().strip().isdigit()
    assert holder_pid(tmp_path) is None
    (tmp_path / "lock").write_text(f"{os.getpid()}\n")  # an id that is another process's by now
    assert holder_pid(tmp_path) is None
    for content in ("", "who?"):
        (tmp_path / "lock").write_text(content)
        assert holder_pid(tmp_path) is None


def test_samples_given_up_by_the_producer_are_no_gap_and_no_frame(spool: Spool, tmp_path: Path) -> None:
    spool.give_up(UUID(int=5), 10, (1, 2))
    spool.sync()
    assert inspect(tmp_path).segments[-1].last_seq == 300
    spool.append_many(samples(5, 301))
    spool.sync()
    view = inspect(tmp_path)
    assert [(one.first_seq, one.last_seq) for one in view.segments[-2:]] == [(268, 300), (311, 315)]
    assert view.missing == [(301, 310)]
    assert view.gaps == []


def test_a_segment_that_somebody_removed_is_a_gap_unless_the_edge_has_it(spool: Spool, tmp_path: Path) -> None:
    spool.close()
    (tmp_path / segment_files(tmp_path)[1]).unlink()
    (tmp_path / segment_files(tmp_path)[-1]).unlink()
    assert inspect(tmp_path).gaps == [(90, 178), (268, 300)]
    spool = open_spool(tmp_path)
    assert inspect(tmp_path).gaps == []  # declared at the start
    assert inspect(tmp_path).missing == [(90, 178), (268, 300)]


def test_what_went_in_order_is_no_gap(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, small(max_spool_bytes=5 * 4096, keep_acked_bytes=0))
    spool.append_many(samples(1000))
    spool.sync()
    assert inspect(tmp_path).missing == []
    spool.acknowledge(900)
    spool.trim()
    view = inspect(tmp_path)
    assert view.missing == []
    assert view.unacked == [(901, 1000)]


@pytest.mark.parametrize("count", [0, 89])
def test_a_spool_without_an_open_segment_or_without_any_is_still_one(tmp_path: Path, count: int) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(count))
    spool.close()
    view = inspect(tmp_path)
    assert [(one.first_seq, one.last_seq) for one in view.segments] == ([(1, 89)] if count else [])
    assert (view.missing, readable(view)) == ([], (list(range(1, count + 1)), []))


def test_segments_alone_are_a_spool_that_was_copied(spool: Spool, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    copied.mkdir()
    for path in tmp_path.glob("*.seg"):
        (copied / path.name).write_bytes(path.read_bytes())
    view = inspect(copied)
    assert (view.stream_id, view.writer_pid, view.synced_seq) == (spool.stream_id, None, 0)
    assert readable(view) == (list(range(1, 268)), [])


def test_a_folder_without_a_spool_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for folder, why in ((tmp_path, "no spool in"), (tmp_path / "file", "not a folder"), (tmp_path / "x", "not exist")):
        with pytest.raises(NotASpool, match=why):
            inspect(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_both_headers_broken_hide_a_segment_and_not_its_neighbours(spool: Spool, tmp_path: Path) -> None:
    for name in (segment_files(tmp_path)[1], segment_files(tmp_path)[-1]):
        data = bytearray((tmp_path / name).read_bytes())
        data[30] ^= 1
        data[256 + 30] ^= 1
        (tmp_path / name).write_bytes(data)
    spool.release()
    view = inspect(tmp_path)
    assert [one.header is None for one in view.segments] == [False, True, False, True]
    assert [(one.first_seq, one.last_seq) for one in view.segments[1::2]] == [(90, 178), (268, 300)]
    assert view.segments[1].first_wall_us is None
    assert readable(view) == ([*range(1, 90), *range(179, 268)], [(90, 178), (268, 300)])


def test_two_open_segments_after_a_forgotten_rename_are_seen_as_one_stream(spool: Spool, tmp_path: Path) -> None:
    spool.append_many(samples(60, 301))
    spool.sync()
    spool.release()
    closed = tmp_path / f"{268:020d}-{356:020d}.seg"
    closed.rename(tmp_path / f"{268:020d}.open")
    view = inspect(tmp_path)
    assert [(one.is_open, one.first_seq, one.last_seq) for one in view.segments[-2:]] == [
        (True, 268, 356),
        (True, 357, 360),
    ]
    assert readable(view) == (list(range(1, 361)), [])


def test_a_segment_of_a_newer_version_is_not_called_damaged(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.release()
    monkeypatch.setattr("farmiq.spool.format.VERSION", 0)
    with pytest.raises(UnknownFormat):
        inspect(tmp_path)


def test_quarantined_files_are_listed(spool: Spool, tmp_path: Path) -> None:
    path = tmp_path / segment_files(tmp_path)[1]
    path.write_bytes(b"\xff" * 4072)
    kept(spool)
    assert [(one.path.name, one.size_bytes) for one in inspect(tmp_path).quarantined] == [(path.name, 4072)]
