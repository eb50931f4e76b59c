"""Events other than telemetry: each lands in its table once, whatever is delivered again and in whatever order."""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.weighvision import ImageCaptured, WeightRecorded
from farmiq.kit.amqp import Delivery
from farmiq.kit.postgres import Pool
from support.cloud_storing import delivery, store, store_all
from support.cloud_weighings import a_session, acked, cancelled, created, finalized, inferred, number, other, sent, told
from support.telemetry import ELSEWHERE, NOW

TABLES = {
    "weight_sessions": "tenant_id, id",
    "recorded_weights": "tenant_id, event_id",
    "captured_images": "tenant_id, media_id",
    "inference_results": "tenant_id, id",
    "sync_batches": "tenant_id, batch_id",
    "device_events": "tenant_id, event_id",
    "telemetry_raw": "id",
    "telemetry_agg": 'tenant_id, device_id, metric_type, "window", bucket_start_at',
}
MADE_HERE = {"created_at", "updated_at", "received_at", "ingested_at"}
VECTORS = Path(__file__).parents[3] / "unit" / "contracts" / "vectors"


async def tables(pool: Pool) -> dict[str, list[dict[str, Any]]]:
    """Everything that must not depend on order or repetition."""
    found = {}
    for table, order in TABLES.items():
        rows = await pool.fetch(f"SELECT * FROM {table} ORDER BY {order}")  # noqa: S608 - ours
        found[table] = [{name: value for name, value in row.items() if name not in MADE_HERE} for row in rows]
        if table == "telemetry_agg":
            found[table] = [{name: value for name, value in row.items() if name != "id"} for row in found[table]]
    return found


async def empty(pool: Pool) -> None:
    await pool.execute(f"TRUNCATE {', '.join(TABLES)}, received_buckets, telemetry_agg_unsent")


def deliveries(envelopes: list[BusEnvelope]) -> list[Delivery]:
    return [delivery(encode(envelope)) for envelope in envelopes]


def everything() -> list[Delivery]:
    """Two tenants with the same ids, conflicting events about the same things, and events of unknown types."""
    conflicting = [
        told(created("another"), 11_001, seconds=-5, session=1),
        told(finalized(7), 11_002, seconds=500, session=1),
        told(ImageCaptured(media_id=number(1500), sha256="0" * 64), 11_003, seconds=-9, session=None),
        told(ImageCaptured(media_id=number(1500), size_bytes=9), 11_004, seconds=-3, session=2),
        told(inferred(1900, 99.0), 11_005, seconds=-1, session=1),
        told(WeightRecorded(weight_kg=3.0), 11_006, session=None),
        told(finalized(1), 11_007, seconds=40, session=3),
        told(cancelled(2), 11_008, seconds=30, session=4),
        told(finalized(1), 11_009, seconds=40, session=4),
    ]
    reports = [
        *(sent("batch-1", 21_001), acked("batch-1", 21_002, 10), acked("batch-2", 21_003)),
        *(sent("batch-1", 21_004, -4), acked("batch-1", 21_005, 9)),
    ]
    events = [delivery(other(31_001)), delivery(other(31_002, event_type="weighvision.session.paused"))]
    twins = [delivery(other(31_001, tenant_id="other")), delivery(other(31_003, seconds=-40_000_000))]
    known = a_session(1) + a_session(1, origin=ELSEWHERE) + a_session(2, weights=1) + conflicting + reports
    return [*deliveries(known), *events, *twins]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
async def test_each_event_twice_and_in_random_order_gives_the_same_tables(cloud_pool: Pool, seed: int) -> None:
    events, rng = everything(), random.Random(seed)
    await empty(cloud_pool)
    await store_all(cloud_pool, *events)
    expected = await tables(cloud_pool)
    await empty(cloud_pool)
    shuffled = rng.sample(events * 2, len(events) * 2)
    while shuffled:
        step = rng.randint(1, 9)
        await store_all(cloud_pool, *shuffled[:step])
        shuffled = shuffled[step:]
    assert await tables(cloud_pool) == expected


async def test_written_by_many_consumers_at_once_the_tables_are_the_same(cloud_pool: Pool) -> None:
    events = everything()
    await store_all(cloud_pool, *events)
    expected = await tables(cloud_pool)
    await empty(cloud_pool)
    shuffled = random.Random(3).sample(events * 4, len(events) * 4)

    async def consumer(given: Sequence[Delivery]) -> None:
        for at in range(0, len(given), 3):
            await store_all(cloud_pool, *given[at : at + 3])

    await asyncio.gather(*(consumer(shuffled[start::5]) for start in range(5)))
    assert await tables(cloud_pool) == expected


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


