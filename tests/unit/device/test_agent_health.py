import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from farmiq.device.node_agent.drivers import Channel, Fault
from farmiq.device.node_agent.health import RECOVERED_AFTER, Health
from farmiq.device.node_agent.plausibility import judged

WARM = Channel(metric="temperature", unit="C", sensor="t1")
WET = Channel(metric="humidity", unit="%", sensor="t1")
OTHER = Channel(metric="ammonia", unit="ppm", sensor="a1")
BROKEN = Fault("the cable is cut")


def events(logs: list[Any]) -> list[tuple[str, str]]:
    return [(line["event"], line["metric"]) for line in logs]


def test_a_failure_and_its_repair_are_each_said_once() -> None:
    news = asyncio.Event()
    health = Health(news)
    with capture_logs() as logs:
        for _ in range(10):
            health.note(0, WARM, BROKEN)
        for _ in range(10):
            health.note(0, WARM, None)
    assert events(logs) == [("sensor_failed", "temperature"), ("sensor_recovered", "temperature")]
    assert logs[0]["reason"] == "the cable is cut"
    assert logs[1]["failed_reads"] == 10
    assert (health.failures, health.faulty_sensors) == ({"t1": 10}, [])


def test_a_loose_contact_counts_as_one_failure_for_as_long_as_it_is_loose() -> None:
    health = Health(asyncio.Event())
    with capture_logs() as logs:
        for turn in range(60):
            health.note(0, WARM, BROKEN if turn % RECOVERED_AFTER == 0 else None)
    assert events(logs) == [("sensor_failed", "temperature")]
    assert health.faulty_sensors == ["t1"]


def test_a_sensor_is_faulty_while_any_of_its_channels_is() -> None:
    news = asyncio.Event()
    health = Health(news)
    health.note(0, WARM, BROKEN)
    health.note(1, WET, BROKEN)
    health.note(2, OTHER, BROKEN)
    assert health.faulty_sensors == ["a1", "t1"]
    for _ in range(RECOVERED_AFTER):
        health.note(0, WARM, None)
        health.note(2, OTHER, None)
    assert health.faulty_sensors == ["t1"]


def test_a_change_is_news_and_more_of_the_same_is_not() -> None:
    news = asyncio.Event()
    health = Health(news)
    health.note(0, WARM, None)
    assert not news.is_set()
    health.note(0, WARM, BROKEN)
    assert news.is_set()
    news.clear()
    health.note(0, WARM, BROKEN)
    assert not news.is_set()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (215.0, 20.5),
        (600.0, 59.0),
        (-390.0, -40.0),
        (601.0, Fault("59.1 C is above the limit of 59")),
        (-391.0, Fault("-40.1 C is below the limit of -40")),
        (float("nan"), Fault("answered nan, which is not a number")),
        (1e308, Fault("1e+307 C is above the limit of 59")),
        (None, None),
        (BROKEN, BROKEN),
    ],
)
def test_a_reading_is_scaled_moved_and_held_against_its_limits(
    raw: float | Fault | None, expected: float | Fault | None
) -> None:
    channel = Channel(metric="temperature", unit="C", sensor="t1", scale=0.1, offset=-1.0, min=-40, max=59)
    assert judged(channel, raw) == expected
