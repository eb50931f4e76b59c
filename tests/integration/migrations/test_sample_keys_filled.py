"""The key of `telemetry_raw` is exchanged with rows in it: they keep their ids, and months made later have the new key."""

import shutil
from importlib.resources import files
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from farmiq.kit.migrations import migrate
from support.postgres import NewDatabase

BEFORE = {"edge": (["002*", "003*"], "edge_0019"), "cloud": (["001[89]*", "002*", "003*"], "cloud_0017")}
ROW = """
    INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value, stream_id, seq)
    VALUES ($1, $2, 'farm-1', 'barn-1', 'node-1', $3::text::timestamptz, 'co2', 1, $4, $5)
"""
PLANTED = UUID("00000000-0000-8000-8000-000000000001")
KEYS = """
    SELECT DISTINCT pg_get_indexdef(indexrelid) LIKE '%(tenant_id, id, occurred_at)' FROM pg_index
      JOIN pg_partition_tree('telemetry_raw') ON relid = indrelid WHERE indisprimary
"""
WITHOUT_KEY = """
    SELECT count(*) FROM pg_partition_tree('telemetry_raw')
     WHERE NOT EXISTS (SELECT FROM pg_index WHERE indrelid = relid AND indisprimary)
"""


@pytest.mark.parametrize("tier", ["edge", "cloud"])
async def test_rows_keep_their_ids_and_get_the_tenant_into_their_key(
    new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: str
) -> None:
    package = f"farmiq.{tier}.migrations"
    later, last = BEFORE[tier]
    older = shutil.ignore_patterns(*later, "__pycache__")
    shutil.copytree(str(files(package)), tmp_path / f"{tier}_before_sample_keys", ignore=older)
    monkeypatch.syspath_prepend(str(tmp_path))
    url = new_database()
    assert (await migrate(url, f"{tier}_before_sample_keys"))[-1] == last
    connection = await asyncpg.connect(url)
    await connection.execute("SELECT ensure_month_partition('telemetry_raw', '2024-05-01')")
    ids = [uuid4() for _ in range(6)]
    for seq, one in enumerate(ids):
        at = "2024-05-03Z" if seq % 2 else "1970-01-01Z"
        await connection.execute(ROW, one, "demo", at, uuid4(), seq)
    await connection.execute(ROW, PLANTED, "demo", "2024-05-03Z", None, None)
    await migrate(url, package)
    found = {row["id"] for row in await connection.fetch("SELECT id FROM telemetry_raw")}
    assert len(found) == 7
    assert found >= set(ids)
    assert PLANTED not in found
    await connection.execute("SELECT ensure_month_partition('telemetry_raw', '2024-06-01')")
    assert [tuple(row) for row in await connection.fetch(KEYS)] == [(True,)]
    assert await connection.fetchval(WITHOUT_KEY) == 0
    await connection.execute(ROW, ids[1], "other", "2024-05-03Z", None, None)
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute(ROW, ids[1], "demo", "2024-05-03Z", None, None)
    await connection.close()