async def test_a_session_knows_what_its_events_said(cloud_pool: Pool) -> None:
    await store_all(cloud_pool, *everything())
    rows = await cloud_pool.fetch(
        "SELECT tenant_id, status, batch_id, start_at, end_at, image_count, device_id FROM weight_sessions ORDER BY tenant_id, id"
    )
    assert [tuple(row) for row in rows] == [
        ("demo", "finalized", "another", at(-5), at(500), 7, "node-1"),
        ("demo", "finalized", "batch-1", at(0), at(5), 2, "node-1"),
        ("demo", "finalized", None, None, at(40), 1, "node-1"),
        ("demo", "cancelled", None, None, at(30), None, "node-1"),
        ("other", "finalized", "batch-1", at(0), at(6), 2, "node-9"),
    ]
    images = await cloud_pool.fetch(
        "SELECT session_id, size_bytes FROM captured_images WHERE tenant_id = 'demo' AND media_id = $1", number(1500)
    )
    assert [tuple(row) for row in images] == [(number(2), 9)]
    assert await cloud_pool.fetchval("SELECT count(*) FROM recorded_weights WHERE tenant_id = 'demo'") == 4
    batches = await cloud_pool.fetch("SELECT batch_id, sent_at, acked_at, edge_cluster_id FROM sync_batches ORDER BY 1")
    assert [tuple(row) for row in batches] == [("batch-1", at(-4), at(9), "edge-1"), ("batch-2", None, at(0), None)]


async def test_an_unknown_event_is_kept_as_it_came_in_the_month_it_happened(cloud_pool: Pool) -> None:
    body = other(1, event_type="door.opened").replace(b'{"weight_kg":1.0}', '{"who":["é",{"deep":null}]}'.encode())
    wild = other(2, seconds=3e9)
    await store_all(cloud_pool, delivery(body), delivery(body), delivery(wild), delivery(other(3, tenant_id="other")))
    rows = await cloud_pool.fetch(
        "SELECT tableoid::regclass::text AS part, event_type, payload, edge_cluster_id FROM device_events"
        " WHERE tenant_id = 'demo' ORDER BY event_id"
    )
    kept = [(row["part"], row["event_type"], row["edge_cluster_id"]) for row in rows]
    assert kept == [
        (f"device_events_{NOW:%Y_%m}", "door.opened", "edge-1"),
        ("device_events_default", "door.opened", "edge-1"),
    ]
    assert msgspec.json.decode(rows[0]["payload"]) == {"who": ["é", {"deep": None}]}


@pytest.mark.parametrize("headers", [None, {}], ids=["through cloud-ingestion", "from another client"])
async def test_the_examples_of_the_document_are_stored_as_they_stand(
    cloud_pool: Pool, headers: dict[str, str] | None
) -> None:
    vectors = sorted(VECTORS.glob("bus.*.json"))
    assert len(vectors) == 8
    await store_all(cloud_pool, *(delivery(vector.read_bytes(), headers) for vector in vectors))
    found = await tables(cloud_pool)
    (session,) = found["weight_sessions"]
    assert (session["status"], session["initial_weight_kg"], session["final_weight_kg"]) == ("finalized", 120.5, 121.0)
    assert session["start_at"] == datetime(2025, 1, 1, 10, 5, tzinfo=UTC)
    (result,) = found["inference_results"]
    assert (result["id"], result["session_id"]) == (session["inference_result_id"], session["id"])
    (batch,) = found["sync_batches"]
    assert (batch["batch_id"], batch["sent_event_count"], batch["acked_event_count"]) == ("batch-20250101-01", 500, 500)
    (reading,) = found["telemetry_raw"]
    assert reading["metric_value"] == 26.4
    # A picture is the media store's. An aggregate without a count fits nowhere: from an edge it is kept as the event that it is.
    kept = ["media.stored", "telemetry.aggregated"] if headers is None else ["media.stored"]
    assert sorted(row["event_type"] for row in found["device_events"]) == kept


async def test_a_session_event_without_a_session_is_refused_alone(cloud_pool: Pool) -> None:
    bad = [encode(told(created(), 1)), encode(told(finalized(), 2))]
    good = encode(told(WeightRecorded(weight_kg=1.0), 3))
    failures = await store(cloud_pool, *(delivery(body) for body in (bad[0], good, bad[1])))
    assert [(one.code, one.delivery.body) for one in failures] == [("schema", body) for body in bad]
    assert await cloud_pool.fetchval("SELECT count(*) FROM recorded_weights") == 1


@pytest.mark.parametrize(
    "payload", ['{"n":1e999999}', '{"n":' + "9" * 200_000 + "}"], ids=["no such number", "a long one"]
)
async def test_what_postgresql_cannot_keep_costs_only_itself(cloud_pool: Pool, payload: str) -> None:
    bad = other(1).replace(b'{"weight_kg":1.0}', payload.encode())
    failures = await store(cloud_pool, delivery(bad), delivery(other(2)))
    assert [one.delivery.body == bad for one in failures] == [True]
    assert await cloud_pool.fetchval("SELECT count(*) FROM device_events") == 1
