"""The ledger of a whole tenant: every entry once, newest first, of this tenant only, and what it costs to read it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from farmiq.contracts.telemetry import TelemetryLoss, pack_of
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries import losses
from farmiq.timeseries.admission import admit_batches, declare_lost
from farmiq.timeseries.paging import BeforeLoss
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin
from support.cloud_queries import cloud_api, viewer_of
from support.query_api import query_api
from support.telemetry import ELSEWHERE, HERE, NOW, batch_of

STREAM = uuid4()
OTHER_STREAM = uuid4()
SECOND = Origin("demo", "farm-1", "barn-1", "node-2")
FIRST_DROP = datetime(2026, 10, 31, 23, 30, tzinfo=UTC)


def loss(stream: UUID, first: int, last: int, at: datetime, reason: str = "cap_reached") -> TelemetryLoss:
    return TelemetryLoss(
        stream_id=stream, first_seq=first, last_seq=last, count=last - first + 1, reason=reason, dropped_at=at
    )


async def fill(pool: Pool) -> None:
    """Four losses of two nodes over two months, one of which came after all in part; and one of another tenant."""
    async with pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, pack_of(batch_of(STREAM, 1, 500), 1, 100))], NOW)
        await declare_lost(connection, HERE, new_id(), loss(STREAM, 101, 150, FIRST_DROP))
        await declare_lost(
            connection, HERE, new_id(), loss(STREAM, 151, 200, FIRST_DROP + timedelta(hours=1), "damaged")
        )
        await declare_lost(connection, HERE, new_id(), loss(STREAM, 201, 300, FIRST_DROP + timedelta(hours=2)))
        await declare_lost(connection, SECOND, new_id(), loss(OTHER_STREAM, 1, 10, FIRST_DROP + timedelta(hours=1)))
        await declare_lost(connection, ELSEWHERE, new_id(), loss(uuid4(), 1, 7, FIRST_DROP))
        await admit_batches(connection, [StreamBatch(HERE, pack_of(batch_of(STREAM, 1, 500), 291, 310))], NOW)


async def test_every_loss_of_the_tenant_is_on_one_page_and_none_of_another(edge_url: str, edge_pool: Pool) -> None:
    await fill(edge_pool)
    async with query_api(edge_url) as api:
        pages = await api.pages("/api/v1/losses", tenant_id="demo", limit=1)
        whole = await api.get("/api/v1/losses", tenant_id="demo")
        nobody = await api.get("/api/v1/losses", tenant_id="nobody")
    rows = [row for page in pages for row in page["losses"]]
    assert rows == whole["losses"]
    assert sorted((row["device_id"], row["first_seq"], row["last_seq"]) for row in rows) == [
        ("node-1", 101, 150), ("node-1", 151, 200), ("node-1", 201, 300), ("node-2", 1, 10),
    ]  # fmt: skip
    assert [row["dropped_at"] for row in rows] == sorted((row["dropped_at"] for row in rows), reverse=True)
    assert (nobody, whole["next"]) == ({"losses": [], "next": None}, None)


async def test_a_device_a_cause_and_a_time_narrow_it_down(edge_url: str, edge_pool: Pool) -> None:
    await fill(edge_pool)

    async def found(**question: str) -> list[int]:
        answer = await api.get("/api/v1/losses", tenant_id="demo", **question)
        return [row["first_seq"] for row in answer["losses"]]

    async with query_api(edge_url) as api:
        assert await found(device_id="node-2") == [1]
        assert await found(reason="damaged") == [151]
        assert await found(device_id="node-1", reason="cap_reached") == [201, 101]
        assert await found(**{"from": "2026-11-01T01:00:00Z"}) == [201]
        assert await found(to="2026-11-01T00:30:00Z") == [101], "the end is not included"
        for wrong in ({"reason": "a b"}, {"after": "x"}, {"limit": "5001"}, {"device_id": "../x"}):
            status, answer = await api.ask("/api/v1/losses", tenant_id="demo", **wrong)
            assert (status, answer["error"]["code"]) == (400, "invalid_request"), wrong
        assert (await api.ask("/api/v1/losses", token="wrong", tenant_id="demo"))[0] == 401


async def test_the_summary_counts_each_sample_once_and_not_what_came_after_all(any_pool: Pool) -> None:
    await fill(any_pool)
    async with any_pool.acquire() as connection:
        told = await losses.summary(connection, tenant_id="demo")
        nothing = await losses.summary(connection, tenant_id="nobody")
    assert (told.records, told.samples_lost) == (4, 50 + 50 + 90 + 10)
    assert told.last_at == FIRST_DROP + timedelta(hours=2)
    assert told.since is not None
    october, november = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
    assert [(one.month_at, one.reason, one.records, one.samples) for one in told.sums] == [
        (october, "cap_reached", 1, 50),
        (november, "cap_reached", 2, 110),
        (november, "damaged", 1, 50),
    ]
    assert (nothing.records, nothing.samples_lost, nothing.last_at, nothing.since, nothing.sums) == (
        0,
        0,
        None,
        None,
        [],
    )


async def test_a_viewer_in_the_cloud_reads_its_own_tenant_only(cloud_url: str, cloud_pool: Pool) -> None:
    await fill(cloud_pool)
    token = await viewer_of(cloud_pool, "other")
    async with cloud_api(cloud_url) as api:
        for path in ("/api/v1/losses", "/api/v1/losses/summary", "/api/v1/coverage/devices"):
            assert (await api.ask(path, token=token, tenant_id="demo"))[0] == 403
            assert (await api.ask(path, token=token, tenant_id="other"))[0] == 200
        status, answer = await api.ask("/api/v1/losses", token=token, tenant_id="other")
    assert (status, [row["last_seq"] for row in answer["losses"]]) == (200, [7])


FILL = """
    INSERT INTO stream_losses (tenant_id, event_id, farm_id, barn_id, device_id, stream_id, first_seq, last_seq, count, reason,
                               dropped_at)
    SELECT CASE number % 10 WHEN 0 THEN 'demo' ELSE 'other-' || number % 10 END, gen_random_uuid(), 'f', 'b',
           'node-' || (number / 10) % 50, gen_random_uuid(), 1, 2, 2, 'cap_reached',
           $1::timestamptz + make_interval(secs => number)
      FROM generate_series(1, 20000) AS number
"""


@pytest.mark.parametrize("only", [{}, {"device_id": "node-7"}])
async def test_a_page_of_the_ledger_costs_what_it_holds(edge_pool: Pool, only: dict[str, Any]) -> None:
    async with edge_pool.acquire() as connection:
        await connection.execute(FILL, FIRST_DROP)
        await connection.execute("VACUUM ANALYZE stream_losses")
        filters = "AND device_id = 'node-7'" if only else ""
        before = BeforeLoss(FIRST_DROP + timedelta(seconds=10_000), losses.SMALLEST_ID)
        query = losses._PAGE.format(filters=filters)
        plan = await explain(connection, query, "demo", FIRST_DROP - timedelta(days=1), *before, 50)
        assert read_rows(plan) <= 60, plan
        sums = await explain(connection, losses._SUMS, "demo")
    assert "Index Only Scan" in str(sums), f"the sums need no row of the table: {sums}"


async def explain(connection: Any, query: str, *values: Any) -> dict[str, Any]:
    told = await connection.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query}", *values)
    plan: dict[str, Any] = msgspec.json.decode(told)[0]["Plan"]
    return plan


def read_rows(plan: dict[str, Any]) -> float:
    own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if "Relation Name" in plan else 0
    return float(own * plan["Actual Loops"]) + sum(map(read_rows, plan.get("Plans", [])))
