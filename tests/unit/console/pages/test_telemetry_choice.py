"""What the page Telemetry shows to somebody who asked for little, and what its links say."""

from datetime import UTC, datetime, timedelta

import pytest

from farmiq.console.curves.answers import Series
from farmiq.console.pages.telemetry import DEVICES_MAX, Asked, Choice, choice_of, chosen_devices, completed
from farmiq.console.ranges import TimeRange

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
LAST_HOUR = TimeRange(NOW - timedelta(hours=1), NOW, "1h")


def asked(*devices: str, metric: str | None = None, time: TimeRange = LAST_HOUR) -> Asked:
    return Asked(list(devices), metric, None, time, "auto")


def series(device_id: str, metric: str, sensor: str = "") -> Series:
    return Series(device_id, metric, sensor, "C", NOW)


def test_fields_that_were_left_empty_and_devices_that_are_named_twice_do_not_count() -> None:
    assert chosen_devices(["node-1", " ", "node-2 ", "node-1"]) == ["node-1", "node-2"]
    assert chosen_devices(None) == []
    assert len(chosen_devices([f"node-{number}" for number in range(DEVICES_MAX + 1)])) == DEVICES_MAX


@pytest.mark.parametrize(
    ("metrics", "shown"), [(["ammonia", "temperature"], "temperature"), (["ammonia", "co2"], "ammonia"), ([], None)]
)
def test_who_names_no_metric_sees_the_temperature_or_the_first_there_is(metrics: list[str], shown: str | None) -> None:
    found = completed(asked(), Choice(devices=["node-1", "node-2"], metrics=metrics))
    assert (found.devices, found.metric) == (["node-1"], shown)


def test_what_was_asked_for_is_not_replaced() -> None:
    found = completed(asked("node-9", metric="co2"), Choice(devices=["node-1"], metrics=["temperature"]))
    assert (found.devices, found.metric) == (["node-9"], "co2")


def test_sensors_are_those_of_the_metric_that_is_shown_and_beside_are_all_that_measure_it() -> None:
    known = [
        series("node-1", "temperature", "t2"),
        series("node-1", "temperature", "t1"),
        series("node-1", "co2", "c1"),
    ]
    choice = choice_of([*known, series("node-2", "temperature"), series("node-3", "co2")], asked("node-1"), known)
    assert choice.sensors == ["t1", "t2"]
    assert choice.beside == ["node-1", "node-2"]
    assert choice.devices == ["node-1", "node-2", "node-3"]


def test_a_permalink_has_both_ends_of_the_time_and_other_links_its_length() -> None:
    plain = asked("node-1", metric="t").parameters()
    assert (plain["range"], plain["since"], plain["until"]) == ("1h", None, None)
    fixed = asked("node-1", metric="t").parameters(is_fixed=True)
    assert (fixed["range"], fixed["since"], fixed["until"]) == (
        None,
        "2026-11-16T11:00:00+00:00",
        "2026-11-16T12:00:00+00:00",
    )
    zoomed = TimeRange(NOW - timedelta(minutes=1), NOW, None)
    assert asked("node-1", time=zoomed).parameters()["since"] == "2026-11-16T11:59:00+00:00"
