import os
from pathlib import Path

import pytest

from farmiq.spool import Capture, NotBegun, Spool, SpoolLocked, SyncPolicy
from unit.spool.spool_world import (
    BOOT,
    CHANNELS,
    OTHER_BOOT,
    kept,
    lost,
    open_spool,
    samples,
    segment_files,
    small,
    values,
)


def test_sequences_have_no_gaps_across_segments_boots_and_restarts(tmp_path: Path) -> None:
    written = 0
    for boot in (BOOT, BOOT, OTHER_BOOT):
        spool = open_spool(tmp_path, boot=boot)
        for count in (1, 100, 3):
            assert spool.append_many(samples(count, written + 1)) == (written + 1, written + count)
            written += count
        spool.close()
    spool = open_spool(tmp_path)
    assert list(kept(spool)) == list(range(1, written + 1))
    assert values(spool) == [float(i) for i in range(1, written + 1)]
    assert lost(spool) == set()


def test_the_stream_keeps_its_id_also_when_the_file_that_names_it_is_gone(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(1))
    stream_id = spool.stream_id
    spool.close()
    for leave in (lambda: None, (tmp_path / "stream").unlink, lambda: (tmp_path / "stream").write_text("torn")):
        leave()
        spool = Spool(tmp_path, small())
        assert spool.stream_id == stream_id
        spool.close()


def test_a_full_segment_is_closed_and_named_by_what_it_holds(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(200))
    spool.sync()
    assert segment_files(tmp_path) == [
        "00000000000000000001-00000000000000000089.seg",
        "00000000000000000090-00000000000000000178.seg",
        "00000000000000000179.open",
    ]
    assert [path.stat().st_size for path in sorted(tmp_path.glob("*.seg"))] == [4072, 4072]


def test_a_segment_is_closed_after_its_time_on_the_monotonic_clock(tmp_path: Path) -> None:
    now = 1000.0
    spool = open_spool(tmp_path, small(segment_seconds=60), monotonic=lambda: now)
    spool.append_many(samples(1))
    now += 59
    spool.append_many(samples(1, 2))
    assert segment_files(tmp_path) == ["00000000000000000001.open"]
    now += 1
    spool.append_many(samples(1, 3))
    assert segment_files(tmp_path) == ["00000000000000000001-00000000000000000002.seg", "00000000000000000003.open"]


def test_the_same_boot_goes_on_in_the_same_segment_and_another_boot_does_not(tmp_path: Path) -> None:
    for boot in (BOOT, BOOT, OTHER_BOOT):
        spool = open_spool(tmp_path, boot=boot)
        spool.append_many(samples(2))
        spool.close()
    assert segment_files(tmp_path) == ["00000000000000000001-00000000000000000004.seg", "00000000000000000005.open"]


def test_changed_channels_begin_a_segment_that_says_so(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(2))
    spool.begin(BOOT, CHANNELS[:1])
    spool.append_many([(1, 1, 0, 0, 3.0)])
    spool.sync()
    reader = spool.reader()
    first, second = reader.read(0, 10), reader.read(2, 10)
    assert first is not None
    assert second is not None
    assert (first.header.channels, len(first.frames)) == (CHANNELS, 2)
    assert (second.header.channels, len(second.frames)) == (CHANNELS[:1], 1)


def test_space_is_reserved_ahead_and_zeros_behind_the_end_are_not_read(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, small(segment_bytes=1 << 16, grow_bytes=1 << 14))
    spool.append_many(samples(3))
    spool.sync()
    assert (tmp_path / "00000000000000000001.open").stat().st_size == 1 << 14
    assert list(kept(spool)) == [1, 2, 3]
    spool.append_many(samples(1000, 4))
    spool.sync()
    assert (tmp_path / "00000000000000000001.open").stat().st_size == 3 * (1 << 14)
    assert len(kept(spool)) == 1003


def test_what_may_be_acknowledged_and_read_depends_on_the_policy(tmp_path: Path) -> None:
    seen = {}
    for policy in SyncPolicy:
        spool = open_spool(tmp_path / policy, policy=policy)
        spool.append_many(samples(2))
        before = (spool.safe_seq, len(kept(spool)))
        spool.sync()
        seen[policy] = (before, (spool.safe_seq, len(kept(spool))))
    assert seen == {
        SyncPolicy.ALWAYS: ((2, 2), (2, 2)),
        SyncPolicy.GROUP: ((0, 0), (2, 2)),
        SyncPolicy.OS: ((2, 0), (2, 2)),
    }


def test_nothing_is_written_before_the_producer_has_begun(tmp_path: Path) -> None:
    spool = Spool(tmp_path, small())
    with pytest.raises(NotBegun):
        spool.append_many(samples(1))
    assert segment_files(tmp_path) == []


def test_an_empty_group_is_nothing(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    assert spool.append_many([]) is None
    assert spool.sync() == 0


def test_a_second_writer_is_refused_with_the_holder_named(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    with pytest.raises(SpoolLocked, match=str(os.getpid())) as refusal:
        open_spool(tmp_path)
    assert refusal.value.holder_pid == os.getpid()
    spool.close()
    open_spool(tmp_path).close()


@pytest.mark.parametrize("count", [1, 89, 90])
def test_the_last_capture_is_known_after_a_restart(tmp_path: Path, count: int) -> None:
    spool = open_spool(tmp_path)
    captures = [spool.last_capture]
    spool.append_many(samples(count))
    captures.append(spool.last_capture)
    spool.close()
    captures.append(open_spool(tmp_path, boot=OTHER_BOOT).last_capture)
    assert captures == [None, *[Capture(BOOT, count * 1000, count % 2)] * 2]
