"""Charts, asked for over HTTP on the edge's service."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import uuid4

import pytest_asyncio

from farmiq.contracts.telemetry import Channel, TelemetryBatch
from farmiq.contracts.timestamps import to_us
from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin
from support.query_api import QueryApi, query_api
from support.telemetry import ELSEWHERE, HERE, NOW

START = datetime(2026, 11, 10, 10, 0, tzinfo=UTC)
CHANNELS = [
    Channel(metric="temperature", unit="C", sensor="t1"),
    Channel(metric="temperature", unit="C", sensor="t2"),
    Channel(metric="temperature", unit="F", sensor="t1"),
    Channel(metric="humidity", unit="%"),
]
AGGREGATES, METRICS = "/api/v1/telemetry/aggregates", "/api/v1/telemetry/metrics"
TEMPERATURE = {"tenant_id": "demo", "device_id": "node-1", "metric": "temperature"}


def two_days(origin: Origin) -> StreamBatch:
    """Every 10 minutes for two days, each channel in turn: the value is the number of the sample."""
    numbers = range(2 * 24 * 6)
    return StreamBatch(
        origin,
        TelemetryBatch(
            stream_id=uuid4(),
            boot_id=uuid4(),
            lane="live",
            seq0=1,
            time_quality=2,
            channels=CHANNELS,
            t=[to_us(START + timedelta(minutes=10 * number)) for number in numbers],
            c=[number % 4 for number in numbers],
            v=[float(number) for number in numbers],
        ),
    )


def between(hours_from: float, hours_to: float) -> dict[str, str]:
    return {
        "from": (START + timedelta(hours=hours_from)).isoformat(),
        "to": (START + timedelta(hours=hours_to)).isoformat(),
    }


@pytest_asyncio.fixture
async def api(edge_url: str, edge_pool: Pool) -> AsyncIterator[QueryApi]:
    async with edge_pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [two_days(HERE), two_days(ELSEWHERE)], NOW)
    async with query_api(edge_url) as found:
        yield found


async def test_an_hourly_chart_has_each_sensor_and_unit_by_itself(api: QueryApi) -> None:
    answer = await api.get(AGGREGATES, **TEMPERATURE, window="1h", **between(0, 2))
    assert (answer["window"], answer["metric"], answer["next"]) == ("1h", "temperature", None)
    assert answer["buckets"][0] == {
        "bucket_start_at": "2026-11-10T10:00:00Z",
        "bucket_end_at": "2026-11-10T11:00:00Z",
        "sensor": "t1",
        "unit": "C",
        "count": 2,
        "sum_value": 4.0,
        "avg_value": 2.0,
        "min_value": 0.0,
        "max_value": 4.0,
    }
    keys = [(bucket["bucket_start_at"][11:13], bucket["sensor"], bucket["unit"]) for bucket in answer["buckets"]]
    assert keys == [(hour, *series) for hour in ("10", "11") for series in (("t1", "C"), ("t1", "F"), ("t2", "C"))]


async def test_one_sensor_can_be_asked_for(api: QueryApi) -> None:
    answer = await api.get(AGGREGATES, **TEMPERATURE, sensor="t2", window="1h", **between(0, 48))
    assert {bucket["sensor"] for bucket in answer["buckets"]} == {"t2"}
    assert sum(bucket["count"] for bucket in answer["buckets"]) == 72
    nameless = await api.get(
        AGGREGATES, **TEMPERATURE | {"metric": "humidity"}, sensor="", window="1d", **between(0, 48)
    )
    assert sum(bucket["count"] for bucket in nameless["buckets"]) == 72


async def test_merged_sensors_add_counts_and_sums_and_never_mix_units(api: QueryApi) -> None:
    apart = await api.get(AGGREGATES, **TEMPERATURE, window="1h", **between(0, 48))
    merged = await api.get(AGGREGATES, **TEMPERATURE, window="1h", merge_sensors="true", **between(0, 48))
    expected = []
    rows = sorted(apart["buckets"], key=lambda bucket: (bucket["bucket_start_at"], bucket["unit"]))
    for (start, unit), group in groupby(rows, key=lambda bucket: (bucket["bucket_start_at"], bucket["unit"])):
        sensors = list(group)
        count, total = sum(one["count"] for one in sensors), sum(one["sum_value"] for one in sensors)
        low, high = min(one["min_value"] for one in sensors), max(one["max_value"] for one in sensors)
        expected.append((start, unit, None, count, total, total / count, low, high))
    assert [
        (
            bucket["bucket_start_at"], bucket["unit"], bucket["sensor"], bucket["count"], bucket["sum_value"],
            bucket["avg_value"], bucket["min_value"], bucket["max_value"],
        )
        for bucket in merged["buckets"]
    ] == expected  # fmt: skip


async def test_pages_hold_every_bucket_once_in_order(api: QueryApi) -> None:
    for more in ({}, {"merge_sensors": "true"}, {"sensor": "t1"}):
        whole = await api.get(AGGREGATES, **TEMPERATURE, window="1m", **between(0, 48), **more)
        pages = await api.pages(AGGREGATES, **TEMPERATURE, window="1m", **between(0, 48), limit=7, **more)
        assert [bucket for page in pages for bucket in page["buckets"]] == whole["buckets"]
        assert len(pages) > 10


async def test_the_range_begins_with_the_bucket_that_holds_its_first_moment(api: QueryApi) -> None:
    answer = await api.get(AGGREGATES, **TEMPERATURE, sensor="t1", window="1d", **between(1, 40))
    assert [bucket["bucket_start_at"] for bucket in answer["buckets"]] == [
        "2026-11-10T00:00:00Z",
        "2026-11-10T00:00:00Z",
        "2026-11-11T00:00:00Z",
        "2026-11-11T00:00:00Z",
        "2026-11-12T00:00:00Z",
        "2026-11-12T00:00:00Z",
    ]
    assert await api.get(AGGREGATES, **TEMPERATURE, window="1h", **between(-9, 0)) == {
        "metric": "temperature",
        "window": "1h",
        "buckets": [],
        "next": None,
    }


async def test_auto_chooses_a_window_for_the_range_and_says_which(api: QueryApi) -> None:
    for hours, window in ((1, "1m"), (25, "1m"), (26, "1h"), (24 * 30, "1h"), (24 * 365, "1d")):
        answer = await api.get(AGGREGATES, **TEMPERATURE, **between(0, hours))
        assert answer["window"] == window
    given = await api.get(AGGREGATES, **TEMPERATURE, window="1d", **between(0, 1))
    assert given["window"] == "1d"


async def test_metrics_name_every_series_with_its_first_and_last_day(api: QueryApi) -> None:
    answer = await api.get(METRICS, tenant_id="demo", device_id="node-1")
    days = {"first_bucket_at": "2026-11-10T00:00:00Z", "last_bucket_at": "2026-11-12T00:00:00Z"}
    assert answer["metrics"] == [
        {"device_id": "node-1", "metric_type": metric, "sensor": sensor, "unit": unit, **days}
        for metric, sensor, unit in (
            ("humidity", "", "%"),
            ("temperature", "t1", "C"),
            ("temperature", "t1", "F"),
            ("temperature", "t2", "C"),
        )
    ]


async def test_metrics_of_a_tenant_come_in_pages(api: QueryApi, edge_pool: Pool) -> None:
    second = Origin("demo", "farm-1", "barn-2", "node-2")
    async with edge_pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [two_days(second)], NOW)
    pages = await api.pages(METRICS, tenant_id="demo", limit=3)
    names = [(row["device_id"], row["metric_type"], row["sensor"]) for page in pages for row in page["metrics"]]
    assert names == sorted(names)
    assert [device for device, _, _ in names] == ["node-1"] * 4 + ["node-2"] * 4
    of_device = await api.pages(METRICS, tenant_id="demo", device_id="node-1", limit=3)
    assert [len(page["metrics"]) for page in of_device] == [3, 1]


async def test_a_tenant_sees_only_its_own(api: QueryApi) -> None:
    foreign = TEMPERATURE | {"device_id": "node-9"}
    assert (await api.get(AGGREGATES, **foreign, window="1d", **between(0, 48)))["buckets"] == []
    assert (await api.get(METRICS, tenant_id="demo", device_id="node-9"))["metrics"] == []
    own = await api.get(METRICS, tenant_id="other")
    assert {row["device_id"] for row in own["metrics"]} == {"node-9"}
    assert (await api.get(METRICS, tenant_id="nobody"))["metrics"] == []


async def test_a_wrong_question_is_answered_with_400(api: QueryApi) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        (AGGREGATES, {"tenant_id": "demo", "device_id": "node-1"}),
        (AGGREGATES, {**TEMPERATURE, "window": "5m"}),
        (AGGREGATES, {**TEMPERATURE, "limit": "10001"}),
        (AGGREGATES, {**TEMPERATURE, "sensor": "t1", "merge_sensors": "true"}),
        (AGGREGATES, {**TEMPERATURE, "merge_sensors": "perhaps"}),
        (AGGREGATES, {**TEMPERATURE, "after": "here"}),
        (AGGREGATES, {**TEMPERATURE, "after": cursor(("2026-01-01T00:00:00Z", "t\x00", "C"))}),
        (AGGREGATES, {**TEMPERATURE, "from": "2026-01-02T00:00:00Z", "to": "2026-01-02T00:00:00Z"}),
        (METRICS, {}),
        (METRICS, {"tenant_id": "demo", "limit": "0"}),
        (METRICS, {"tenant_id": "demo", "after": cursor(("a", "b", "c"))}),
    ]
    for path, query in wrong:
        status, answer = await api.ask(path, **query)
        assert (status, answer["error"]["code"]) == (400, "invalid_request"), query
