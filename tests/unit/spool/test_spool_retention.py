import os
from pathlib import Path
from uuid import UUID

import pytest

from farmiq.spool import AckRefused, Cause, Limits, Spool, retention
from farmiq.spool.retention import GIB, cap_bytes, plan
from farmiq.spool.segment import Segment
from unit.spool.spool_world import kept, lost, open_spool, samples, segment_files, small


def segments(*lengths: int) -> list[Segment]:
    found, first = [], 1
    for length in lengths:
        found.append(Segment(Path(str(first)), first, first + length - 1, length * 10))
        first += length
    return found


def chosen(limits: Limits, acked_seq: int, cap: int, *lengths: int) -> tuple[list[int], list[int]]:
    closed = segments(*lengths)
    used_bytes = sum(segment.size_bytes for segment in closed)
    result = plan(closed, [0.0] * len(closed), acked_seq, used_bytes, limits, cap)
    return [segment.first_seq for segment in result.acked], [segment.first_seq for segment in result.lost]


def test_under_the_cap_acknowledged_segments_stay_up_to_their_budget() -> None:
    limits = small(keep_acked_bytes=200)
    assert chosen(limits, 30, 1000, 10, 10, 10, 10) == ([1], [])
    assert chosen(limits, 20, 1000, 10, 10, 10, 10) == ([], [])


def test_over_the_cap_acknowledged_segments_go_first_and_no_more_than_needed() -> None:
    limits = small(keep_acked_bytes=1000)
    assert chosen(limits, 20, 300, 10, 10, 10, 10) == ([1], [])
    assert chosen(limits, 20, 150, 10, 10, 10, 10) == ([1, 11], [21])
    assert chosen(limits, 0, 400, 10, 10, 10, 10) == ([], [])


def test_a_segment_is_acknowledged_only_when_all_of_it_is() -> None:
    assert chosen(small(keep_acked_bytes=0), 19, 1000, 10, 10) == ([1], [])


@pytest.mark.parametrize(
    ("filesystem", "expected"),
    [(GIB, GIB), (20 * GIB, GIB), (100 * GIB, 5 * GIB), (4096 * GIB, 25 * GIB)],
)
def test_the_default_cap_follows_the_file_system(filesystem: int, expected: int) -> None:
    assert retention.default_max_spool_bytes(filesystem) == expected


def test_the_floor_of_free_space_lowers_the_cap_but_not_below_the_assured_part() -> None:
    limits = Limits(max_spool_bytes=GIB, keep_free_bytes=1000, assured_bytes=300)
    assert cap_bytes(limits, used_bytes=500, free_bytes=2 * GIB) == GIB
    assert cap_bytes(limits, used_bytes=500, free_bytes=900) == 400
    assert cap_bytes(limits, used_bytes=500, free_bytes=0) == 300


def test_segments_that_leave_no_choice_to_the_cap_are_refused() -> None:
    with pytest.raises(ValueError, match="max_spool_bytes"):
        Limits(segment_bytes=1 << 20, max_spool_bytes=1 << 21)
    with pytest.raises(ValueError, match="segment_bytes"):
        Limits(segment_bytes=100)
    assert (
        Limits(segment_bytes=retention.fitting_segment_bytes(1 << 20), max_spool_bytes=1 << 20).segment_bytes == 1 << 17
    )


def fill(folder: Path, count: int = 300, **limits: int) -> Spool:
    spool = open_spool(folder, small(**limits))
    spool.append_many(samples(count))
    spool.sync()
    return spool


def test_trimming_deletes_only_what_is_acknowledged_and_the_mark_is_stored_before(tmp_path: Path) -> None:
    spool = fill(tmp_path, keep_acked_bytes=0)
    spool.trim()
    assert len(kept(spool)) == 300
    spool.acknowledge(177)
    spool.trim()
    assert min(kept(spool)) == 90
    spool.acknowledge(178)
    spool.trim()
    assert min(kept(spool)) == 179
    spool.release()
    spool = open_spool(tmp_path)
    assert spool.acked.seq == 178
    assert lost(spool) == set()
    assert spool.append_many(samples(1)) == (301, 301)


def test_acknowledged_segments_are_kept_up_to_the_budget(tmp_path: Path) -> None:
    spool = fill(tmp_path, keep_acked_bytes=5000)
    spool.acknowledge(300)
    spool.trim()
    assert min(kept(spool)) == 179


