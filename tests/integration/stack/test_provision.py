"""What a farm makes in the edge's database at each start: its own node and its own weigh station, and nobody else's."""

from pathlib import Path

import msgspec
import pytest

from farmiq.contracts.services import SERVICES
from farmiq.edge.ingress_gateway import devices
from farmiq.kit.postgres import Pool
from farmiq.stack.home import Home
from farmiq.stack.plan import Plan, make_plan
from farmiq.stack.provision import provision_farm
from farmiq.timeseries.stream import Origin

OWN = Origin("demo", "farm-1", "barn-1", "station-1")
THEIRS = devices.Credential("$7$101$c2FsdA==$aGFzaA==", "the-token-of-somebody-else")


@pytest.fixture
def plan(tmp_path: Path, edge_url: str, cloud_url: str) -> Plan:
    home = Home(tmp_path / "home")
    home.create()
    outside = {
        "EDGE_DATABASE_URL": edge_url,
        "CLOUD_DATABASE_URL": cloud_url,
        "MQTT_URL": "mqtt://u:p@mqtt.example",
        "AMQP_URL": "amqp://u:p@amqp.example/",
        "S3_ENDPOINT": "https://s3.example",
        "S3_ACCESS_KEY": "key",
        "S3_SECRET_KEY": "secret",
    }
    return make_plan(home, outside, SERVICES)


async def logins(pool: Pool) -> dict[str, tuple[str, str | None]]:
    async with pool.acquire() as connection:
        return {device.device_id: (device.kind, hashed) for device, hashed in await devices.logins(connection)}


async def holder(pool: Pool, token: str) -> str | None:
    async with pool.acquire() as connection:
        found = await devices.holder_of(connection, token)
    return None if found is None else found.device_id


async def test_a_farm_has_a_node_and_a_weigh_station_and_a_second_start_changes_neither(
    plan: Plan, edge_pool: Pool
) -> None:
    await provision_farm(plan)
    first = await logins(edge_pool)
    assert {device_id: kind for device_id, (kind, _) in first.items()} == {
        "node-1": "node",
        "station-1": "weigh-station",
    }
    assert await holder(edge_pool, plan.secrets.station_token) == "station-1"
    await provision_farm(plan)
    assert await logins(edge_pool) == first, "a new hash would make the broker read its files at each start"


async def test_a_start_that_was_killed_between_station_and_secrets_is_finished_by_the_next(
    plan: Plan, edge_pool: Pool
) -> None:
    async with edge_pool.acquire() as connection:
        await devices.register(connection, **msgspec.structs.asdict(OWN), kind="weigh-station")
    await provision_farm(plan)
    assert await holder(edge_pool, plan.secrets.station_token) == "station-1"


async def test_a_device_that_somebody_added_under_the_stations_name_keeps_its_secrets(
    plan: Plan, edge_pool: Pool
) -> None:
    async with edge_pool.acquire() as connection:
        await devices.add(connection, OWN, "sensor", THEIRS)
    await provision_farm(plan)
    assert (await logins(edge_pool))["station-1"] == ("sensor", THEIRS.mqtt_password_hash)
    assert await holder(edge_pool, THEIRS.http_token) == "station-1"
    assert await holder(edge_pool, plan.secrets.station_token) is None


async def test_a_device_of_that_name_that_was_taken_out_stays_out(plan: Plan, edge_pool: Pool) -> None:
    async with edge_pool.acquire() as connection:
        await devices.add(connection, OWN, "sensor", THEIRS)
        await devices.revoke(connection, OWN.device_id)
    await provision_farm(plan)
    assert (await logins(edge_pool))["station-1"] == ("sensor", None)
    assert await holder(edge_pool, plan.secrets.station_token) is None
