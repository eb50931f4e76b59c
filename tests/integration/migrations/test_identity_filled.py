"""The tenant comes into the keys of the edge with rows in them, and what was named before keeps its name."""

import shutil
from importlib.resources import files
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from farmiq.kit.migrations import migrate
from support.postgres import NewDatabase

EDGE = "farmiq.edge.migrations"
FILL = """
    INSERT INTO weight_sessions (id, tenant_id, farm_id, barn_id, device_id) VALUES ($1, 'demo', 'f', 'b', 'd');
    INSERT INTO session_weights (session_id, event_id, occurred_at, weight_kg) VALUES ($1, $1, now(), 80.5);
    INSERT INTO session_pictures (session_id, media_id) VALUES ($1, $1);
    INSERT INTO session_operations (id, session_id, action, done_at) VALUES ($1, $1, 'attach', now());
    INSERT INTO session_results (id, tenant_id, session_id, predicted_weight_kg, confidence, model_version, occurred_at)
    VALUES ($1, 'demo', $1, 80, 0.9, 'v1', now());
    INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json) VALUES ($1, 'demo', 'test.event', '{}')
"""
CHILDREN = ("session_weights", "session_pictures", "session_operations", "session_results")


async def migrated(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = shutil.ignore_patterns("002[1-9]*", "003*", "__pycache__")
    shutil.copytree(str(files(EDGE)), folder / "edge_before_identity", ignore=older)
    monkeypatch.syspath_prepend(str(folder))
    assert (await migrate(url, "edge_before_identity"))[-1] == "edge_0020"


async def test_sessions_keep_what_they_have_and_another_tenant_may_use_their_ids(
    new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, session_id = new_database(), uuid4()
    await migrated(url, tmp_path, monkeypatch)
    connection = await asyncpg.connect(url)
    for statement in FILL.split(";"):
        await connection.execute(statement, session_id)
    await migrate(url, EDGE)
    for table in CHILDREN:
        rows = await connection.fetch(f"SELECT tenant_id FROM {table} WHERE session_id = $1", session_id)  # noqa: S608 - names from this file
        assert [row["tenant_id"] for row in rows] == ["demo"], table
    since = await connection.fetchval("SELECT ids_keyed_since FROM edge_identity")
    assert since > await connection.fetchval("SELECT created_at FROM sync_outbox")
    other = (
        "INSERT INTO weight_sessions (id, tenant_id, farm_id, barn_id, device_id) VALUES ($1, 'other', 'f', 'b', 'd')"
    )
    await connection.execute(other, session_id)
    await connection.execute("DELETE FROM weight_sessions WHERE tenant_id = 'other'")
    assert await connection.fetchval("SELECT count(*) FROM session_weights") == 1
    await connection.execute("DELETE FROM weight_sessions WHERE tenant_id = 'demo'")
    for table in CHILDREN[:3]:
        assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0  # noqa: S608 - names from this file
    await connection.close()


async def test_a_new_edge_has_a_secret_of_its_own_and_nothing_that_was_named_before(new_database: NewDatabase) -> None:
    secrets = []
    for _ in range(2):
        url = new_database()
        await migrate(url, EDGE)
        connection = await asyncpg.connect(url)
        row = await connection.fetchrow("SELECT octet_length(id_secret), ids_keyed_since FROM edge_identity")
        assert tuple(row or ()) == (32, None)
        secrets.append(await connection.fetchval("SELECT id_secret FROM edge_identity"))
        await connection.close()
    assert secrets[0] != secrets[1]
