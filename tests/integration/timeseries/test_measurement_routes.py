"""Samples and totals, asked for over HTTP on the edge's service."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from farmiq.kit.postgres import Pool
from farmiq.timeseries import queries
from farmiq.timeseries.admission import admit_batches, admit_readings, declare_lost
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.samples import SingleReading, StreamBatch
from support.query_api import QueryApi, query_api
from support.telemetry import ELSEWHERE, HERE, NOW, START_US, batch_of, loss_of

STREAM = UUID(int=19)  # the same in every process that collects these tests
FIRST_AT = datetime.fromtimestamp(START_US / 1e6, UTC)
RANGE = {"from": FIRST_AT.isoformat(), "to": (FIRST_AT + timedelta(hours=1)).isoformat()}
NODE = {"tenant_id": "demo", "device_id": "node-1"}
READINGS = "/api/v1/telemetry/readings"


@pytest_asyncio.fixture
async def api(edge_url: str, edge_pool: Pool) -> AsyncIterator[QueryApi]:
    async with edge_pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, batch_of(STREAM, 1, 20))], NOW)
        await admit_batches(connection, [StreamBatch(HERE, batch_of(STREAM, 26, 30))], NOW)
        await admit_batches(connection, [StreamBatch(ELSEWHERE, batch_of(uuid4(), 1, 5))], NOW)
        await declare_lost(connection, HERE, uuid4(), loss_of(STREAM, 21, 23))
    async with query_api(edge_url) as found:
        yield found


async def test_pages_by_key_hold_every_sample_of_the_range_once_newest_first(api: QueryApi) -> None:
    pages = await api.pages(READINGS, **NODE, **RANGE, limit=7)
    assert [len(page["readings"]) for page in pages] == [7, 7, 7, 4]
    seqs = [row["seq"] for page in pages for row in page["readings"]]
    assert seqs == [*range(30, 25, -1), *range(20, 0, -1)]


async def test_samples_of_one_instant_are_paged_without_loss_or_repetition(api: QueryApi, edge_pool: Pool) -> None:
    at = FIRST_AT + timedelta(minutes=30)
    readings = [SingleReading(HERE, uuid4(), at, "co2", float(number), "ppm") for number in range(10)]
    async with edge_pool.acquire() as connection, connection.transaction():
        await admit_readings(connection, readings, NOW)
    pages = await api.pages(READINGS, **NODE, **RANGE, metric="co2", limit=3)
    assert sorted(row["metric_value"] for page in pages for row in page["readings"]) == list(range(10))


async def test_the_range_holds_its_first_moment_and_not_its_last(api: QueryApi) -> None:
    bounds = {
        "from": (FIRST_AT + timedelta(seconds=5)).isoformat(),
        "to": (FIRST_AT + timedelta(seconds=8)).isoformat(),
    }
    page = await api.get(READINGS, **NODE, **bounds)
    assert [row["seq"] for row in page["readings"]] == [7, 6, 5]


async def test_one_metric_and_one_sensor_of_a_device_can_be_asked_for(api: QueryApi) -> None:
    humidity = await api.get(READINGS, **NODE, **RANGE, metric="humidity")
    assert {row["metric_type"] for row in humidity["readings"]} == {"humidity"}
    assert all(row["metric_value"] % 2 == 1 for row in humidity["readings"])
    named = await api.get(READINGS, **NODE, **RANGE, metric="temperature", sensor="t1")
    assert [row["seq"] for row in named["readings"]] == [30, 28, 26, *range(20, 0, -2)]
    assert (await api.get(READINGS, **NODE, **RANGE, metric="temperature", sensor="t2"))["readings"] == []
    nameless = await api.get(READINGS, **NODE, **RANGE, metric="humidity", sensor="")
    assert nameless == humidity


async def test_a_rare_metric_is_found_page_by_page_however_much_lies_before_it(api: QueryApi, edge_pool: Pool) -> None:
    async with edge_pool.acquire() as connection:
        rare = SingleReading(HERE, uuid4(), FIRST_AT + timedelta(seconds=3), "co2", 400.0, "ppm")
        await admit_readings(connection, [rare], NOW)
        found, pages, before = [], 0, None
        while True:
            page = await queries.readings(
                connection,
                tenant_id="demo",
                device_id="node-1",
                since=FIRST_AT,
                until=FIRST_AT + timedelta(hours=1),
                metric="co2",
                before=before,
                limit=10,
                scanned_rows_max=4,
            )
            found += page.rows
            pages += 1
            if page.stopped_at is None:
                break
            before = page.stopped_at
    assert [row.metric_value for row in found] == [400.0]
    assert pages == 7, "26 rows, four at a time"


async def test_a_tenant_sees_only_its_own(api: QueryApi) -> None:
    page = await api.get(READINGS, tenant_id="other", device_id="node-1", **RANGE)
    assert page == {"readings": [], "next": None}
    assert len((await api.get(READINGS, tenant_id="other", device_id="node-9", **RANGE))["readings"]) == 5


async def test_the_totals_count_every_tenant(api: QueryApi) -> None:
    totals = await api.get("/api/v1/telemetry/stats")
    assert totals == {"samples_stored": 30, "samples_in_streams": 30, "samples_lost": 3, "streams": 2}


async def test_every_route_stands_in_the_api_page(api: QueryApi) -> None:
    described = await api.get("/api-docs/openapi.json")
    assert {
        "/api/v1/telemetry/stats",
        "/api/v1/telemetry/readings",
        "/api/v1/telemetry/aggregates",
        "/api/v1/telemetry/metrics",
        "/api/v1/streams",
        "/api/v1/streams/{stream_id}/gaps",
        "/api/v1/streams/{stream_id}/losses",
        "/api/v1/coverage",
        "/api/v1/devices",
        "/api/v1/devices/{device_id}",
    } <= described["paths"].keys()
    parameters = described["paths"]["/api/v1/telemetry/aggregates"]["get"]["parameters"]
    assert {
        "tenant_id",
        "device_id",
        "metric",
        "sensor",
        "window",
        "merge_sensors",
        "from",
        "to",
        "after",
        "limit",
        "format",
    } == {parameter["name"] for parameter in parameters}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/telemetry/stats",
        "/api/v1/telemetry/readings",
        "/api/v1/telemetry/aggregates",
        "/api/v1/telemetry/metrics",
        "/api/v1/streams",
        f"/api/v1/streams/{STREAM}/gaps",
        f"/api/v1/streams/{STREAM}/losses",
        "/api/v1/coverage",
        "/api/v1/devices",
        "/api/v1/devices/node-1",
    ],
)
async def test_nothing_is_told_without_the_token(api: QueryApi, path: str) -> None:
    status, answer = await api.ask(path, token="guessed", **NODE, metric="temperature")
    assert (status, answer["error"]["code"]) == (401, "unauthorized")


async def test_a_wrong_question_is_answered_with_400_in_the_one_shape(api: QueryApi) -> None:
    naive = cursor(("2026-01-01T00:00:00", uuid4()))
    wrong: list[dict[str, Any]] = [
        {"device_id": "node-1"},
        {"tenant_id": "demo"},
        {**NODE, "tenant_id": "a/b"},
        {**NODE, "device_id": "node\x00"},
        {**NODE, "device_id": "x" * 65},
        {**NODE, "metric": "'; DROP TABLE"},
        {**NODE, "sensor": "t1"},
        {**NODE, "metric": "temperature", "sensor": "t 1"},
        {**NODE, "limit": "0"},
        {**NODE, "limit": "5001"},
        {**NODE, "limit": "many"},
        {**NODE, "from": "yesterday"},
        {**NODE, "from": "2026-01-01T00:00:00"},
        {**NODE, "from": "0001-01-01T00:00:00+14:00"},
        {**NODE, "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
        {**NODE, "after": "here"},
        {**NODE, "after": "é"},
        {**NODE, "after": naive},
        {**NODE, "after": cursor((1, 2, 3))},
        {**NODE, "after": "A" * 2000},
    ]
    for query in wrong:
        status, answer = await api.ask(READINGS, **query)
        assert (status, answer["error"]["code"]) == (400, "invalid_request"), query
        assert answer["error"]["traceId"]
