"""Is anything missing? Asked over HTTP on the edge's service."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches, declare_lost
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.samples import StreamBatch
from support.query_api import QueryApi, query_api
from support.telemetry import ELSEWHERE, HERE, NOW, START_US, batch_of, loss_of

STREAM = UUID("00000000-0000-7000-8000-0000000000aa")
OTHERS = UUID("00000000-0000-7000-8000-0000000000bb")


def time_of(seq: int) -> str:
    return (datetime.fromtimestamp(START_US / 1e6, UTC) + timedelta(seconds=seq)).isoformat().replace("+00:00", "Z")


@pytest_asyncio.fixture
async def api(edge_url: str, edge_pool: Pool) -> AsyncIterator[QueryApi]:
    """Stored: 3..5, 9..20, 31, 40. Declared lost: 6..7 and 21..25. Missing: 1..2, 8, 26..30, 32..39."""
    async with edge_pool.acquire() as connection, connection.transaction():
        stored = [(3, 5), (9, 20), (31, 31), (40, 40)]
        await admit_batches(connection, [StreamBatch(HERE, batch_of(STREAM, *run)) for run in stored], NOW)
        await admit_batches(connection, [StreamBatch(ELSEWHERE, batch_of(OTHERS, 5, 6))], NOW)
        for first, last in [(6, 7), (21, 25), (3, 4)]:
            await declare_lost(connection, HERE, uuid4(), loss_of(STREAM, first, last))
    async with query_api(edge_url) as found:
        yield found


async def test_a_stream_tells_what_is_stored_lost_and_missing(api: QueryApi) -> None:
    answer = await api.get("/api/v1/streams", tenant_id="demo", device_id="node-1")
    (stream,) = answer["streams"]
    assert (stream["contiguous_seq"], stream["highest_seq"]) == (0, 40)
    assert (stream["stored"], stream["lost"], stream["missing"]) == (17, 7, 16)


async def test_gaps_are_what_is_neither_stored_nor_declared_lost_with_the_times_beside_them(api: QueryApi) -> None:
    answer = await api.get(f"/api/v1/streams/{STREAM}/gaps", tenant_id="demo")
    assert answer["gaps"] == [
        {"first_seq": 1, "last_seq": 2, "count": 2, "after_ts": None, "before_ts": time_of(3)},
        {"first_seq": 8, "last_seq": 8, "count": 1, "after_ts": None, "before_ts": time_of(9)},
        {"first_seq": 26, "last_seq": 30, "count": 5, "after_ts": None, "before_ts": time_of(31)},
        {"first_seq": 32, "last_seq": 39, "count": 8, "after_ts": time_of(31), "before_ts": time_of(40)},
    ]
    assert (answer["stream"]["missing"], answer["next"]) == (16, None)


async def test_gaps_come_in_pages_and_a_filled_one_is_gone(api: QueryApi, edge_pool: Pool) -> None:
    pages = await api.pages(f"/api/v1/streams/{STREAM}/gaps", tenant_id="demo", limit=3)
    assert [[gap["first_seq"] for gap in page["gaps"]] for page in pages] == [[1, 8, 26], [32]]
    async with edge_pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, batch_of(STREAM, 1, 39))], NOW)
    answer = await api.get(f"/api/v1/streams/{STREAM}/gaps", tenant_id="demo")
    assert (answer["gaps"], answer["stream"]["contiguous_seq"], answer["stream"]["lost"]) == ([], 40, 0)


async def test_the_ledger_of_a_stream_comes_in_pages_in_the_order_of_its_sequences(api: QueryApi) -> None:
    pages = await api.pages(f"/api/v1/streams/{STREAM}/losses", tenant_id="demo", limit=2)
    losses = [loss for page in pages for loss in page["losses"]]
    assert [(loss["first_seq"], loss["last_seq"]) for loss in losses] == [(3, 4), (6, 7), (21, 25)]
    assert {loss["reason"] for loss in losses} == {"spool_cap"}
    assert len({loss["event_id"] for loss in losses}) == 3


@pytest.mark.parametrize("what", ["gaps", "losses"])
async def test_a_stream_of_another_tenant_is_as_unknown_as_one_that_is_nowhere(api: QueryApi, what: str) -> None:
    for stream_id, tenant_id in ((STREAM, "other"), (OTHERS, "demo"), (uuid4(), "demo")):
        status, answer = await api.ask(f"/api/v1/streams/{stream_id}/{what}", tenant_id=tenant_id)
        assert (status, answer["error"]["code"]) == (404, "unknown_stream")
    assert (await api.ask("/api/v1/streams/not-an-id/gaps", tenant_id="demo"))[0] == 404


async def test_streams_come_in_pages_and_a_tenant_sees_only_its_own(api: QueryApi, edge_pool: Pool) -> None:
    more = [UUID(int=number) for number in range(1, 5)]
    async with edge_pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, batch_of(stream, 1, 1)) for stream in more], NOW)
    pages = await api.pages("/api/v1/streams", tenant_id="demo", limit=2)
    assert [row["stream_id"] for page in pages for row in page["streams"]] == [str(found) for found in [*more, STREAM]]
    one_device = await api.pages("/api/v1/streams", tenant_id="demo", device_id="node-1", limit=3)
    assert [len(page["streams"]) for page in one_device] == [3, 2]
    assert [row["device_id"] for row in (await api.get("/api/v1/streams", tenant_id="other"))["streams"]] == ["node-9"]


async def test_a_wrong_cursor_or_limit_is_answered_with_400(api: QueryApi) -> None:
    paths = ("/api/v1/streams", f"/api/v1/streams/{STREAM}/gaps", f"/api/v1/streams/{STREAM}/losses")
    wrong = ({"after": "here"}, {"after": cursor((-1, uuid4()))}, {"after": cursor(("a\x00", uuid4()))}, {"limit": "0"})
    for path in paths:
        for query in wrong:
            status, answer = await api.ask(path, tenant_id="demo", **query)
            assert (status, answer["error"]["code"]) == (400, "invalid_request"), (path, query)
