"""Databases of the release before: the cloud's owners come from what it has, and an edge announces what it had registered."""

import shutil
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest

from farmiq.kit.migrations import migrate
from support.postgres import NewDatabase

CLOUD, EDGE = "farmiq.cloud.migrations", "farmiq.edge.migrations"
EDGES = """
    INSERT INTO edges (edge_cluster_id, tenant_ids, token_hash) VALUES
      ('edge-1', '{one,many}', sha256('1')), ('edge-2', '{many}', sha256('2'))
"""
AGGREGATE = """
    INSERT INTO telemetry_agg (tenant_id, device_id, metric_type, "window", bucket_start_at, bucket_end_at, sum_value, count,
                               min_value, max_value)
    VALUES ($1, $2, $3, '1d', now(), now() + interval '1 day', 1, 1, 1, 1)
"""
SESSION = """
    INSERT INTO weight_sessions (tenant_id, id, device_id, first_event_at) VALUES ($1, gen_random_uuid(), $2, now())
"""
EVENT = """
    INSERT INTO device_events (tenant_id, event_id, event_type, device_id, occurred_at, payload, received_at, edge_cluster_id)
    VALUES ($1, gen_random_uuid(), $2, $3, now(), '{}', clock_timestamp(), $4)
"""


def before(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *later: str) -> str:
    """The name of a package with the revisions before these."""
    name = f"{package.split('.')[1]}_before_owners"
    shutil.copytree(str(files(package)), tmp_path / name, ignore=shutil.ignore_patterns(*later, "__pycache__"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


async def test_a_device_belongs_to_the_edge_whose_data_the_cloud_has(
    new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    await migrate(url, before(CLOUD, tmp_path, monkeypatch, "001[89]*", "002*", "003*"))
    connection = await asyncpg.connect(url)
    await connection.execute(EDGES)
    for tenant_id in ("one", "many"):
        for device_id in ("node-1", "node-2"):
            for metric in ("humidity", "temperature"):
                await connection.execute(AGGREGATE, tenant_id, device_id, metric)
        await connection.execute(SESSION, tenant_id, "station-1")
        await connection.execute(SESSION, tenant_id, None)
    await connection.execute(EVENT, "many", "door.opened", "node-2", "edge-2")
    await connection.execute(EVENT, "many", "door.opened", "door-1", None)
    # An edge that was upgraded before its cloud.
    await connection.execute(EVENT, "many", "edge.device.registered", "node-7", "edge-2")
    await connection.execute(EVENT, "many", "edge.device.registered", "node-7", "edge-1")
    await migrate(url, CLOUD)
    rows = await connection.fetch(
        "SELECT tenant_id, device_id, edge_cluster_id, came_by FROM device_owners ORDER BY tenant_id DESC, device_id"
    )
    await connection.close()
    assert [tuple(row) for row in rows] == [
        ("one", "node-1", "edge-1", "stored_data"),
        ("one", "node-2", "edge-1", "stored_data"),
        ("one", "station-1", "edge-1", "stored_data"),
        ("many", "node-2", "edge-2", "stored_data"),
        ("many", "node-7", "edge-2", "registration"),
    ], "of a tenant with several edges nobody guesses"


async def test_what_an_edge_had_registered_is_announced_once(
    new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    await migrate(url, before(EDGE, tmp_path, monkeypatch, "002*", "003*"))
    connection = await asyncpg.connect(url)
    for device_id in ("node-1", "station-1", "gone"):
        await connection.execute(
            "INSERT INTO devices (device_id, tenant_id, farm_id, barn_id, kind, revoked_at)"
            " VALUES ($1, 'demo', 'farm-1', 'barn-1', 'node', CASE WHEN $1 = 'gone' THEN now() END)",
            device_id,
        )
    await migrate(url, EDGE)
    await migrate(url, EDGE)
    rows = await connection.fetch(
        "SELECT device_id, event_type, status, payload_json::text, substr(id::text, 15, 1) AS version FROM sync_outbox"
        " ORDER BY device_id"
    )
    await connection.close()
    assert [tuple(row) for row in rows] == [
        (device_id, "edge.device.registered", "pending", '{"kind": "node"}', "7")
        for device_id in ("node-1", "station-1")
    ]