def test_the_newest_frame_stays_so_that_the_sequence_and_the_producer_are_known(tmp_path: Path) -> None:
    spool = fill(tmp_path, count=178, keep_acked_bytes=0)
    spool.append_many(samples(1, 179))
    spool.sync()
    spool.acknowledge(179)
    spool.close()
    for path in tmp_path.glob("*.open"):
        path.unlink()
    spool = open_spool(tmp_path, small(keep_acked_bytes=0))
    spool.trim()
    assert segment_files(tmp_path) == ["00000000000000000090-00000000000000000178.seg"]
    assert spool.append_many(samples(1)) == (180, 180)


def test_the_cap_drops_the_oldest_with_a_loss_record_that_survives(tmp_path: Path) -> None:
    limits = {"max_spool_bytes": 5 * 4096, "keep_acked_bytes": 1 << 20}
    spool = fill(tmp_path, count=1000, **limits)
    assert spool.usage().spool_bytes <= 5 * 4096
    survivors = set(kept(spool))
    assert survivors == set(range(min(survivors), 1001))
    assert lost(spool) == set(range(1, min(survivors)))
    loss = spool.losses.outstanding()[0]
    assert (loss.first_seq, loss.last_seq, loss.count, loss.cause) == (1, 89, 89, Cause.CAP_REACHED)
    assert loss.last_wall_us is not None
    assert loss.first_wall_us is not None
    assert loss.last_wall_us - loss.first_wall_us == 88_000
    before = spool.losses.all()
    spool.release()
    assert open_spool(tmp_path, small(**limits)).losses.all() == before


def test_under_the_cap_acknowledged_segments_make_room_and_nothing_is_lost(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, small(max_spool_bytes=5 * 4096))
    for start in range(1, 2001, 10):
        spool.append_many(samples(10, start))
        spool.acknowledge(spool.sync())
    assert lost(spool) == set()
    assert spool.usage().spool_bytes <= 5 * 4096


def test_dropping_declares_only_what_the_edge_has_not_received(tmp_path: Path) -> None:
    spool = fill(tmp_path, max_spool_bytes=5 * 4096)
    spool.acknowledge(10, received=[(20, 30), (90, 178)])
    spool.append_many(samples(300, 301))
    spool.sync()
    dropped_to = min(kept(spool)) - 1
    assert dropped_to >= 178
    assert lost(spool) == set(range(11, dropped_to + 1)) - set(range(20, 31)) - set(range(90, 179))


def test_an_acknowledgement_above_what_was_written_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    spool = fill(tmp_path, keep_acked_bytes=0)
    with pytest.raises(AckRefused, match="301"):
        spool.acknowledge(301)
    with pytest.raises(AckRefused):
        spool.acknowledge(10, received=[(20, 301)])
    with pytest.raises(AckRefused):
        spool.go_back(301, "e2")
    spool.trim()
    assert spool.acked.seq == 0
    assert len(kept(spool)) == 300


def test_an_acknowledgement_never_goes_back_within_an_epoch(tmp_path: Path) -> None:
    spool = fill(tmp_path)
    spool.go_back(0, "e1")
    spool.acknowledge(200)
    spool.acknowledge(100)
    assert (spool.acked.seq, spool.acked.epoch) == (200, "e1")


def test_another_edge_database_gets_again_what_is_here_and_a_loss_record_for_what_is_not(tmp_path: Path) -> None:
    spool = fill(tmp_path, keep_acked_bytes=5000)
    spool.go_back(0, "e1")
    spool.acknowledge(300)
    spool.trim()
    assert min(kept(spool)) == 179
    spool.go_back(40, "e2")
    assert spool.acked.seq == 40
    assert spool.losses.ranges() == [(41, 178)]
    assert spool.losses.outstanding()[0].cause == Cause.NOT_KEPT
    spool.release()
    spool = open_spool(tmp_path)
    assert (spool.acked.seq, spool.acked.epoch) == (40, "e2")
    assert spool.losses.ranges() == [(41, 178)]


def test_a_loss_that_the_old_edge_database_knew_is_told_to_the_new_one(tmp_path: Path) -> None:
    spool = fill(tmp_path, count=1000, max_spool_bytes=5 * 4096)
    told = spool.losses.outstanding()
    spool.losses.acknowledge([loss.loss_id for loss in told])
    assert spool.losses.outstanding() == []
    spool.go_back(0, "e2")
    assert [loss.loss_id for loss in spool.losses.outstanding()] == [loss.loss_id for loss in told]


