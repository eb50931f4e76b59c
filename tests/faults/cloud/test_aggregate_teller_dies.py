"""The teller of aggregates is killed on both sides of its confirms: every bucket is told, and a repeat is the same event."""

import asyncio
from datetime import datetime
from pathlib import Path
from uuid import UUID, uuid4

import msgspec
import pytest

from farmiq.cloud.telemetry_service.topology import topology
from farmiq.cloud.telemetry_service.unsent import Plan
from farmiq.contracts import bus, event_types
from farmiq.contracts.telemetry import TelemetryAggregated, pack_of
from farmiq.kit.amqp import Publisher
from farmiq.kit.postgres import Pool
from support.bus_queue import bind, take_all
from support.cloud_storing import delivery, store_all
from support.rabbitmq import NewVirtualHost
from support.service_process import service_process
from support.telemetry import batch_of, bus_body
from support.waiting import eventually

BEFORE_PUBLISH = ("farmiq.cloud.telemetry_service.unsent:buckets", "after", 1)
AFTER_CONFIRM = ("farmiq.cloud.telemetry_service.unsent:told", "before", 1)
AFTER_DELETE = ("farmiq.cloud.telemetry_service.unsent:told", "after", 1)
SERVICE = "cloud-telemetry-service"
QUEUE = "test.told.queue"
AT_ONCE = Plan(("1h", "1d"), settle_seconds=0)
Bucket = tuple[str, str, datetime | None]


async def store(pool: Pool, stream: UUID, first: int, last: int) -> None:
    body = bus_body(event_types.TELEMETRY_BATCH_INGESTED, pack_of(batch_of(stream, 1, 4000), first, last))
    await store_all(pool, delivery(body), plan=AT_ONCE)
    # The samples' time is the test's. What is due by that clock is due by the machine's too.
    await pool.execute("UPDATE telemetry_agg_unsent SET due_at = '2020-01-01'")


@pytest.mark.parametrize("dies", [BEFORE_PUBLISH, AFTER_CONFIRM, AFTER_DELETE])
async def test_teller_killed_around_its_confirms_tells_every_bucket_and_a_repeat_is_the_same_event(
    dies: tuple[str, str, int],
    cloud_url: str,
    cloud_pool: Pool,
    new_vhost: NewVirtualHost,
    run_folder: Path,
    tmp_path: Path,
) -> None:
    amqp_url, stream = new_vhost(), uuid4()
    publisher = Publisher(amqp_url, name="test", topology=topology())
    await publisher.start()
    await publisher.wait_connected()
    await publisher.stop()
    await bind(amqp_url, QUEUE, bus.TELEMETRY_EXCHANGE, event_types.TELEMETRY_AGGREGATED)
    await store(cloud_pool, stream, 1, 3000)
    environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url, "ADMIN_TOKEN": "for-this-test"}
    with service_process(SERVICE, environ, run_folder, tmp_path / "first.log", dies) as first:
        await asyncio.to_thread(first.wait_for_death)
    await store(cloud_pool, stream, 3001, 3600)

    async def is_all_told() -> bool:
        return bool(await cloud_pool.fetchval("SELECT count(*) = 0 FROM telemetry_agg_unsent"))

    with service_process(SERVICE, environ, run_folder, tmp_path / "second.log"):
        await eventually(is_all_told, 60.0, "nothing left to tell")
    told: dict[Bucket, dict[int, set[tuple[UUID, int]]]] = {}
    for envelope in await take_all(amqp_url, QUEUE):
        payload = msgspec.json.decode(envelope.payload, type=TelemetryAggregated)
        revisions = told.setdefault((payload.aggregation_window, payload.metric_type, payload.bucket_start_at), {})
        revisions.setdefault(payload.revision or 0, set()).add((envelope.event_id, payload.count or 0))
    assert all(len(events) == 1 for revisions in told.values() for events in revisions.values())
    last = {bucket: next(iter(revisions[max(revisions)]))[1] for bucket, revisions in told.items()}
    rows = await cloud_pool.fetch("SELECT * FROM telemetry_agg WHERE \"window\" <> '1m'")
    assert last == {(row["window"], row["metric_type"], row["bucket_start_at"]): row["count"] for row in rows}
