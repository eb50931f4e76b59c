"""From the revision before events had tables: what was stored is read as before, and what comes next fits to it."""

import shutil
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from farmiq.contracts import event_types
from farmiq.contracts.telemetry import pack_of
from farmiq.contracts.timestamps import from_us
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import open_pool
from support.cloud_storing import delivery, store_all
from support.postgres import NewDatabase
from support.telemetry import START_US, batch_of, bus_body

CLOUD = "farmiq.cloud.migrations"
HOUR = from_us(START_US - START_US % 3_600_000_000)
AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def older(new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database at revision 0006 with a session, a result, and an hour of which an edge has counted 5 samples."""
    package = tmp_path / "older_cloud_of_events"
    shutil.copytree(
        str(files(CLOUD)), package, ignore=shutil.ignore_patterns("000[7-9]*", "001*", "002*", "003*", "__pycache__")
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    url = new_database()
    assert (await migrate(url, "older_cloud_of_events"))[-1] == "cloud_0006"
    connection = await asyncpg.connect(url)
    await connection.execute(
        "INSERT INTO weight_sessions (tenant_id, id, start_at) VALUES ('demo', $1, $2)", uuid4(), AT
    )
    await connection.execute(
        "INSERT INTO inference_results (tenant_id, id, model_version, occurred_at) VALUES ('demo', $1, 'v1', $2)",
        uuid4(),
        AT,
    )
    await connection.execute(
        """
        INSERT INTO telemetry_agg (tenant_id, farm_id, barn_id, device_id, metric_type, sensor, unit, "window", bucket_start_at,
                                   bucket_end_at, sum_value, count, min_value, max_value)
        VALUES ('demo', 'farm-1', 'barn-1', 'node-1', 'temperature', 't1', 'C', '1h', $1, $2, 45, 5, 9, 9)
        """,
        HOUR,
        HOUR + timedelta(hours=1),
    )
    await connection.execute(
        "INSERT INTO received_buckets VALUES ('demo', 'node-1', 'temperature', '1h', $1, 't1', 'C', 0, 0, 0, 0)", HOUR
    )
    await connection.close()
    return url


async def test_older_sessions_and_results_have_what_the_next_events_are_compared_with(older: str) -> None:
    await migrate(older, CLOUD)
    connection = await asyncpg.connect(older)
    assert await connection.fetchval("SELECT first_event_at FROM weight_sessions") == AT
    assert await connection.fetchval("SELECT event_id = id FROM inference_results")
    await connection.close()


async def test_an_edges_word_from_before_still_gives_way_to_the_samples_that_it_counted(older: str) -> None:
    await migrate(older, CLOUD)

    async def shown() -> list[tuple[str, int]]:
        rows = await pool.fetch(
            "SELECT \"window\", count FROM telemetry_agg WHERE metric_type = 'temperature' AND \"window\" <> '1m' ORDER BY 1"
        )
        return [tuple(row) for row in rows]

    stream = uuid4()
    async with await open_pool(older, service="test") as pool:
        for last, count in ((4, 5), (12, 6)):
            body = bus_body(event_types.TELEMETRY_BATCH_INGESTED, pack_of(batch_of(stream, 1, 40), 1, last))
            await store_all(pool, delivery(body))
            assert await shown() == [("1d", count), ("1h", count)]
