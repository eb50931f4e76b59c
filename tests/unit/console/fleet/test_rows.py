from datetime import UTC, datetime
from uuid import UUID

import pytest

from farmiq.console.fleet.advice import advice
from farmiq.console.fleet.answers import Device, DeviceState, Marks, Status, Stream, Totals
from farmiq.console.fleet.cells import Cell
from farmiq.console.fleet.incomplete import ON_ITS_WAY_MAX, incomplete
from farmiq.console.fleet.rows import device_rows
from farmiq.console.wording import compact

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
STREAM = UUID(int=7)


def device(captured: int | None = 120, contiguous: int = 100, **changed: object) -> Device:
    marks = Marks(STREAM, contiguous, contiguous, 0, 0, captured)
    status = Status(spool_bytes=50, spool_bytes_max=200)
    given = {"marks": marks, "status": status, **changed}
    return Device("node-1", "demo", "f", "b", "online", fresh=True, **given)  # type: ignore[arg-type]  # given by the test


def stream(contiguous: int, stream_id: UUID = STREAM) -> Stream:
    return Stream(stream_id, "node-1", contiguous, contiguous, contiguous, 0, 0, NOW, NOW)


def test_three_marks_say_how_far_a_device_is_safe_and_what_is_to_come() -> None:
    (row,) = device_rows([device()], [stream(90)])
    assert (row.on_disk, row.in_edge, row.in_cloud) == (120, 100, 90)
    assert (row.edge_lag, row.cloud_lag, row.spool_percent) == (20, 10, 25.0)


def test_a_weigh_station_has_what_waits_instead_of_marks() -> None:
    status = Status(unacked_count=1200, pictures_waiting_count=1, failed_sessions_count=2)
    (station,) = device_rows([device(marks=None, status=status)], [])
    assert (station.waits, station.failed) == ("1,200 events, 1 picture wait", "2 sessions failed")
    (node,) = device_rows([device()], [])
    assert (node.waits, node.failed) == (None, None)


def test_a_cloud_that_could_not_be_asked_is_not_a_cloud_that_has_nothing() -> None:
    (unknown,), (empty,) = device_rows([device()], None), device_rows([device()], [stream(5, UUID(int=8))])
    assert (unknown.in_cloud, unknown.cloud_lag) == (None, None)
    assert (empty.in_cloud, empty.cloud_lag) == (0, 100), "it has another stream of the device, and none of this one"


def test_an_edge_that_is_ahead_of_the_node_s_last_word_lags_by_nothing() -> None:
    (row,) = device_rows([device(captured=95)], [stream(101)])
    assert (row.on_disk, row.edge_lag, row.cloud_lag) == (100, 0, 0)
    (silent,) = device_rows([device(captured=None)], [])
    assert (silent.on_disk, silent.edge_lag) == (None, None)


def test_a_device_that_numbers_nothing_has_no_marks() -> None:
    (row,) = device_rows([device(marks=None, status=None, time_quality=1)], [])
    assert (row.on_disk, row.in_edge, row.in_cloud, row.spool_percent) == (None, None, None, None)
    assert row.clock == ("warn", "clock runs on")


def test_devices_with_something_missing_are_found_from_their_totals() -> None:
    edge = {
        "whole": Totals("whole", 10_000, 0, 0),
        "on-its-way": Totals("on-its-way", 10_000, 0, 0),
        "behind": Totals("behind", 10_000, 0, 0),
        "torn": Totals("torn", 10_000, 0, 1),
        "unsent": Totals("unsent", 10_000, 0, 0),
        "lost": Totals("lost", 9_000, 1_000, 0),
    }
    cloud = {
        "whole": Totals("whole", 10_000, 0, 0),
        "on-its-way": Totals("on-its-way", 10_000 - ON_ITS_WAY_MAX, 0, 0),
        "behind": Totals("behind", 10_000 - ON_ITS_WAY_MAX - 1, 0, 0),
        "torn": Totals("torn", 10_000, 0, 0),
        "lost": Totals("lost", 9_000, 1_000, 0),
        "only-there": Totals("only-there", 5, 0, 3),
    }
    assert incomplete(edge, cloud, {"lost"}) == ["behind", "lost", "only-there", "torn", "unsent"]
    assert incomplete(edge, None, set()) == ["torn"], "what the cloud has is not known, so nothing is behind it"
    assert incomplete(None, cloud, set()) == ["only-there"]
    assert incomplete(None, None, set()) == []


@pytest.mark.parametrize(
    ("cell", "state", "words"),
    [
        (Cell(NOW, "stored", 5), "online", "Nothing to do."),
        (Cell(NOW, "unexplained", 5, unexplained=3), "online", "farmiq spool verify"),
        (Cell(NOW, "unexplained", 5, unexplained=3), "quiet", "If its disk is still there"),
        (Cell(NOW, "in_flight", 5, 2, places=("dead_letters",)), "online", "redrive"),
        (Cell(NOW, "in_flight", 5, 2, places=("outbox",)), "online", "page Sync"),
        (Cell(NOW, "in_flight", 5, 2, places=("bus",)), "online", "RabbitMQ"),
        (Cell(NOW, "in_flight", 5, 0, 2, places=("node",)), "quiet", "when it is back"),
        (Cell(NOW, "in_flight", 5, 0, 2, places=("node",)), "online", "by itself"),
        (Cell(NOW, "lost", 5, lost=2), "online", "page Losses"),
        (Cell(NOW, "unknown", None, 7), "online", "safe in the edge database"),
        (Cell(NOW, "unknown", 7), "online", "could not be asked"),
        (Cell(NOW, "silent", 0), "quiet", "its power, its network"),
    ],
)
def test_each_kind_of_field_says_what_to_do(cell: Cell, state: DeviceState, words: str) -> None:
    who = Device("node-1", "demo", "f", "b", state, fresh=False)
    assert words in " ".join(advice(cell, who))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (3650, "3.6k"),
        (36_500, "36k"),
        (999_999, "999k"),
        (1_250_000, "1.2M"),
        (None, "\u2013"),
    ],
)
def test_a_small_field_shows_a_number_that_is_never_too_large(value: float | None, shown: str) -> None:
    assert compact(value) == shown
