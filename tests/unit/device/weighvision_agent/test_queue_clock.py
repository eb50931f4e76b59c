"""Clocks that jump, and a station that is switched off. What waits grows old while the station runs, and only then."""

import sqlite3
from pathlib import Path
from typing import Final

import pytest

from farmiq.device.weighvision_agent import database
from unit.device.weighvision_agent.queue_world import EPOCH, RESTORED, Bench

YEARS: Final = 24 * 365 * 30
WHOLE: Final = ["session.created", "weight.recorded", "session.finalized"]


def weighed(bench: Bench) -> None:
    session_id = bench.begin()
    bench.take(session_id)
    bench.end(session_id)


@pytest.mark.parametrize("hours", [73, YEARS, -73, -YEARS])
def test_a_clock_that_jumps_makes_nothing_old(hours: int, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    weighed(bench)
    bench.clock.jump(hours=hours)
    bench.queue.keep_house()
    assert bench.waiting() == WHOLE
    assert bench.queue.next_to_upload() is not None
    assert (bench.losses(), bench.failed()) == ([], [])


def test_a_station_that_boots_in_another_year_and_finds_the_time_loses_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.clock.jump(hours=-YEARS)
    weighed(bench)
    bench.reboot()
    bench.clock.jump(hours=YEARS)
    bench.queue.keep_house()
    assert bench.waiting() == WHOLE
    assert bench.losses() == []


def test_time_that_the_station_ran_counts_across_starts_and_time_that_it_was_off_does_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    weighed(bench)
    for _ in range(3):
        bench.clock.wait(hours=20)
        bench.queue.keep_house()
        bench.reboot(hours=200)
        bench.queue.keep_house()
    assert bench.losses() == []
    bench.clock.wait(hours=13)
    bench.queue.keep_house()
    (loss,) = bench.losses()
    assert (loss["reason"], loss["count"], loss["pictures"]) == ("too_old", 2, 1)


def test_a_kill_makes_what_waits_younger_and_never_older(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.clock.wait(hours=70)
    weighed(bench)
    bench.reboot()  # nothing was kept of those seventy hours
    bench.clock.wait(hours=71)
    bench.queue.keep_house()
    assert bench.losses() == []


def test_a_clock_that_falls_back_keeps_no_picture_waiting(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    taken = bench.take()
    bench.queue.upload_put_off(taken, bench.clock.uptime)
    assert bench.queue.next_to_upload() is None
    bench.clock.jump(hours=-YEARS)
    bench.clock.wait(hours=1)
    assert bench.queue.next_to_upload() is not None


def test_what_the_edge_has_is_kept_as_long_as_was_said_however_the_clock_jumps(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    taken = bench.take()
    bench.upload(taken)
    bench.answer("stored")
    bench.clock.jump(hours=YEARS)
    bench.queue.keep_house()
    assert bench.files() == {str(taken.picture_id)}
    bench.answer("stored", epoch=RESTORED, is_new=True)
    assert bench.waiting() == ["image.captured"]


def test_what_a_restored_edge_asks_for_again_begins_to_wait_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    weighed(bench)
    bench.clock.wait(hours=71)
    found = bench.queue.next_to_upload()
    assert found is not None
    bench.upload(found)
    bench.answer("stored", epoch=EPOCH)
    bench.clock.wait(hours=2)
    bench.answer("stored", epoch=RESTORED, is_new=True)
    assert bench.waiting() == [*WHOLE, "image.captured"]
    bench.queue.keep_house()
    assert bench.losses() == []
    bench.answer("stored", "stored", "stored", "rejected", code="unknown_media", epoch=RESTORED)
    bench.queue.keep_house()
    assert (bench.losses(), bench.picture_states()) == ([], ["waiting"])


def test_a_queue_of_the_first_format_is_taken_over_and_nothing_in_it_is_old(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    weighed(bench)
    acked = bench.take()
    bench.upload(acked)
    bench.answer("stored")
    bench.begin()
    bench.queue.close()
    _as_format_1(tmp_path / database.FILE)
    bench = Bench(tmp_path)
    bench.queue.keep_house()
    assert bench.waiting() == ["session.created", "weight.recorded"]
    assert bench.queue.next_to_upload() is not None
    assert str(acked.picture_id) in bench.files()
    assert bench.report("stored") == 1
    bench.clock.wait(hours=25)
    bench.queue.keep_house()
    assert str(acked.picture_id) not in bench.files()
    bench.clock.wait(hours=48)
    bench.queue.keep_house()
    assert {loss["reason"] for loss in bench.losses()} == {"too_old"}


def _as_format_1(path: Path) -> None:
    """The columns that it did not have, and the wall clock where it had that."""
    connection = sqlite3.connect(path)
    for index in ("events_since", "pictures_since", "pictures_to_check"):
        connection.execute(f"DROP INDEX {index}")
    for column in ("verified_us", "is_announced"):
        connection.execute(f"ALTER TABLE pictures DROP COLUMN {column}")
    for table in ("sessions", "events", "pictures"):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN since_us")
    connection.execute("UPDATE events SET settled_us = 1777888800000000 WHERE settled_us IS NOT NULL")
    connection.execute("UPDATE pictures SET settled_us = 1777888800000000 WHERE settled_us IS NOT NULL")
    connection.execute("UPDATE pictures SET next_us = 1777888800000000")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
