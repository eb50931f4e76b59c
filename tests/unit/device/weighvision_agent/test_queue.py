"""What a station holds on to, for how long, and what it says of what it gave up. On a real disk."""

import errno
import json
import shutil
import sqlite3
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from farmiq.contracts.ack import DeviceAck, EventAck, PutOff
from farmiq.contracts.media import PresignAnswer
from farmiq.contracts.timestamps import to_us
from farmiq.device.weighvision_agent import database, event_store, picture_store
from farmiq.device.weighvision_agent.database import QueueTooNew
from farmiq.device.weighvision_agent.losses import Lost, as_lost
from farmiq.spool import disk
from farmiq.spool.errors import SpoolLocked
from unit.device.weighvision_agent.queue_world import EPOCH, JPEG, MESSAGES, RESTORED, Bench


def test_a_session_is_there_after_a_kill_with_everything_that_was_said_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    session_id = bench.begin()
    bench.take(session_id)
    bench.reopen()
    assert [one.session_id for one in bench.queue.open_sessions()] == [session_id]
    bench.end(session_id)
    bench.end(session_id)
    bench.reopen()
    assert bench.waiting() == ["session.created", "weight.recorded", "session.finalized"]
    assert bench.bodies()[-1]["payload"] == {"image_count": 1, "final_weight_kg": 80.0}
    assert bench.queue.open_sessions() == []


