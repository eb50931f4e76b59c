"""The sender of aggregates is killed inside its transaction and right behind it: each bucket is told once all the same."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from farmiq.edge.telemetry_timeseries import intake
from farmiq.edge.telemetry_timeseries.sync_mode import SyncPlan
from farmiq.kit.postgres import Pool
from farmiq.timeseries.samples import StreamBatch
from support.service_process import service_process
from support.telemetry import HERE, batch_of
from support.waiting import eventually

BEFORE_APPEND = ("farmiq.edge.telemetry_timeseries.store:buckets", "after", 1)
BEFORE_COMMIT = ("farmiq.outbox:add", "after", 1)
AFTER_COMMIT = ("farmiq.edge.telemetry_timeseries.worker:emit_due", "after", 1)
SERVICE = "edge-telemetry-timeseries"
SETTLED = SyncPlan("aggregated", "1m", settle_seconds=0)


async def store(pool: Pool, item: StreamBatch) -> None:
    async with pool.acquire() as connection, connection.transaction():
        received_at = datetime.now(UTC) - timedelta(minutes=5)
        await intake.store_batches(connection, [(item, "trace-1")], received_at, SETTLED)


@pytest.mark.parametrize("dies", [BEFORE_APPEND, BEFORE_COMMIT, AFTER_COMMIT])
async def test_sender_killed_around_its_commit_tells_every_bucket_once(
    dies: tuple[str, str, int], edge_url: str, edge_pool: Pool, run_folder: Path, tmp_path: Path
) -> None:
    stream = uuid4()
    await store(edge_pool, StreamBatch(HERE, batch_of(stream, 1, 1200)))
    environ = {"DATABASE_URL": edge_url, "ADMIN_TOKEN": "for-this-test"}
    with service_process(SERVICE, environ, run_folder, tmp_path / "first.log", dies) as first:
        await asyncio.to_thread(first.wait_for_death)
    await store(edge_pool, StreamBatch(HERE, batch_of(stream, 1201, 1260)))

    async def is_all_told() -> bool:
        return bool(await edge_pool.fetchval("SELECT count(*) = 0 FROM telemetry_agg_unsent"))

    with service_process(SERVICE, environ, run_folder, tmp_path / "second.log"):
        await eventually(is_all_told, what="nothing left to tell")
    events = await edge_pool.fetch("SELECT occurred_at, payload_json FROM sync_outbox")
    told: dict[tuple[str, datetime], list[int]] = {}
    for event in events:
        payload = msgspec.json.decode(event["payload_json"])
        told.setdefault((payload["metric_type"], event["occurred_at"]), []).append(payload["count"])
    assert all(len(counts) == len(set(counts)) for counts in told.values()), "the same thing was told twice"
    buckets = await edge_pool.fetch(
        "SELECT metric_type, bucket_start_at, count FROM telemetry_agg WHERE \"window\" = '1m'"
    )
    assert {key: max(counts) for key, counts in told.items()} == {
        (bucket["metric_type"], bucket["bucket_start_at"]): bucket["count"] for bucket in buckets
    }
