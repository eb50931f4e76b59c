"""`farmiq edge` on a real cloud database."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from farmiq.cli import exits
from farmiq.cloud.ingestion import edges
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.kit.postgres import Pool
from farmiq.kit.settings import load
from support.farm_cloud import FARMIQ, FarmCloud, farm_cloud

__all__ = ["farm_cloud"]  # a fixture


async def refusal(pool: Pool, token: str) -> str | None:
    async with pool.acquire() as connection:
        try:
            await edges.find(connection, token)
        except edges.TokenRefused as error:
            return error.code
    return None


def pasted(output: str) -> dict[str, str]:
    """The environment that a shell has once what stands behind the last blank line was pasted into it."""
    script = output.rstrip().rpartition("\n\n")[2]
    shell = subprocess.run(["/bin/sh", "-c", f"{script}\nenv"], env={}, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in shell.stdout.splitlines())


async def test_what_add_prints_is_the_forwarders_environment(farm_cloud: FarmCloud, cloud_pool: Pool) -> None:
    told = farm_cloud.command("add", "barn-7", "--tenant", "demo", "--tenant", "second", "--expires-days", "30")
    assert told.returncode == exits.OK, told.stderr
    settings = load(SyncForwarderSettings, pasted(told.stdout), database_url="unused")
    assert settings.edge_cluster_id == "barn-7"
    assert settings.batch_url == "http://127.0.0.1:5201/api/v1/edge/batch"
    async with cloud_pool.acquire() as connection:
        found = await edges.find(connection, settings.cloud_ingestion_token)
    assert found == edges.Edge("barn-7", frozenset({"demo", "second"}))
    listed = farm_cloud.command("ls")
    assert "barn-7" in listed.stdout
    assert settings.cloud_ingestion_token not in listed.stdout
    ((one),) = farm_cloud.told("ls")
    assert (one["tenant_ids"], one["state"], one["revoked_at"]) == (["demo", "second"], "live", None)
    assert one["expires_at"] is not None
    assert one["last_used_at"] is not None


async def test_rotate_leaves_time_to_change_the_token_and_revoke_leaves_none(
    farm_cloud: FarmCloud, cloud_pool: Pool
) -> None:
    old = farm_cloud.told("add", "barn-7", "--tenant", "demo")
    text = farm_cloud.command("rotate", "barn-7").stdout
    assert f"Still let in beside it: {old['token_id']} until " in text
    new = pasted(text)["CLOUD_INGESTION_TOKEN"]
    assert [await refusal(cloud_pool, token) for token in (old["token"], new)] == [None, None]
    told = farm_cloud.command("revoke", "barn-7", "--token", old["token_id"])
    assert f"It is still let in with {edges.id_of(new)}." in told.stdout
    assert [await refusal(cloud_pool, token) for token in (old["token"], new)] == ["token_revoked", None]
    newest = farm_cloud.told("rotate", "barn-7", "--grace-days", "0")
    assert [await refusal(cloud_pool, token) for token in (new, newest["token"])] == ["token_expired", None]
    assert [one["state"] for one in farm_cloud.told("revoke", "barn-7")] == ["revoked"] * 3
    assert await refusal(cloud_pool, newest["token"]) == "token_revoked"
    assert await refusal(cloud_pool, farm_cloud.told("add", "barn-7", "--tenant", "demo")["token"]) is None


def test_what_cannot_be_done_is_explained(farm_cloud: FarmCloud) -> None:
    farm_cloud.told("add", "barn-7", "--tenant", "demo")
    for arguments, code, words in (
        (("add", "barn-7", "--tenant", "demo"), exits.FAILED, "farmiq edge rotate barn-7"),
        (("add", "barn-8"), exits.USAGE, "--tenant"),
        (("add", "barn 8", "--tenant", "demo"), exits.USAGE, "choose another name"),
        (("rotate", "barn-8"), exits.FAILED, "farmiq edge ls"),
        (("revoke", "barn-8"), exits.FAILED, "farmiq edge ls"),
        (("revoke", "barn-7", "--token", "000000000000"), exits.FAILED, "farmiq edge ls"),
        (("rotate", "edge-1"), exits.FAILED, "the edge that this farm runs itself"),
        (("revoke", "edge-1"), exits.FAILED, "the edge that this farm runs itself"),
    ):
        told = farm_cloud.command(*arguments)
        assert (told.returncode, words in told.stderr) == (code, True), (arguments, told.stderr)
        assert "Traceback" not in told.stderr
    assert [one["state"] for one in farm_cloud.told("ls")] == ["live"]


def test_a_database_that_is_named_wins_and_one_that_cannot_be_used_is_said_without_its_password(
    farm_cloud: FarmCloud,
) -> None:
    for url in ("postgresql://u:very-secret@127.0.0.1:1/x", "postgresql://u:very-secret@127.0.0.1:port/x"):
        told = farm_cloud.command("ls", CLOUD_DATABASE_URL=url)
        assert (told.returncode, "correct CLOUD_DATABASE_URL" in told.stderr) == (exits.FAILED, True), told.stderr
        assert "very-secret" not in told.stderr + told.stdout


@pytest.mark.parametrize("command", [["ls"], ["add", "barn-7", "--tenant", "demo"]])
def test_without_a_farm_and_without_a_name_it_says_what_to_set(tmp_path: Path, command: list[str]) -> None:
    environ = {"PATH": "/usr/bin:/bin", "FARMIQ_HOME": str(tmp_path / "none")}
    told = subprocess.run([FARMIQ, "edge", *command], env=environ, capture_output=True, text=True, check=False)
    assert (told.returncode, "CLOUD_DATABASE_URL" in told.stderr) == (exits.BAD_SETTINGS, True), told.stderr


def test_another_cloud_gets_a_url_to_fill_in(farm_cloud: FarmCloud, cloud_url: str) -> None:
    told = farm_cloud.command("add", "edge-1", "--tenant", "demo", CLOUD_DATABASE_URL=cloud_url)
    assert pasted(told.stdout)["CLOUD_INGESTION_URL"] == "https://YOUR-CLOUD/api/v1/edge/batch"
    assert "the address of your cloud-ingestion" in told.stdout


async def test_an_edge_is_granted_a_tenant_and_loses_it_again_with_a_record_of_both(
    farm_cloud: FarmCloud, cloud_pool: Pool
) -> None:
    token = farm_cloud.told("add", "barn-7", "--tenant", "demo")["token"]

    async def tenants() -> frozenset[str]:
        async with cloud_pool.acquire() as connection:
            return (await edges.find(connection, token)).tenant_ids

    for is_changed in (True, False):
        assert farm_cloud.told("grant", "barn-7", "--tenant", "second")["is_changed"] is is_changed
        assert await tenants() == {"demo", "second"}
    async with cloud_pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="barn-7", tenant_ids=["demo"], token=token)
    assert await tenants() == {"demo", "second"}, "a start of the farm takes nothing back that a person has granted"
    assert (
        farm_cloud.command("ungrant", "barn-7", "--tenant", "second").stdout == "barn-7 may not deliver for second.\n"
    )
    assert await tenants() == {"demo"}
    refused = farm_cloud.command("ungrant", "barn-7", "--tenant", "demo")
    assert refused.returncode != exits.OK
    assert "revoke its tokens" in refused.stderr
    assert farm_cloud.command("grant", "barn-8", "--tenant", "demo").returncode != exits.OK
    rows = await cloud_pool.fetch(
        "SELECT tenant_id, is_granted, changed_by <> '' AS by FROM edge_grants ORDER BY changed_at"
    )
    assert [tuple(row) for row in rows] == [("second", True, True), ("second", False, True)]


async def test_a_device_is_moved_with_one_command_and_listed_with_its_edge(
    farm_cloud: FarmCloud, cloud_pool: Pool
) -> None:
    for edge in ("barn-7", "barn-8"):
        farm_cloud.told("add", edge, "--tenant", "demo")
    farm_cloud.group = "device"
    unknown = farm_cloud.command("move", "node-1", "--to", "barn-8")
    assert "farmiq device move node-1 --to barn-8 --tenant TENANT" in unknown.stderr
    await cloud_pool.execute(
        "INSERT INTO device_owners (tenant_id, device_id, edge_cluster_id, came_by)"
        " VALUES ('demo', 'node-1', 'barn-7', 'registration')"
    )
    await cloud_pool.execute(
        "INSERT INTO held_deliveries (tenant_id, device_id, edge_cluster_id, owner_edge, code)"
        " VALUES ('demo', 'node-1', 'barn-8', 'barn-7', 'device_of_another_edge')"
    )
    (before,) = farm_cloud.told("owners")
    assert (before["edge_cluster_id"], before["held_edges"]) == ("barn-7", ["barn-8"])
    moved = farm_cloud.command("move", "node-1", "--to", "barn-8")
    assert moved.stdout.startswith("node-1 belongs to barn-8 now.\nbarn-7 may deliver what occurred before ")
    assert farm_cloud.command("move", "node-1", "--to", "barn-8").stdout == "node-1 belongs to barn-8 already.\n"
    (after,) = farm_cloud.told("owners", "node-1")
    assert (after["edge_cluster_id"], after["came_by"], after["held_edges"]) == ("barn-8", "move", [])
    assert "barn-8" in farm_cloud.command("owners").stdout
    rows = await cloud_pool.fetch("SELECT from_edge, to_edge, moved_by <> '' AS by FROM device_moves")
    assert [tuple(row) for row in rows] == [("barn-7", "barn-8", True)]
    no_edge = farm_cloud.command("move", "node-1", "--to", "barn-9")
    assert "there is no edge 'barn-9'" in no_edge.stderr


def test_a_move_that_is_killed_between_its_record_and_its_owner_has_changed_nothing(
    farm_cloud: FarmCloud, cloud_url: str
) -> None:
    """And the same command again does all of it."""
    for edge in ("barn-7", "barn-8"):
        farm_cloud.told("add", edge, "--tenant", "demo")
    farm_cloud.group = "device"
    farm_cloud.told("move", "node-1", "--to", "barn-7", "--tenant", "demo")
    script = (
        "import asyncio, os, signal, sys, asyncpg\n"
        "from farmiq.cloud.ingestion import device_moves\n"
        "class Dies(asyncpg.Connection):\n"
        "    async def execute(self, query, *given, **more):\n"
        "        if query == device_moves._SET:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return await super().execute(query, *given, **more)\n"
        "async def main():\n"
        "    connection = await asyncpg.connect(sys.argv[1], connection_class=Dies)\n"
        "    await device_moves.move(connection, tenant_id='demo', device_id='node-1', to_edge='barn-8', moved_by='x')\n"
        "asyncio.run(main())\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, cloud_url], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert farm_cloud.told("owners")[0]["edge_cluster_id"] == "barn-7"
    assert farm_cloud.told("move", "node-1", "--to", "barn-8")["from_edge"] == "barn-7"
    assert farm_cloud.told("owners")[0]["edge_cluster_id"] == "barn-8"