def test_an_event_leaves_by_the_edges_word_and_by_nothing_else(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.end(bench.begin())
    bench.queue.next_to_send(10)
    assert len(bench.reopen().next_to_send(10)) == 3
    assert len(bench.answer("stored", "duplicate").done) == 3
    assert bench.reopen().next_to_send(10) == []


def test_an_acknowledgement_of_something_unknown_changes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.begin()
    before = bench.bodies()
    stranger = EventAck(event_id=UUID(int=4), result="stored")
    ack = DeviceAck(
        epoch=EPOCH, ts=bench.clock.now(), events=[stranger], put_off=[PutOff(event_id=UUID(int=5), code="no")]
    )
    settled = bench.queue.settle(ack, is_back=False)
    assert (settled.done, settled.put_off) == ([], {})
    assert bench.bodies() == before


def test_a_pictures_file_stays_until_the_edge_has_verified_it_and_a_while_longer(tmp_path: Path) -> None:
    """promise-device-edge 11: an acknowledged announcement was taken for a stored picture."""
    bench = Bench(tmp_path)
    taken = bench.take()
    bench.upload(taken)
    assert bench.waiting() == ["image.captured"]
    bench.clock.wait(hours=30)
    bench.queue.keep_house()
    assert bench.files() == {str(taken.picture_id)}
    bench.answer("stored")
    assert bench.report("stored") == 0, "it has only just heard of it"
    bench.clock.wait(hours=30)
    bench.queue.keep_house()
    assert bench.files() == {str(taken.picture_id)}, "the edge has not said that it is stored"
    for state in ("awaited", "a word of a later release"):
        assert bench.report(state) == 1
        bench.clock.wait(minutes=1)
        bench.queue.keep_house()
        assert bench.files() == {str(taken.picture_id)}
    assert bench.report("stored") == 1
    assert bench.report("stored") == 0
    bench.queue.keep_house()
    assert bench.files() == set()
    assert bench.losses() == []


def test_an_edge_that_cannot_say_what_it_has_is_believed_by_its_acknowledgement(tmp_path: Path) -> None:
    """A 0.1.0 edge has no route for the question."""
    bench = Bench(tmp_path)
    bench.upload(bench.take())
    bench.answer("stored")
    bench.clock.wait(minutes=1)
    assert bench.report(None) == 1
    bench.clock.wait(hours=23)
    bench.queue.keep_house()
    assert len(bench.files()) == 1
    bench.clock.wait(hours=2)
    bench.queue.keep_house()
    assert bench.files() == set()


def test_a_picture_that_the_edge_wants_again_is_uploaded_again_without_a_second_announcement(tmp_path: Path) -> None:
    """promise-device-edge 11: also one that it had verified, while the file is here."""
    bench = Bench(tmp_path)
    media_id = bench.upload(bench.take())
    bench.answer("stored")
    bench.clock.wait(minutes=1)
    assert bench.report("stored") == 1
    bench.clock.wait(hours=2)
    assert bench.report("wanted") == 1
    bench.queue.keep_house()
    bench.reopen()
    bench.clock.wait(minutes=10)
    again = bench.queue.next_to_upload()
    assert again is not None
    signed = bench.queue.presigned(
        again, PresignAnswer(upload_url="http://store/2", media_id=media_id, expires_at=bench.clock.now())
    )
    bench.queue.uploaded(signed, media_id)
    assert bench.waiting() == [], "the edge has acknowledged its announcement"
    assert bench.picture_states() == ["acked"]
    bench.clock.wait(minutes=1)
    assert bench.report("stored") == 1
    assert bench.losses() == []


def test_a_wanted_picture_that_gets_another_name_is_announced_by_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.upload(bench.take())
    bench.answer("stored")
    bench.clock.wait(minutes=1)
    bench.report("wanted")
    bench.clock.wait(minutes=10)
    again = bench.queue.next_to_upload()
    assert again is not None
    media_id = bench.upload(again)
    (body,) = bench.bodies()
    assert body["payload"]["media_id"] == str(media_id)
    # A restored edge hears of this name only.
    bench.answer("stored")
    bench.answer("stored", epoch=RESTORED, is_new=True)
    assert [one["payload"]["media_id"] for one in bench.bodies()] == [str(media_id)]


@pytest.mark.parametrize("state", ["wanted", "unknown"])
def test_a_picture_that_is_sent_again_in_vain_is_declared_by_whoever_knows_of_it(tmp_path: Path, state: str) -> None:
    """The edge declares what it wants: once in the ledger, not twice. What it has forgotten the station declares."""
    bench = Bench(tmp_path)
    session_id = bench.begin()
    taken = bench.take(session_id)
    bench.upload(taken)
    bench.answer("stored")
    bench.clock.wait(minutes=1)
    bench.report(state)
    (bench.folder / "pictures" / str(taken.picture_id)).unlink()
    bench.clock.wait(minutes=10)
    again = bench.queue.next_to_upload()
    assert again is not None
    assert bench.queue.read_picture(again) is None
    assert sum(loss["pictures"] for loss in bench.losses()) == (0 if state == "wanted" else 1)
    assert len(bench.failed()) == 1


def test_what_the_edge_declares_lost_the_station_does_not_declare(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.upload(bench.take(bench.begin()))
    bench.answer("stored")
    bench.clock.wait(minutes=1)
    assert bench.report("lost") == 1
    assert (bench.losses(), bench.picture_states(), len(bench.failed())) == ([], ["failed"], 1)
    bench.clock.wait(hours=25)
    bench.queue.keep_house()
    assert bench.files() == set()


def test_a_restored_edge_may_have_forgotten_what_it_wanted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    taken = bench.take()
    bench.upload(taken)
    bench.answer("stored")
    bench.clock.wait(minutes=1)
    bench.report("wanted")
    bench.answer("stored", epoch=RESTORED, is_new=True)
    (bench.folder / "pictures" / str(taken.picture_id)).unlink()
    bench.clock.wait(minutes=10)
    again = bench.queue.next_to_upload()
    assert again is not None
    assert bench.queue.read_picture(again) is None
    assert sum(loss["pictures"] for loss in bench.losses()) == 1


def test_a_restored_edge_gets_everything_again_that_is_still_here(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    session_id = bench.begin()
    taken = bench.take(session_id)
    bench.upload(taken)
    bench.end(session_id)
    ids = [body["event_id"] for body in bench.bodies()]
    bench.answer("stored")
    bench.begin()
    assert bench.queue.epoch == EPOCH
    bench.answer("stored", epoch=RESTORED, is_new=True)
    again = [body["event_id"] for body in bench.bodies()]
    assert again == ids, "and not what the new database has acknowledged just now"
    assert bench.reopen().epoch == RESTORED
    bench.answer("stored", "stored", "rejected", "stored", code="unknown_media", epoch=RESTORED)
    assert bench.waiting() == []
    bench.clock.wait(seconds=1)
    found = bench.queue.next_to_upload()
    assert found is not None
    assert (found.picture_id, found.media_id, found.state) == (taken.picture_id, None, "waiting")


def test_an_edge_that_lost_commits_under_its_epoch_gets_everything_again_too(tmp_path: Path) -> None:
    """promise-device-edge 4: what a station was acknowledged under the same epoch stayed acknowledged for ever."""
    bench = Bench(tmp_path)
    bench.end(bench.begin())
    ids = [body["event_id"] for body in bench.bodies()]
    bench.answer("stored")
    assert bench.waiting() == []
    bench.answer(epoch=EPOCH, is_new=True)
    assert [body["event_id"] for body in bench.bodies()] == ids


def test_a_picture_that_the_edge_forgot_and_that_is_gone_here_is_declared(tmp_path: Path) -> None:
    bench = Bench(tmp_path, keep_acked=timedelta(0))
    session_id = bench.begin()
    taken = bench.take(session_id)
    bench.upload(taken)
    with bench.queue.connection:
        picture_store.delete(bench.queue.connection, [taken.picture_id])
    bench.answer("stored", "stored", "rejected", code="unknown_media")
    (loss,) = bench.losses()
    assert (loss["reason"], loss["pictures"], loss["session_ids"]) == ("forgotten_by_edge", 1, [str(session_id)])
    assert len(bench.failed()) == 1


def test_a_rejected_event_is_kept_aside_declared_and_not_sent_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    session_id = bench.begin()
    bench.answer("stored", "rejected", code="session_of_another_device")
    assert bench.waiting() == ["station.loss"]
    (loss,) = bench.losses()
    assert (loss["reason"], loss["events"], loss["count"]) == ("rejected", {"weighvision.weight.recorded": 1}, 1)
    assert loss["session_ids"] == [str(session_id)]
    assert bench.failed() == ["weighvision.weight.recorded was rejected: session_of_another_device"]
    rejected = bench.queue.connection.execute("SELECT count(*) FROM events WHERE state = 'rejected'").fetchone()
    assert rejected[0] == 1


@pytest.mark.parametrize("code", ["reserved_event_type", "not_provisioned", "event_id_reused", None])
def test_a_loss_is_told_until_the_edge_has_it_whatever_it_answers(tmp_path: Path, code: str | None) -> None:
    """Finding 1 of the reading of the path from device to edge: the record of a loss ended with its first refusal."""
    bench = Bench(tmp_path)
    bench.begin()
    bench.answer("rejected", code="session_of_another_device")
    (before,) = bench.bodies()
    settled = bench.answer("rejected", code=code)
    assert (settled.done, list(settled.put_off.values())) == ([], [code or ""])
    (after,) = bench.bodies()
    assert (after["payload"], after["event_id"] == before["event_id"]) == (before["payload"], code != "event_id_reused")
    bench.begin()
    bench.answer("rejected", code="session_of_another_device")
    assert bench.waiting() == ["station.loss"], "one at a time, as long as the other one is only waited for"
    passing = list(settled.put_off)
    bench.queue.tell_gathered(passing)
    assert len(bench.queue.next_to_send(10, passing)) == 1, "and not behind one that is refused"
    bench.reopen()
    assert len(bench.answer("stored").done) == 2
    assert bench.waiting() == []


@pytest.mark.parametrize("code", ["not_provisioned", "stream_of_another_device", "not_storable"])
@pytest.mark.parametrize("result", ["put_off", "rejected"])  # the second is what an edge of 0.1.0 says
def test_what_the_edge_does_not_take_as_things_are_stays_in_the_queue(
    tmp_path: Path, result: Literal["put_off", "rejected"], code: str
) -> None:
    """Finding 1: a queue was emptied because its station was not in the register for nine minutes."""
    bench = Bench(tmp_path)
    bench.end(bench.begin())
    before = bench.bodies()
    settled = bench.answer(result, code=code)
    assert (settled.done, list(settled.put_off.values()), settled.is_taken) == ([], [code] * 3, False)
    assert bench.bodies() == before, "no loss, and nothing that is gone"
    assert bench.failed() == []
    assert bench.queue.next_to_send(10, list(settled.put_off)) == []
    assert bench.answer("stored").is_taken
    assert bench.waiting() == []


def test_more_events_than_allowed_are_dropped_and_every_one_is_declared(tmp_path: Path) -> None:
    bench = Bench(tmp_path, events_max=10)
    for _ in range(6):
        bench.end(bench.begin())
        bench.clock.wait(minutes=1)
    kept = [kind for kind in bench.waiting() if kind != "station.loss"]
    assert sorted(kept) == ["session.created"] * 5 + ["session.finalized"] * 5
    (loss,) = bench.losses()
    assert loss["reason"] == "queue_full"
    assert loss["count"] == 18 - len(kept) == len(loss["event_ids"])
    assert loss["events"]["weighvision.weight.recorded"] == 6, "before anything critical"
    bench.reopen()
    bench.answer("stored")
    assert bench.waiting() == []
    bench.end(bench.begin())
    assert bench.losses() == []


def test_a_loss_grows_until_it_is_told_and_then_another_one_begins(tmp_path: Path) -> None:
    bench = Bench(tmp_path, events_max=10)
    for _ in range(5):
        bench.end(bench.begin())
    (first,) = bench.losses()
    for _ in range(50):
        bench.end(bench.begin())
    assert bench.losses() == [first], "what was offered does not change any more"
    bench.answer("stored")
    for _ in range(50):
        bench.end(bench.begin())
    (second,) = bench.losses()
    waiting = len([kind for kind in bench.waiting() if kind != "station.loss"])
    assert first["count"] + second["count"] + waiting + 10 == 105 * 3
    assert len(second["event_ids"]) == 100, "counted, and not all of them named"


def test_what_is_older_than_three_days_goes_but_not_the_frame_of_a_session(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    session_id = bench.begin()
    bench.take(session_id)
    bench.end(session_id)
    bench.clock.wait(hours=73)
    bench.queue.keep_house()
    assert bench.waiting() == ["session.created", "session.finalized", "station.loss"]
    (loss,) = bench.losses()
    assert (loss["reason"], loss["count"], loss["pictures"]) == ("too_old", 2, 1)
    assert bench.failed() == ["weighvision.weight.recorded was given up: too_old"]
    assert len(bench.files()) == 1, "declared, and still there for a person"
    assert bench.queue.next_to_upload() is None


def test_a_session_fails_with_any_of_its_events_and_without_a_picture(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    old = bench.begin()
    bench.clock.wait(hours=73)
    sound = bench.begin()
    bench.queue.keep_house()
    assert bench.failed() == ["weighvision.weight.recorded was given up: too_old"]
    assert [one for one, _ in event_store.failed_sessions(bench.queue.connection, 9)[1]] == [old] != [sound]


def test_a_session_fails_when_there_is_no_room_for_its_events(tmp_path: Path) -> None:
    bench = Bench(tmp_path, events_max=10)
    for _ in range(4):
        bench.end(bench.begin())
    assert bench.failed() == ["weighvision.weight.recorded was given up: queue_full"] * 2
    for _ in range(4):
        bench.end(bench.begin())
    assert len(bench.failed()) == 8, "its beginning or its end, when nothing else is left"


def test_a_picture_that_is_refused_again_and_again_fails_its_session_and_is_declared(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    session_id = bench.begin()
    taken = bench.take(session_id)
    for attempts in range(3):
        found = bench.queue.next_to_upload()
        assert found is not None
        assert found.attempts == attempts
        bench.queue.upload_failed(found, "HTTP 422", timedelta())
        bench.reopen()
    assert bench.queue.next_to_upload() is None
    (loss,) = bench.losses()
    assert (loss["reason"], loss["pictures"], loss["session_ids"]) == ("retries_exhausted", 1, [str(session_id)])
    assert bench.failed() == ["a picture was given up: retries_exhausted"]
    assert bench.files() == {str(taken.picture_id)}


def test_pictures_take_no_more_room_than_allowed_and_the_oldest_of_no_session_goes_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path, pictures_bytes_max=3 * len(JPEG))
    session_id = bench.begin()
    first = bench.take(session_id)
    scheduled = bench.take()
    acked = bench.take()
    bench.upload(acked)
    bench.answer("stored")
    bench.take(session_id)
    assert str(acked.picture_id) not in bench.files()
    assert bench.losses() == [], "the edge has it"
    bench.take(session_id)
    assert str(scheduled.picture_id) not in bench.files()
    assert str(first.picture_id) in bench.files()
    (loss,) = bench.losses()
    assert (loss["reason"], loss["count"], loss["pictures"]) == ("no_space", 1, 1)
    bench.end(session_id)
    assert bench.bodies()[-1]["payload"]["image_count"] == 3


def test_a_disk_that_others_have_filled_takes_no_picture_and_each_of_them_is_declared(tmp_path: Path) -> None:
    bench = Bench(tmp_path, keep_free_bytes=1 << 60)
    session_id = bench.begin()
    bench.take(session_id)
    bench.take(session_id)
    bench.end(session_id)
    assert bench.files() == set()
    assert _finalized(bench)["image_count"] == 2, "the edge knows that two are missing"
    (loss,) = bench.losses()
    assert (loss["reason"], loss["count"], loss["pictures"]) == ("no_space", 2, 2)
    assert loss["session_ids"] == [str(session_id)]
    assert bench.failed() == ["a picture was given up: no_space"]


def test_what_is_held_is_not_given_up_for_a_picture_that_has_no_room_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, keep_free_bytes=1 << 20)
    session_id = bench.begin()
    acked = bench.take()
    bench.upload(acked)
    bench.answer("stored")
    bench.clock.wait(minutes=1)
    bench.report("stored")
    held = [bench.take(session_id), bench.take()]
    monkeypatch.setattr(picture_store, "free_bytes", lambda _: 0)
    for _ in range(3):
        bench.take(session_id)
    assert bench.files() == {str(one.picture_id) for one in held}, "what the edge has costs nothing"
    assert sum(loss.get("pictures", 0) for loss in bench.losses()) == 3, "the new ones alone"


def test_a_scheduled_picture_without_room_takes_no_reading_with_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, keep_free_bytes=1 << 60)
    at = bench.clock.now()
    taken = picture_store.new_picture(UUID(int=1), JPEG, "image/jpeg", at, "trace-1", None)
    bench.queue.add_picture(taken, JPEG, [MESSAGES.reading(at, "trace-1", 80.0)])
    assert sorted(bench.waiting()) == ["station.loss", "telemetry.reading"]


def test_a_disk_that_takes_no_file_loses_the_picture_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    session_id = bench.begin()

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_file", full)
        bench.take(session_id)
    assert bench.files() == set(), "not even half of it"
    assert [loss["reason"] for loss in bench.losses()] == ["no_space"]
    assert bench.failed() == ["a picture was given up: no_space"]
    after = bench.take(session_id)
    assert bench.files() == {str(after.picture_id)}


def test_a_database_that_takes_nothing_leaves_no_file_behind(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.queue.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError):
        bench.take()
    assert bench.files() == set()


def test_what_was_not_taken_is_declared_with_the_next_transaction_that_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    session_id = bench.begin()
    weight = MESSAGES.weight(session_id, bench.clock.now(), "trace-1", 81.0)
    bench.queue.not_taken([as_lost(weight), Lost(bench.clock.now(), session_id)])
    bench.queue.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError):
        bench.end(session_id)
    assert bench.queue.untaken_count == 2
    bench.queue.connection.execute("PRAGMA query_only = OFF")
    bench.end(session_id)
    assert bench.queue.untaken_count == 0
    assert _finalized(bench)["image_count"] == 1, "before the session ends"
    (loss,) = bench.losses()
    assert (loss["count"], loss["pictures"], loss["event_ids"]) == (2, 1, [str(weight.event_id)])
    assert bench.failed() == ["weighvision.weight.recorded was given up: no_space"]
    assert bench.reopen().untaken_count == 0
    assert bench.losses() == [loss], "once"


def test_what_was_not_taken_is_declared_at_an_orderly_end_if_the_disk_takes_it_by_then(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.queue.not_taken([Lost(bench.clock.now(), None)])
    bench.reopen()
    assert [loss["pictures"] for loss in bench.losses()] == [1]


def _finalized(bench: Bench) -> dict[str, Any]:
    (body,) = (body for body in bench.bodies() if body["event_type"].endswith("session.finalized"))
    return dict(body["payload"])


def test_a_file_without_a_row_is_removed_and_a_row_without_its_file_is_declared(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    kept, lost = bench.take(), bench.take()
    picture_store.write_file(tmp_path / "pictures", UUID(int=5), b"killed before its row was written")
    (tmp_path / "pictures" / f"{UUID(int=6)}.tmp").write_bytes(b"killed before it was whole")
    (tmp_path / "pictures" / str(lost.picture_id)).unlink()
    bench.reopen()
    assert bench.files() == {str(kept.picture_id)}
    (loss,) = bench.losses()
    assert (loss["reason"], loss["pictures"]) == ("damaged", 1)


def test_a_picture_whose_bytes_have_changed_is_not_sent_and_declared(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    taken = bench.take()
    path = tmp_path / "pictures" / str(taken.picture_id)
    path.write_bytes(JPEG[:-1] + b"\x00")
    assert bench.queue.read_picture(taken) is None
    assert bench.losses()[0]["reason"] == "damaged"
    assert bench.picture_states() == []


def test_a_picture_that_the_disk_does_not_give_waits_behind_the_others_and_fails_its_session_in_the_end(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    session_id = bench.begin()
    bad = bench.take(session_id)
    path = tmp_path / "pictures" / str(bad.picture_id)
    path.unlink()
    path.symlink_to(path.name)
    bench.clock.wait(seconds=1)
    good = bench.take(session_id)
    for attempts in range(3):
        found = bench.queue.next_to_upload()
        assert found is not None
        assert (found.picture_id, found.attempts) == (bad.picture_id, attempts)
        assert bench.queue.read_picture(found) is None
        behind = bench.queue.next_to_upload()
        assert behind is not None
        assert bench.queue.read_picture(behind) == JPEG
        assert behind.picture_id == good.picture_id
        bench.queue.upload_put_off(behind, timedelta(minutes=10))
        bench.clock.wait(minutes=10)
        bench.queue.keep_house()
        bench.reopen()
    (loss,) = bench.losses()
    assert (loss["reason"], loss["pictures"], loss["session_ids"]) == ("retries_exhausted", 1, [str(session_id)])
    assert bench.failed() == ["a picture was given up: retries_exhausted"]


@pytest.mark.parametrize("damage", ["header", "middle", "cut"])
def test_a_damaged_queue_is_set_aside_declared_and_the_station_starts(damage: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for _ in range(200):
        bench.end(bench.begin())
    bench.take()
    bench.queue.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    bench.queue.close()
    path = tmp_path / "queue.db"
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    else:
        start = 0 if damage == "header" else 4096
        data[start : start + 20_000] = b"\xa5" * 20_000
    path.write_bytes(bytes(data))
    after = Bench(tmp_path)
    (loss,) = after.losses()
    assert (loss["reason"], loss["is_count_exact"], loss["pictures"]) == ("damaged", False, 1)
    assert (tmp_path / "damaged-1" / "queue.db").read_bytes() == bytes(data)
    after.end(after.begin())
    assert after.waiting() == ["station.loss", "session.created", "weight.recorded", "session.finalized"]


@pytest.mark.parametrize("trace", ["picture", "status"])
@pytest.mark.parametrize("left", ["gone", "empty", "without its log"])
def test_a_queue_that_is_gone_is_no_first_start(trace: str, left: str, tmp_path: Path) -> None:
    """Finding 10 of the reading of the path from device to edge: the station deleted all pictures, and declared nothing."""
    bench = Bench(tmp_path)
    bench.begin()
    taken = bench.take() if trace == "picture" else None
    if left == "without its log":  # all that was ever committed is still in there
        before = (tmp_path / "queue.db").read_bytes()
    bench.queue.close()
    for path in tmp_path.glob("queue.db*"):
        path.unlink()
    if left == "empty":
        (tmp_path / "queue.db").touch()
    if left == "without its log":
        (tmp_path / "queue.db").write_bytes(before)
    if trace == "status":
        (tmp_path / "status.json").touch()
    after = Bench(tmp_path)
    (loss,) = after.losses()
    assert (loss["reason"], loss["is_count_exact"]) == ("damaged", False)
    assert loss.get("pictures", 0) == (1 if taken else 0)
    if taken:
        assert (tmp_path / "damaged-1" / "pictures" / str(taken.picture_id)).read_bytes() == JPEG
    assert after.reopen() is not None
    assert len(after.losses()) == 1, "once"


def test_a_first_start_that_was_killed_declares_nothing(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "queue.db").touch()
    assert Bench(tmp_path).waiting() == []


@pytest.mark.parametrize("moved", [[], ["queue.db"], ["queue.db", "pictures"]])
def test_killed_while_a_damaged_queue_is_set_aside_the_next_start_declares_it(
    moved: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.take()
    bench.queue.close()
    for path in tmp_path.glob("queue.db-*"):
        path.unlink()
    (tmp_path / "queue.db").write_bytes(b"no database" * 1000)
    move = shutil.move

    def die(source: Path, target: Path) -> None:
        if source.name not in moved:
            raise KeyboardInterrupt
        move(source, target)

    with monkeypatch.context() as killed:
        killed.setattr(shutil, "move", die)
        with suppress(KeyboardInterrupt):
            database._set_aside(tmp_path)
    assert {path.name for path in (tmp_path / "damaged-1").iterdir()} == {"untold", *moved}
    after = Bench(tmp_path)
    assert {loss["reason"] for loss in after.losses()} == {"damaged"}
    assert sum(loss.get("pictures", 0) for loss in after.losses()) == 1
    assert list(tmp_path.glob("damaged-*/untold")) == []


def test_one_station_to_a_folder(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(SpoolLocked):
        Bench(tmp_path)
    assert bench.reopen().next_to_send(1) == []


def test_replay_is_in_the_order_of_time_and_a_session_keeps_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    first = bench.begin()
    bench.clock.wait(minutes=10)
    second = bench.begin()
    bench.clock.jump(minutes=-30)
    bench.end(first)
    bench.end(second)
    sessions = [
        row[0] for row in bench.queue.connection.execute("SELECT session_id FROM events ORDER BY order_us, number")
    ]
    assert sessions == [str(first)] * 3 + [str(second)] * 3
    assert bench.waiting() == ["session.created", "weight.recorded", "session.finalized"] * 2


def test_a_queue_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.begin()
    bench.queue.connection.execute("PRAGMA user_version = 99")
    bench.queue.close()
    with pytest.raises(QueueTooNew, match="format 99"):
        Bench(tmp_path)
    connection = sqlite3.connect(tmp_path / "queue.db")
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (2,)
    connection.close()


LIVING = ["begin", "end", "take", "upload", "ack", "reject", "house", "kill", "day"]
REPORTED = ["verified", "wanted", "forgotten", "lost"]


@settings(max_examples=25)
@given(st.lists(st.sampled_from([*LIVING, *REPORTED]), max_size=40))
def test_everything_is_waiting_acknowledged_or_declared(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """A random life with tight limits: what was recorded = what waits + what was acknowledged or rejected + what was declared."""
    bench = Bench(tmp_path_factory.mktemp("queue"), events_max=10, pictures_bytes_max=2 * len(JPEG))
    life = _Life(bench)
    for step in steps:
        getattr(life, step)()
        life.check()


class _Life:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.events = 0
        self.pictures = 0
        self.settled = 0
        self.rejected = 0
        self.acked_pictures: set[str] = set()
        self.declared = {"events": 0, "pictures": 0}

    def begin(self) -> None:
        self.bench.begin()
        self.events += 2

    def end(self) -> None:
        for session in self.bench.queue.open_sessions()[:1]:
            self.bench.end(session.session_id)
            self.events += 1

    def take(self) -> None:
        session = next(iter(self.bench.queue.open_sessions()), None)
        self.bench.take(session and session.session_id)
        self.pictures += 1

    def upload(self) -> None:
        found = self.bench.queue.next_to_upload()
        if found is not None:
            self.bench.upload(replace(found, captured_us=to_us(self.bench.clock.now())))
            self.events += 1
            self.acked_pictures.add(str(found.picture_id))

    def ack(self) -> None:
        self._answer("stored")

    def reject(self) -> None:
        self._answer("rejected")

    def house(self) -> None:
        self.bench.queue.keep_house()

    def kill(self) -> None:
        self.bench.reopen()

    def day(self) -> None:
        self.bench.clock.wait(hours=30)

    def verified(self) -> None:
        self.bench.report("stored")

    def wanted(self) -> None:
        """In the edge's hands, whatever becomes of it here."""
        self.bench.report("wanted")

    def forgotten(self) -> None:
        for picture in self.bench.queue.next_to_check():
            self.acked_pictures.discard(str(picture.picture_id))
        self.bench.report("unknown")

    def lost(self) -> None:
        self.bench.report("lost")

    def _answer(self, result: str) -> None:
        kinds = self.bench.waiting()
        told = sum(kind != "station.loss" for kind in kinds)
        if result != "rejected":  # a loss stays until the edge has it
            for loss in self.bench.losses():
                self._count(loss)
        self.bench.answer(result, code="no")  # type: ignore[arg-type]  # one of the two that there are
        if result == "rejected":
            self.rejected += told
        self.settled += told

    def _count(self, loss: dict[str, object]) -> None:
        events = loss.get("events", {})
        assert isinstance(events, dict)
        self.declared["events"] += sum(events.values())
        self.declared["pictures"] += int(str(loss.get("pictures", 0)))

    def check(self) -> None:
        connection = self.bench.queue.connection
        waiting = connection.execute(
            "SELECT count(*) FROM events WHERE state = 'waiting' AND event_type <> 'station.loss'"
        ).fetchone()[0]
        held = connection.execute(
            "SELECT count(*) FROM pictures WHERE state IN ('waiting', 'presigned') AND NOT is_announced"
        ).fetchone()[0]
        pending = {"events": 0, "pictures": 0}
        rows = connection.execute(
            "SELECT json_extract(body, '$.payload') FROM events WHERE event_type = 'station.loss'"
            " AND state IN ('waiting', 'gathering')"
        )
        for (payload,) in rows:
            loss = json.loads(payload)
            pending["events"] += sum(loss.get("events", {}).values())
            pending["pictures"] += loss.get("pictures", 0)
        # A rejected event is answered and declared, so it is counted on both sides.
        assert self.events + self.rejected == waiting + self.settled + self.declared["events"] + pending["events"]
        assert self.pictures == held + len(self.acked_pictures) + self.declared["pictures"] + pending["pictures"]
