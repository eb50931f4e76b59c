"""A device of a tenant for which the edge may not deliver: `farmiq device add` and `farmiq doctor` say so, with the command."""

import asyncio

import pytest

from farmiq.cli import exits
from farmiq.cli.checks import Check, Verdict
from farmiq.cli.doctor import refused_tenants
from farmiq.cloud.ingestion import edges
from farmiq.edge.sync_forwarder.held import keep_grant_alerts
from farmiq.kit.postgres import Pool
from support.device_farm import DeviceFarm, farm

__all__ = ["farm"]  # a fixture

GRANT = "farmiq edge grant edge-1 --tenant second"


async def _checks(farm: DeviceFarm) -> list[Check]:
    """The command has no loop of its own running."""
    return await asyncio.to_thread(lambda: [*refused_tenants(farm.home)])


def warning_of(farm: DeviceFarm, device_id: str, tenant: str) -> str:
    added = farm.command("add", device_id, "--tenant", tenant, "--farm", "f", "--barn", "b", "--json")
    assert added.returncode == exits.OK, added.stderr
    assert f'"device_id": "{device_id}"' in added.stdout
    return added.stderr


async def test_the_cloud_database_of_the_same_home_knows_at_once(
    farm: DeviceFarm, cloud_url: str, cloud_pool: Pool
) -> None:
    farm.tell(CLOUD_DATABASE_URL=cloud_url)
    assert warning_of(farm, "pump-1", "second") == "", "the cloud does not know the edge yet"
    async with cloud_pool.acquire() as connection:
        await edges.add(connection, "edge-1", ["demo"])
    assert warning_of(farm, "pump-2", "demo") == ""
    told = warning_of(farm, "pump-3", "second")
    assert "takes nothing of tenant second from this edge yet: what pump-3 sends waits here" in told
    assert f"  fix: {GRANT}\n" in told
    async with cloud_pool.acquire() as connection:
        await edges.grant(connection, "edge-1", "second", by="the test")
    assert warning_of(farm, "pump-4", "second") == ""


async def test_elsewhere_the_forwarders_alert_is_what_is_known(farm: DeviceFarm, edge_pool: Pool) -> None:
    assert warning_of(farm, "pump-1", "second") == ""
    (before,) = await _checks(farm)
    assert before.verdict is Verdict.OK
    async with edge_pool.acquire() as connection:
        await keep_grant_alerts(connection, ["second"], "edge-1")
    assert f"  fix: {GRANT}\n" in warning_of(farm, "pump-2", "second")
    assert warning_of(farm, "pump-3", "demo") == ""
    (check,) = await _checks(farm)
    assert (check.verdict, check.fix) == (Verdict.WARNING, GRANT)
    assert "second" in check.found
    async with edge_pool.acquire() as connection:
        await keep_grant_alerts(connection, [], "edge-1")
    assert warning_of(farm, "pump-4", "second") == ""


@pytest.mark.parametrize("url", ["postgresql://u:secret@127.0.0.1:1/x", "postgresql://u:secret@127.0.0.1:port/x"])
def test_a_cloud_that_cannot_be_asked_is_no_reason_to_fail(farm: DeviceFarm, url: str) -> None:
    farm.tell(CLOUD_DATABASE_URL=url)
    assert warning_of(farm, "pump-1", "second") == ""
