"""What the jobs of this service take away, and what they leave."""

from datetime import UTC, datetime, timedelta

import pytest

from farmiq.cloud.telemetry_service.jobs import jobs
from farmiq.contracts.decoding import encode
from farmiq.kit.jobs import Job
from farmiq.kit.postgres import Pool
from farmiq.kit.settings import BadSettings
from support.cloud_storing import delivery, store_all
from support.cloud_weighings import a_session, other, sent
from support.stored_months import StoppedClock, run_now
from support.telemetry import NOW

DAY_SECONDS = 86_400.0


def job(name: str, **environ: str) -> Job:
    return next(one for one in jobs(environ) if one.name == name)


async def count(pool: Pool, table: str) -> int:
    found: int = await pool.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - ours
    return found


async def test_months_of_events_are_made_ahead_and_for_what_waits_in_the_default_partition(cloud_pool: Pool) -> None:
    await cloud_pool.execute("DROP TABLE " + NOW.strftime("device_events_%Y_%m"))
    await cloud_pool.execute(
        """
        INSERT INTO device_events (tenant_id, event_id, event_type, occurred_at, payload, received_at)
        VALUES ('demo', gen_random_uuid(), 'door.opened', $1, '{}', $1)
        """,
        NOW,
    )
    assert await count(cloud_pool, "device_events_default") == 1
    report = await run_now(cloud_pool, job("cloud-event-partitions"))
    assert report["made"] == 1
    assert await count(cloud_pool, "device_events_default") == 0
    assert await count(cloud_pool, "device_events") == 1


async def test_months_of_events_past_their_retention_are_dropped_and_undated_ones_by_when_they_came(
    cloud_pool: Pool,
) -> None:
    bodies = [other(1), other(2, seconds=-400 * DAY_SECONDS), other(3, seconds=-40_000 * DAY_SECONDS)]
    await store_all(cloud_pool, *(delivery(body) for body in bodies))
    retention = job("cloud-event-retention", DEVICE_EVENT_RETENTION_DAYS="300")
    clock = StoppedClock(NOW + timedelta(days=1))
    foretold = await run_now(cloud_pool, retention, clock=clock, is_dry_run=True)
    assert await count(cloud_pool, "device_events") == 3
    report = await run_now(cloud_pool, retention, clock=clock)
    assert report == foretold
    month = (NOW - timedelta(days=400)).strftime("device_events_%Y_%m")
    assert (report["dropped_partitions"], report["undated_rows"]) == ([month], 0)
    assert await count(cloud_pool, "device_events") == 2
    much_later = StoppedClock(NOW + timedelta(days=301))
    assert (await run_now(cloud_pool, retention, clock=much_later))["undated_rows"] == 1


async def test_reports_of_batches_are_forgotten_and_weighings_only_when_asked(cloud_pool: Pool) -> None:
    events = [*a_session(1), sent("batch-1", 1)]
    await store_all(cloud_pool, *(delivery(encode(one)) for one in events))
    later = StoppedClock(max(NOW, datetime.now(UTC)) + timedelta(days=100))
    assert await run_now(cloud_pool, job("cloud-sync-batch-retention"), clock=later) == {"rows": 1}
    kept = await run_now(cloud_pool, job("cloud-weighing-retention"), clock=later)
    assert set(kept.values()) == {0}
    assert await count(cloud_pool, "weight_sessions") == 1
    gone = await run_now(cloud_pool, job("cloud-weighing-retention", WEIGHING_RETENTION_DAYS="90"), clock=later)
    assert gone == {"recorded_weights": 2, "captured_images": 2, "inference_results": 1, "weight_sessions": 1}
    with pytest.raises(BadSettings, match="WEIGHING_RETENTION_DAYS"):
        jobs({"WEIGHING_RETENTION_DAYS": "-1"})


async def test_a_loss_of_a_station_is_remembered_when_its_event_is_past_its_retention(cloud_pool: Pool) -> None:
    body = other(1, event_type="station.loss", seconds=-400 * DAY_SECONDS)
    await store_all(cloud_pool, delivery(body), delivery(body))
    retention = job("cloud-event-retention", DEVICE_EVENT_RETENTION_DAYS="300")
    await run_now(cloud_pool, retention, clock=StoppedClock(NOW + timedelta(days=1)))
    assert (await count(cloud_pool, "device_events"), await count(cloud_pool, "station_losses")) == (0, 1)
