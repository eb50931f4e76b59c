"""The query API as a caller sees it: over HTTP, on the edge's service."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio

from farmiq.edge.telemetry_timeseries.main import serve
from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches, declare_lost
from farmiq.timeseries.samples import StreamBatch
from support.service_process import running
from support.telemetry import ELSEWHERE, HERE, NOW, START_US, batch_of, loss_of

TOKEN = "for-this-test-only"
STREAM = uuid4()
FIRST_AT = datetime.fromtimestamp(START_US / 1e6, UTC)
RANGE = {"from": FIRST_AT.isoformat(), "to": (FIRST_AT + timedelta(hours=1)).isoformat()}


class Api:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def ask(self, path: str, token: str = TOKEN, **query: Any) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {token}"}
        async with self._session.get(f"{self._url}{path}", params=query, headers=headers) as answer:
            return answer.status, await answer.json()


@pytest_asyncio.fixture
async def api(edge_url: str, edge_pool: Pool) -> AsyncIterator[Api]:
    async with edge_pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, batch_of(STREAM, 1, 20))], NOW)
        await admit_batches(connection, [StreamBatch(HERE, batch_of(STREAM, 26, 30))], NOW)
        await admit_batches(connection, [StreamBatch(ELSEWHERE, batch_of(uuid4(), 1, 5))], NOW)
        await declare_lost(connection, HERE, uuid4(), loss_of(STREAM, 21, 23))
    environ = {"DATABASE_URL": edge_url, "ADMIN_TOKEN": TOKEN}
    async with (
        running(serve, "edge-telemetry-timeseries", environ) as url,
        aiohttp.ClientSession() as session,
    ):
        yield Api(session, url)


async def test_pages_by_key_hold_every_sample_of_the_range_once_newest_first(api: Api) -> None:
    seqs: list[int] = []
    after: dict[str, str] = {}
    while True:
        query = {"tenant_id": "demo", "device_id": "node-1", "limit": "7", **RANGE, **after}
        status, page = await api.ask("/api/v1/telemetry/readings", **query)
        assert status == 200
        seqs += [row["seq"] for row in page["readings"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seqs == [*range(30, 25, -1), *range(20, 0, -1)]


async def test_one_metric_of_one_device_can_be_asked_for(api: Api) -> None:
    _, page = await api.ask(
        "/api/v1/telemetry/readings", tenant_id="demo", device_id="node-1", metric="humidity", **RANGE
    )
    assert {row["metric_type"] for row in page["readings"]} == {"humidity"}
    assert all(row["metric_value"] % 2 == 1 for row in page["readings"])


async def test_a_tenant_sees_only_its_own(api: Api) -> None:
    _, page = await api.ask("/api/v1/telemetry/readings", tenant_id="other", device_id="node-1", **RANGE)
    assert page["readings"] == []
    _, streams = await api.ask("/api/v1/streams", tenant_id="other")
    assert [row["device_id"] for row in streams["streams"]] == ["node-9"]


async def test_a_stream_tells_what_is_stored_lost_and_missing(api: Api) -> None:
    _, answer = await api.ask("/api/v1/streams", tenant_id="demo", device_id="node-1")
    (stream,) = answer["streams"]
    assert (stream["contiguous_seq"], stream["highest_seq"]) == (23, 30)
    assert (stream["stored"], stream["lost"], stream["missing"]) == (25, 3, 2)


async def test_the_totals_count_every_tenant(api: Api) -> None:
    _, totals = await api.ask("/api/v1/telemetry/stats")
    assert totals == {"samples_stored": 30, "samples_in_streams": 30, "samples_lost": 3, "streams": 2}


@pytest.mark.parametrize("path", ["/api/v1/telemetry/stats", "/api/v1/telemetry/readings", "/api/v1/streams"])
async def test_nothing_is_told_without_the_token(api: Api, path: str) -> None:
    status, answer = await api.ask(path, token="guessed", tenant_id="demo", device_id="node-1")
    assert (status, answer["error"]["code"]) == (401, "unauthorized")


@pytest.mark.parametrize(
    "wrong",
    [
        {"device_id": "node-1"},
        {"tenant_id": "demo", "device_id": "node-1", "limit": "0"},
        {"tenant_id": "demo", "device_id": "node-1", "limit": "5001"},
        {"tenant_id": "demo", "device_id": "node-1", "from": "yesterday"},
        {"tenant_id": "demo", "device_id": "node-1", "from": "2026-01-01T00:00:00"},
        {"tenant_id": "demo", "device_id": "node-1", "after": "here"},
    ],
)
async def test_a_wrong_question_is_answered_with_400_in_the_one_shape(api: Api, wrong: dict[str, str]) -> None:
    status, answer = await api.ask("/api/v1/telemetry/readings", **wrong)
    assert (status, answer["error"]["code"]) == (400, "invalid_request")
    assert answer["error"]["traceId"]
