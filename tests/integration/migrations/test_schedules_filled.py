"""Devices of earlier versions have a schedule after the migration when they sent regularly before it."""

import shutil
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest

from farmiq.kit.migrations import migrate
from support.postgres import NewDatabase

EDGE = "farmiq.edge.migrations"
DEVICE = """
    INSERT INTO device_liveness (device_id, tenant_id, farm_id, barn_id, last_rx_at, reported_state, reported_at)
    VALUES ($1, 'demo', 'farm-1', 'barn-1', now(), $2::text, CASE WHEN $2::text IS NOT NULL THEN now() END)
"""
MINUTES = """
    INSERT INTO telemetry_agg (tenant_id, device_id, metric_type, "window", bucket_start_at, bucket_end_at, sum_value, count,
                               min_value, max_value)
    SELECT 'demo', $1, 'temp', '1m', at, at + interval '1 minute', 4.2, 1, 4.2, 4.2
      FROM generate_series(date_trunc('minute', now()) - make_interval(mins => $2 - 1), now(), interval '1 minute') AS at
"""


async def test_what_sent_regularly_before_is_missed_afterwards_too(
    new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = shutil.ignore_patterns("0019*", "002*", "003*", "__pycache__")
    shutil.copytree(str(files(EDGE)), tmp_path / "edge_before_schedules", ignore=later)
    monkeypatch.syspath_prepend(str(tmp_path))
    url = new_database()
    assert (await migrate(url, "edge_before_schedules"))[-1] == "edge_0018"
    connection = await asyncpg.connect(url)
    for device_id, state, minutes in (("node-1", "online", 1), ("sensor-1", None, 60), ("pump-7", None, 1)):
        await connection.execute(DEVICE, device_id, state)
        await connection.execute(MINUTES, device_id, minutes)
    await migrate(url, EDGE)
    scheduled = await connection.fetch(
        "SELECT device_id FROM device_liveness WHERE scheduled_at IS NOT NULL ORDER BY 1"
    )
    await connection.close()
    assert [row["device_id"] for row in scheduled] == ["node-1", "sensor-1"]