def test_acknowledged_losses_are_forgotten_with_what_lay_before_the_oldest_segment(tmp_path: Path) -> None:
    spool = fill(tmp_path, count=1000, max_spool_bytes=5 * 4096)
    spool.losses.acknowledge([loss.loss_id for loss in spool.losses.outstanding()])
    spool.append_many(samples(300, 1001))
    spool.sync()
    assert all(not loss.is_acknowledged for loss in spool.losses.all())
    assert min(lost(spool)) > 89


def test_quarantined_bytes_count_and_go_before_any_segment(tmp_path: Path) -> None:
    spool = fill(tmp_path, count=178, max_spool_bytes=5 * 4096)
    (tmp_path / "quarantine").mkdir()
    (tmp_path / "quarantine" / "old.frames").write_bytes(bytes(8192))
    assert spool.usage().spool_bytes > 2 * 4072 + 8192 - 1
    spool.append_many(samples(178, 179))
    spool.sync()
    assert list((tmp_path / "quarantine").iterdir()) == []
    assert lost(spool) == set()


def test_usage_is_counted_again_at_every_start(tmp_path: Path) -> None:
    spool = fill(tmp_path)
    assert spool.usage().closed_segments == 3
    spool.close()
    (tmp_path / segment_files(tmp_path)[0]).unlink()
    usage = open_spool(tmp_path).usage()
    assert (usage.closed_segments, usage.open_segments, usage.oldest_seq) == (2, 1, 90)
    assert usage.spool_bytes == 2 * 4072 + 512 + 33 * 40


def test_the_backlog_is_what_is_held_and_neither_with_the_edge_nor_declared(tmp_path: Path) -> None:
    spool = fill(tmp_path)
    assert (spool.usage().unacked_samples, spool.usage().oldest_unacked_wall_us) == (300, samples(1)[0][0])
    spool.acknowledge(100, received=[(101, 110), (200, 300)])
    usage = spool.usage()
    assert usage.unacked_samples == 89
    assert usage.oldest_unacked_wall_us == kept(spool)[111].wall_us
    spool.give_up(UUID(int=5), 10, (1, 2))
    spool.append_many(samples(5, 301))
    assert spool.usage().unacked_samples == 89
    spool.acknowledge(300)
    assert (spool.usage().unacked_samples, spool.usage().oldest_unacked_wall_us) == (0, None)
    spool.sync()
    usage = spool.usage()
    assert (usage.unacked_samples, usage.oldest_unacked_wall_us) == (5, samples(1, 301)[0][0])
    assert usage.written_samples == 305


def test_the_age_of_the_backlog_costs_one_read_for_a_sample_and_none_when_nothing_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = fill(tmp_path)
    spool.usage()
    reads: list[int] = []
    pread = os.pread

    def counted(fd: int, length: int, offset: int) -> bytes:
        reads.append(length)
        return pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", counted)
    spool.usage()
    assert reads == []
    spool.acknowledge(50)
    assert spool.usage().oldest_unacked_wall_us == samples(1, 51)[0][0]
    assert reads == [40]


def test_a_backlog_whose_oldest_sample_cannot_be_read_has_no_known_age(tmp_path: Path) -> None:
    spool = fill(tmp_path)
    (tmp_path / segment_files(tmp_path)[0]).unlink()
    assert spool.usage().oldest_unacked_wall_us is None
    kept(spool)
    assert spool.usage().oldest_unacked_wall_us == samples(1, 90)[0][0]
    assert spool.usage().unacked_samples == 300 - 89


def test_room_is_what_fits_before_an_unacknowledged_sample_would_have_to_go(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, small(max_spool_bytes=8 * 4096))
    written = 0
    while not lost(spool):
        room = spool.usage().room_bytes
        spool.append_many(samples(10, written + 1))
        spool.sync()
        written += 10
        assert room >= 400 or lost(spool)
    assert room < 4096 + 400
    spool.acknowledge(written)
    assert spool.usage().room_bytes > 7 * 4096


def test_bytes_written_are_all_that_went_to_the_disk(tmp_path: Path) -> None:
    spool = fill(tmp_path, count=89)
    before = spool.usage()
    assert before.written_samples == 89
    assert before.written_bytes >= 512 + 89 * 40
    spool.append_many(samples(10, 90))
    spool.sync()
    usage = spool.usage()
    mark = usage.written_bytes - before.written_bytes - 512 - 10 * 40  # a new header, the frames, and the synced mark
    assert 0 < mark <= 512
    spool.acknowledge(50)
    spool.save_ack()
    assert spool.usage().written_bytes == usage.written_bytes + mark
    spool.close()
    assert open_spool(tmp_path).usage().written_samples == 0
