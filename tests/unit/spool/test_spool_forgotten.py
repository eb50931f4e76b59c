"""What only memory holds is not believed, and what the disk refused is not left half done. Each of these was found by the
model in `test_spool_model.py` or while it was written, and is kept here in its shortest form."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from farmiq.spool import Cause, SyncFailed, SyncPolicy, disk
from support.forgetting_disk import Fault, Kind, all_it_can, nothing
from unit.spool.spool_life import SpoolLife, Trouble
from unit.spool.spool_world import kept, lost, open_spool, samples, segment_files, small, values

KILLED = Kind.ENDS_BEFORE


@pytest.fixture
def life(tmp_path: Path) -> SpoolLife:
    return SpoolLife(tmp_path, small(), SyncPolicy.GROUP)


def killed_at_each_call(tmp_path: Path, operation: Callable[[SpoolLife, Trouble], object]) -> None:
    """Kill, start again, and then cut the power: what the first process had not synced must not carry a promise."""
    for at_call in range(1, 20):
        (tmp_path / str(at_call)).mkdir()
        life = SpoolLife(tmp_path / str(at_call), small(), SyncPolicy.GROUP)
        life.append(60)
        life.sync()
        life.acknowledge(0.5, is_gappy=False)
        with life.disk.in_use():
            life.spool.save_ack()
        operation(life, Trouble(Fault(KILLED, at_call)))
        life.cut_power(all_it_can)
        life.check()
        life.end()


def test_the_folder_of_a_new_spool_survives_a_power_cut(life: SpoolLife) -> None:
    life.append(3)
    life.sync()
    life.cut_power(all_it_can)
    assert life.promised >= 5
    assert set(range(1, 6)) <= set(kept(life.spool))


def test_a_segment_made_by_a_killed_process_keeps_its_name(tmp_path: Path) -> None:
    killed_at_each_call(tmp_path, lambda life, trouble: life.append(60, trouble))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(str(number) for number in range(1, 20))


def test_a_mark_written_by_a_killed_process_is_stored_before_it_is_believed(tmp_path: Path) -> None:
    killed_at_each_call(tmp_path, lambda life, trouble: life.go_back(0.5, trouble))
    assert (tmp_path / "1" / "spool" / "acked").exists()


def test_a_loss_written_by_a_killed_process_is_stored_before_it_is_believed(tmp_path: Path) -> None:
    killed_at_each_call(tmp_path, lambda life, trouble: life.give_up(UUID(int=1), 9, trouble))
    assert (tmp_path / "1" / "spool" / "losses").exists()


def test_a_loss_that_the_disk_refused_does_not_come_back_over_samples_that_took_its_sequences(life: SpoolLife) -> None:
    life.sync()
    with life.disk.in_use(Fault(Kind.IO_ERROR, 2)), pytest.raises(OSError, match="Input/output"):
        life.spool.give_up(UUID(int=1), 3, (0, 0))
    assert life.disk.met == ["fsync"]
    life.append(3)
    life.sync()
    life.cut_power(nothing)
    assert lost(life.spool) == set()
    life.give_up(UUID(int=1), 3)
    life.check()
    assert len(lost(life.spool)) == 3


def test_a_loss_whose_acknowledgement_the_disk_refused_is_still_outstanding_after_a_power_cut(life: SpoolLife) -> None:
    life.give_up(UUID(int=1), 3)
    life.give_up(UUID(int=2), 3)
    with life.disk.in_use(Fault(Kind.IO_ERROR, 2)), pytest.raises(OSError, match="Input/output"):
        life.spool.losses.acknowledge([UUID(int=1)])
    with life.disk.in_use():
        life.spool.losses.acknowledge([UUID(int=2)])
    life.append(1)
    life.cut_power(nothing)
    assert [loss.loss_id.int for loss in life.spool.losses.outstanding()] == [1]


def test_a_segment_whose_making_and_removal_were_refused_does_not_stop_the_writer(tmp_path: Path) -> None:
    met = []
    for at_call in range(1, 20):
        (tmp_path / str(at_call)).mkdir()
        life = SpoolLife(tmp_path / str(at_call), small(), SyncPolicy.GROUP)
        life.append(80)
        life.sync()
        life.append(100, Trouble(Fault(Kind.IO_ERROR, at_call, calls=2)))
        assert life.append(1)
        life.end()
        met.append(tuple(life.disk.met))
    assert ("posix_fallocate", "unlink") in met


def refused(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_second_sync_is_not_believed_when_the_loss_could_not_be_written_down_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path, policy=SyncPolicy.OS)
    spool.append_many(samples(2))
    spool.sync()
    spool.append_many(samples(4, 3))
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_data", refused)
        patch.setattr(disk, "sync_file", refused)
        with pytest.raises(OSError, match="Input/output"):
            spool.sync()
    assert spool.synced_seq == 2
    assert spool.sync() == 6
    assert [(loss.first_seq, loss.last_seq, loss.cause) for loss in spool.losses.all()] == [(3, 6, Cause.SYNC_FAILED)]
    spool.append_many(samples(1, 7))
    spool.sync()
    assert values(spool) == [1.0, 2.0, 7.0]


def test_nothing_is_added_to_a_segment_that_could_not_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(2))
    spool.sync()
    spool.append_many(samples(4, 90))
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_data", refused)
        patch.setattr(os, "rename", refused)
        with pytest.raises(SyncFailed):
            spool.sync()
    assert spool.append_many(samples(1, 3)) == (3, 3)
    spool.sync()
    assert segment_files(tmp_path) == [f"{1:020d}-{2:020d}.seg", f"{3:020d}.open"]
    spool.release()
    assert values(open_spool(tmp_path)) == [1.0, 2.0, 3.0]


def test_a_refused_write_costs_nothing_that_was_written_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path, policy=SyncPolicy.OS)
    spool.append_many(samples(4))
    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_all", refused)
        with pytest.raises((SyncFailed, OSError)):
            spool.append_many(samples(4, 5))
    spool.append_many(samples(1, 9))
    spool.sync()
    assert values(spool) == [1.0, 2.0, 3.0, 4.0, 9.0]
    assert lost(spool) == set()


def test_a_disk_too_full_to_name_the_lock_s_holder_stops_nobody(life: SpoolLife) -> None:
    for at_call in (3, 4):
        life.end()
        with life.disk.in_use(Fault(Kind.NO_SPACE, at_call)):
            life.spool = open_spool(life.disk.root / "spool")
            assert life.spool.append_many(samples(1)) is not None
    assert life.disk.met == ["ftruncate", "pwrite"]


def test_what_was_set_aside_below_the_mark_is_named_when_the_edge_goes_back(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(300))
    spool.sync()
    spool.acknowledge(100)
    path = tmp_path / segment_files(tmp_path)[1]
    path.write_bytes(bytes(1000))
    assert set(kept(spool)) == set(range(1, 301)) - set(range(90, 179))
    assert lost(spool) == set(range(101, 179))
    spool.go_back(20, "e2")
    assert lost(spool) == set(range(90, 179))


def test_what_a_refused_segment_has_behind_its_end_is_not_taken_for_damage(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append_many(samples(8))
    spool.sync()
    spool.release()
    first = tmp_path / f"{1:020d}.open"
    content = bytearray(first.read_bytes())
    content[512 + 5 * 40 : 512 + 6 * 40] = bytes(40)
    first.unlink()
    (tmp_path / "synced").unlink()
    spool = open_spool(tmp_path)
    spool._writer.next_seq = 6
    spool.append_many(samples(3, 600))
    spool.sync()
    spool.release()
    first.write_bytes(content)
    spool = open_spool(tmp_path)
    assert values(spool) == [1.0, 2.0, 3.0, 4.0, 5.0, 600.0, 601.0, 602.0]
    assert lost(spool) == set()
