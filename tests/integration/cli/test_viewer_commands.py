"""`farmiq viewer` on a real cloud database."""

from farmiq.cli import exits
from farmiq.cloud import viewers
from farmiq.kit.postgres import Pool
from support.farm_cloud import FarmCloud, farm_cloud

__all__ = ["farm_cloud"]  # a fixture


async def test_what_add_prints_reads_until_it_is_revoked(farm_cloud: FarmCloud, cloud_pool: Pool) -> None:
    farm_cloud.group = "viewer"
    told = farm_cloud.command("add", "ann", "--tenant", "demo", "--tenant", "second", "--expires-days", "30")
    assert told.returncode == exits.OK, told.stderr
    token = told.stdout.split("\n\n")[1].strip()
    async with cloud_pool.acquire() as connection:
        assert await viewers.find(connection, token) == viewers.Viewer("ann", frozenset({"demo", "second"}))
    second = farm_cloud.told("add", "ann", "--tenant", "demo")
    listed = farm_cloud.command("ls").stdout
    assert "ann" in listed
    assert token not in listed + farm_cloud.command("ls", "--json").stdout
    first_id = next(one["token_id"] for one in farm_cloud.told("ls") if one["token_id"] != second["token_id"])
    assert (
        f"It still reads with {second['token_id']}." in farm_cloud.command("revoke", "ann", "--token", first_id).stdout
    )
    assert [one["state"] for one in farm_cloud.told("revoke", "ann")] == ["revoked", "revoked"]


def test_what_cannot_be_done_is_explained(farm_cloud: FarmCloud) -> None:
    farm_cloud.group = "viewer"
    assert "viewer add NAME --tenant TENANT" in farm_cloud.command("ls").stdout
    for arguments, code, words in (
        (("add", "ann"), exits.USAGE, "--tenant"),
        (("add", "an n", "--tenant", "demo"), exits.USAGE, "choose another name"),
        (("add", "ann", "--tenant", "de/mo"), exits.USAGE, "choose another name"),
        (("revoke", "bob"), exits.FAILED, "farmiq viewer ls"),
    ):
        told = farm_cloud.command(*arguments)
        assert (told.returncode, words in told.stderr) == (code, True), (arguments, told.stderr)
        assert "Traceback" not in told.stderr
    assert farm_cloud.told("ls") == []
