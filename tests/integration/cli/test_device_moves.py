"""`farmiq device move --all`: every device of an edge goes to the one that replaces it."""

import signal
import subprocess
import sys

import pytest

from farmiq.cli import exits
from farmiq.cloud.ingestion import device_moves
from farmiq.kit.postgres import Pool
from support.farm_cloud import FarmCloud, farm_cloud

__all__ = ["farm_cloud"]  # a fixture

DEVICES = device_moves.MOVE_STEP + 20
ADD = """
INSERT INTO device_owners (tenant_id, device_id, edge_cluster_id, came_by)
SELECT $1, 'node-' || number, $2, 'delivery' FROM generate_series($3::int, $4::int) AS number
"""
# Ends when the second transaction has written, and has not committed.
DIES = """
import asyncio, os, signal, sys, asyncpg
from farmiq.cloud.ingestion import device_moves
moves = 0
class Dies(asyncpg.Connection):
    async def fetchval(self, query, *given, **more):
        global moves
        found = await super().fetchval(query, *given, **more)
        moves += query == device_moves._MOVE_STEP
        if moves == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
async def main():
    connection = await asyncpg.connect(sys.argv[1], connection_class=Dies)
    while True:
        await device_moves.move_step(connection, from_edge='barn-7', to_edge='barn-8', moved_by='x')
asyncio.run(main())
"""


@pytest.fixture
def edges(farm_cloud: FarmCloud) -> FarmCloud:
    for edge in ("barn-7", "barn-8"):
        farm_cloud.told("add", edge, "--tenant", "demo")
    farm_cloud.group = "device"
    return farm_cloud


def killed_by(script: str, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-c", script, *arguments], check=False).returncode


async def owned(pool: Pool) -> dict[str, int]:
    rows = await pool.fetch("SELECT edge_cluster_id, count(*) AS devices FROM device_owners GROUP BY 1 ORDER BY 1")
    return {row["edge_cluster_id"]: row["devices"] for row in rows}


async def test_all_devices_of_an_edge_move_and_a_kill_in_the_middle_leaves_the_rest_to_the_next_run(
    edges: FarmCloud, cloud_pool: Pool, cloud_url: str
) -> None:
    await cloud_pool.execute(ADD, "demo", "barn-7", 1, DEVICES)
    await cloud_pool.execute(
        "INSERT INTO held_deliveries (tenant_id, device_id, edge_cluster_id, owner_edge, code)"
        " VALUES ('demo', 'node-3', 'barn-8', 'barn-7', 'device_of_another_edge')"
    )
    assert killed_by(DIES, cloud_url) == -signal.SIGKILL
    assert await owned(cloud_pool) == {"barn-7": 20, "barn-8": device_moves.MOVE_STEP}
    again = edges.command("move", "--all", "--from", "barn-7", "--to", "barn-8", "--yes")
    assert (again.returncode, again.stdout) == (exits.OK, "20 devices of barn-7 belong to barn-8 now.\n"), again.stderr
    assert again.stderr == "20 of 20 moved\n"
    assert await owned(cloud_pool) == {"barn-8": DEVICES}
    records = (
        "SELECT count(*), count(DISTINCT device_id) FROM device_moves WHERE from_edge = 'barn-7' AND to_edge = 'barn-8'"
    )
    assert tuple(await cloud_pool.fetchrow(records) or ()) == (DEVICES, DEVICES)
    windows = "SELECT bool_and(backlog_until > moved_at + interval '29 days' AND moved_by <> '') FROM device_moves"
    assert await cloud_pool.fetchval(windows)
    assert await cloud_pool.fetchval("SELECT count(*) FROM held_deliveries") == 0
    assert edges.told("move", "--all", "--from", "barn-7", "--to", "barn-8")["moved"] == 0
    assert await cloud_pool.fetchval("SELECT version FROM device_owners_version") == 2, "once for each transaction"


async def test_without_a_yes_and_without_a_grant_nothing_moves(edges: FarmCloud, cloud_pool: Pool) -> None:
    await cloud_pool.execute(ADD, "demo", "barn-7", 1, 3)
    await cloud_pool.execute(ADD, "second", "barn-7", 4, 5)
    asked = edges.command("move", "--all", "--from", "barn-7", "--to", "barn-8")
    assert asked.returncode != exits.OK
    assert "Give 5 devices of barn-7 to barn-8?" in asked.stderr
    refused = edges.command("move", "--all", "--from", "barn-7", "--to", "barn-8", "--yes")
    assert refused.returncode == exits.FAILED
    assert "edge barn-8 may not deliver for tenant second" in refused.stderr
    assert "farmiq edge grant barn-8 --tenant" in refused.stderr
    assert await owned(cloud_pool) == {"barn-7": 5}
    told = edges.told("move", "--all", "--from", "barn-7", "--to", "barn-8", "--tenant", "demo", "--yes")
    assert told == {"from_edge": "barn-7", "to_edge": "barn-8", "moved": 3}
    assert await owned(cloud_pool) == {"barn-7": 2, "barn-8": 3}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--to", "barn-8"],
        ["--all", "--to", "barn-8"],
        ["node-1", "--from", "barn-7", "--to", "barn-8"],
        ["node-1", "--all", "--from", "barn-7", "--to", "barn-8"],
        ["--all", "--from", "barn-8", "--to", "barn-8"],
    ],
)
def test_it_is_one_device_or_all_of_an_edge(edges: FarmCloud, arguments: list[str]) -> None:
    told = edges.command("move", *arguments)
    assert (told.returncode, "which devices?" in told.stderr) == (exits.USAGE, True), told.stderr


def test_an_edge_that_nobody_knows_is_no_edge_without_devices(edges: FarmCloud) -> None:
    told = edges.command("move", "--all", "--from", "barn-6", "--to", "barn-8", "--yes")
    assert (told.returncode, "there is no edge 'barn-6'" in told.stderr) == (exits.FAILED, True), told.stderr
