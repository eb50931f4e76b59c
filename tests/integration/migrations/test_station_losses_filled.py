"""Losses of stations that came before they had a table are in it afterwards, whatever was in them."""

import shutil
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest

from farmiq.kit.migrations import migrate
from support.postgres import NewDatabase

CLOUD = "farmiq.cloud.migrations"
PAYLOADS = (
    '{"reason": "too_old", "count": 3, "pictures": 2}', "[]", '"x"', '{"reason": 5, "count": "many"}', '{"count": 1e300}',
)  # fmt: skip
EVENT = """
    INSERT INTO device_events (tenant_id, event_id, event_type, device_id, occurred_at, payload, received_at)
    VALUES ('demo', gen_random_uuid(), $1, 'station-1', now(), $2, now())
"""


async def test_what_was_told_before_is_in_the_ledger(
    new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = shutil.ignore_patterns("001[3-9]*", "002*", "003*", "__pycache__")
    shutil.copytree(str(files(CLOUD)), tmp_path / "cloud_before_station_losses", ignore=older)
    monkeypatch.syspath_prepend(str(tmp_path))
    url = new_database()
    assert (await migrate(url, "cloud_before_station_losses"))[-1] == "cloud_0012"
    connection = await asyncpg.connect(url)
    for event_type in ("station.loss", "door.opened"):
        for payload in PAYLOADS:
            await connection.execute(EVENT, event_type, payload)
    await migrate(url, CLOUD)
    rows = await connection.fetch(
        "SELECT reason, count, is_count_exact FROM station_losses ORDER BY count DESC, reason"
    )
    await connection.close()
    assert tuple(rows[0]) == ("too_old", 3, True)
    assert {tuple(row) for row in rows[1:]} == {("not_readable", 0, False)}
    assert len(rows) == len(PAYLOADS)
