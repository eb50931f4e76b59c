"""`farmiq edge` on a real cloud database."""

import subprocess
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
