import threading
from pathlib import Path

import pytest

from farmiq.spool import Cause, Spool
from unit.spool.spool_world import kept, lost, open_spool, samples, segment_files, small


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Three closed segments and an open one: 1-89, 90-178, 179-267, 268-300."""
    spool = open_spool(tmp_path)
    spool.append_many(samples(300))
    spool.sync()
    return spool


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_reading_starts_anywhere_and_ends_a_run_with_its_segment(spool: Spool) -> None:
    reader = spool.reader()
    places = {}
    for after_seq in (0, 80, 88, 89, 100, 290, 300, 999):
        run = reader.read(after_seq, 10)
        places[after_seq] = (run.frames[0].seq, run.frames[-1].seq) if run else None
    assert places == {
        0: (1, 10),
        80: (81, 89),
        88: (89, 89),
        89: (90, 99),
        100: (101, 110),
        290: (291, 300),
        300: None,
        999: None,
    }


def test_what_is_not_synced_is_not_read(spool: Spool) -> None:
    spool.append_many(samples(5, 301))
    assert max(kept(spool)) == 300
    spool.sync()
    assert max(kept(spool)) == 305


def test_damage_in_a_closed_segment_is_declared_once_and_passed_over(spool: Spool, tmp_path: Path) -> None:
    path = tmp_path / segment_files(tmp_path)[1]
    for seq in (100, 101, 178):
        flip(path, 512 + (seq - 90) * 40 + 20)
    assert set(kept(spool)) == set(range(1, 301)) - {100, 101, 178}
    assert set(kept(spool)) == set(range(1, 301)) - {100, 101, 178}
    losses = spool.losses.all()
    assert [(loss.first_seq, loss.last_seq, loss.cause) for loss in losses] == [
        (100, 101, Cause.DAMAGED),
        (178, 178, Cause.DAMAGED),
    ]
    first = losses[0]
    assert (first.first_wall_us, first.last_wall_us) == (kept(spool)[99].wall_us, kept(spool)[102].wall_us)
    assert len(list((tmp_path / "quarantine").iterdir())) == 2


def test_a_large_damaged_stretch_is_one_loss(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, small(segment_bytes=1 << 18))
    spool.append_many(samples(6500))
    spool.append_many(samples(500, 6501))
    spool.sync()
    path = tmp_path / segment_files(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[512 + 40 * 10 : 512 + 40 * 5000] = bytes(40 * 4990)
    path.write_bytes(data)
    assert len(kept(spool)) == 7000 - 4990
    assert spool.losses.ranges() == [(11, 5000)]


def test_a_cut_closed_segment_loses_only_its_end(spool: Spool, tmp_path: Path) -> None:
    path = tmp_path / segment_files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[: 512 + 40 * 30 + 7])
    assert set(kept(spool)) == set(range(1, 301)) - set(range(31, 90))
    assert spool.losses.ranges() == [(31, 89)]


def test_a_closed_segment_without_a_header_is_declared_and_set_aside(spool: Spool, tmp_path: Path) -> None:
    path = tmp_path / segment_files(tmp_path)[1]
    flip(path, 30)
    flip(path, 256 + 30)
    assert set(kept(spool)) == set(range(1, 301)) - set(range(90, 179))
    assert spool.losses.ranges() == [(90, 178)]
    assert (tmp_path / "quarantine" / path.name).exists()


def test_a_closed_segment_that_is_gone_is_declared(spool: Spool, tmp_path: Path) -> None:
    (tmp_path / segment_files(tmp_path)[1]).unlink()
    assert set(kept(spool)) == set(range(1, 301)) - set(range(90, 179))
    assert [(loss.first_seq, loss.last_seq, loss.cause) for loss in spool.losses.all()] == [(90, 178, Cause.MISSING)]


def test_a_segment_that_vanished_between_two_starts_is_declared(spool: Spool, tmp_path: Path) -> None:
    spool.close()
    (tmp_path / segment_files(tmp_path)[1]).unlink()
    (tmp_path / segment_files(tmp_path)[-1]).unlink()
    spool = open_spool(tmp_path)
    assert lost(spool) == {*range(90, 179), *range(268, 301)}
    assert spool.append_many(samples(1)) == (301, 301)


def test_a_reader_follows_a_writer_on_another_thread_through_every_rotation(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    seen: list[int] = []

    def follow() -> None:
        reader = spool.reader()
        while not seen or seen[-1] < 5000:
            if run := reader.read(seen[-1] if seen else 0, 50):
                seen.extend(frame.seq for frame in run.frames)

    thread = threading.Thread(target=follow)
    thread.start()
    for start in range(1, 5001, 10):
        spool.append_many(samples(10, start))
        spool.sync()
    thread.join(30)
    assert seen == list(range(1, 5001))
    assert lost(spool) == set()
