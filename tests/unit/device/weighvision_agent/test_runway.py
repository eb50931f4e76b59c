"""How long a station can stay alone: the first limit that it will reach, at the pace of late."""

from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from farmiq.device.weighvision_agent.runway import Lately, runway_of
from unit.device.weighvision_agent.queue_world import JPEG, Bench

DAY = timedelta(days=1)
LATELY = Lately(
    window=DAY, events=100, events_room=1000, picture_bytes=50, picture_bytes_room=200, age_room=timedelta(days=9)
)


def test_the_limit_that_is_reached_first_decides() -> None:
    assert runway_of(LATELY) == 4 * DAY
    assert runway_of(replace(LATELY, picture_bytes=1)) == 9 * DAY
    assert runway_of(replace(LATELY, picture_bytes=0, age_room=20 * DAY)) == 10 * DAY
    assert runway_of(replace(LATELY, picture_bytes_room=-5)) == timedelta()
    assert runway_of(replace(LATELY, window=timedelta(minutes=9))) is None
    assert runway_of(replace(LATELY, picture_bytes=1, picture_bytes_room=1 << 60)) == 9 * DAY


def weigh_for_a_day(bench: Bench) -> None:
    for _ in range(24):
        bench.clock.wait(hours=1)
        session_id = bench.begin()
        bench.take(session_id)
        bench.end(session_id)


def test_a_station_that_nobody_answers_runs_out_of_room_as_it_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path, events_max=10_000, pictures_bytes_max=48 * len(JPEG))
    assert bench.queue.runway() is None
    weigh_for_a_day(bench)
    runway = bench.queue.runway()
    assert runway is not None
    assert timedelta(hours=23) <= runway <= timedelta(hours=25)
    weigh_for_a_day(bench)
    bench.queue.keep_house()
    assert (bench.losses(), bench.queue.runway()) == ([], timedelta())
    bench.take()
    assert [loss["reason"] for loss in bench.losses()] == ["no_space"]


def test_what_the_edge_has_takes_no_room(tmp_path: Path) -> None:
    bench = Bench(tmp_path, pictures_bytes_max=48 * len(JPEG))
    weigh_for_a_day(bench)
    while (waits := bench.queue.next_to_upload()) is not None:
        bench.upload(waits)
    bench.answer("stored")
    runway = bench.queue.runway()
    assert runway is not None
    assert timedelta(hours=47) <= runway <= timedelta(hours=50)


def test_what_has_waited_for_two_days_leaves_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.begin()
    bench.clock.wait(hours=48)
    assert bench.queue.runway() == timedelta(hours=24)
