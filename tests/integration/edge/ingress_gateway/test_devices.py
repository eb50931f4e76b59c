from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from farmiq.contracts.ids import InvalidId
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.devices import Credential
from farmiq.kit.postgres import Connection, Pool
from support.telemetry import ELSEWHERE, HERE

FIRST, SECOND = Credential("$7$first", "the first token"), Credential("$7$second", "the second token")


@pytest_asyncio.fixture
async def connection(edge_pool: Pool) -> AsyncIterator[Connection]:
    async with edge_pool.acquire() as connection:
        yield connection


async def holder(connection: Connection, credential: Credential) -> str | None:
    found = await devices.holder_of(connection, credential.http_token)
    return None if found is None else found.device_id


async def test_a_token_is_kept_as_a_hash_and_opens_for_its_device_alone(connection: Connection) -> None:
    added = await devices.add(connection, HERE, "weigh-station", FIRST)
    await devices.add(connection, ELSEWHERE, "node", SECOND)
    assert (added.origin, added.kind, added.revoked_at) == (HERE, "weigh-station", None)
    assert added.credential_at is not None
    assert (await holder(connection, FIRST), await holder(connection, SECOND)) == (HERE.device_id, ELSEWHERE.device_id)
    for other in ("", "the first", "THE FIRST TOKEN", "the first token "):
        assert await devices.holder_of(connection, other) is None
    assert "the first token" not in await connection.fetchval("SELECT string_agg(d::text, '') FROM devices d")


async def test_a_device_that_was_registered_without_secrets_gets_them_once(connection: Connection) -> None:
    place = {"tenant_id": HERE.tenant_id, "farm_id": HERE.farm_id, "barn_id": HERE.barn_id, "device_id": HERE.device_id}
    await devices.register(connection, **place, kind="node")
    assert await devices.logins(connection) == [(await devices.find(connection, HERE.device_id), None)]
    await devices.add(connection, HERE, "node", FIRST)
    with pytest.raises(devices.DeviceKnown):
        await devices.add(connection, HERE, "node", SECOND)
    await devices.register(connection, **place, kind="node")
    assert await holder(connection, FIRST) == HERE.device_id
    assert await holder(connection, SECOND) is None


async def test_a_device_and_its_announcement_to_the_cloud_are_one_transaction(connection: Connection) -> None:
    async def announced() -> list[tuple[str, str]]:
        rows = await connection.fetch("SELECT device_id, event_type FROM sync_outbox ORDER BY created_at, id")
        return [(row["device_id"], row["event_type"]) for row in rows]

    place = {"tenant_id": HERE.tenant_id, "farm_id": HERE.farm_id, "barn_id": HERE.barn_id, "device_id": HERE.device_id}
    for _ in range(2):
        await devices.register(connection, **place, kind="node")
    assert await announced() == [(HERE.device_id, "edge.device.registered")]
    transaction = connection.transaction()
    await transaction.start()
    await devices.add(connection, ELSEWHERE, "node", SECOND)
    await transaction.rollback()
    assert len(await announced()) == 1
    await devices.add(connection, HERE, "node", FIRST)
    with pytest.raises(devices.DeviceKnown):
        await devices.add(connection, HERE, "node", SECOND)
    assert await announced() == [(HERE.device_id, "edge.device.registered")] * 2


async def test_new_secrets_end_the_old_ones(connection: Connection) -> None:
    await devices.add(connection, HERE, "node", FIRST)
    await devices.rotate(connection, HERE.device_id, SECOND)
    assert (await holder(connection, FIRST), await holder(connection, SECOND)) == (None, HERE.device_id)
    assert [password_hash for _, password_hash in await devices.logins(connection)] == ["$7$second"]


async def test_a_revoked_device_has_nothing_left_and_comes_back_only_with_new_secrets(connection: Connection) -> None:
    await devices.add(connection, HERE, "node", FIRST)
    revoked = await devices.revoke(connection, HERE.device_id)
    assert await devices.revoke(connection, HERE.device_id) == revoked
    assert await devices.provisioned(connection, [HERE.device_id]) == set()
    assert await devices.logins(connection) == [(revoked, None)]
    await connection.execute("UPDATE devices SET revoked_at = NULL")
    assert await holder(connection, FIRST) is None, "also when somebody clears the mark by hand"
    await devices.revoke(connection, HERE.device_id)
    with pytest.raises(devices.DeviceRevoked):
        await devices.rotate(connection, HERE.device_id, SECOND)
    back = await devices.add(connection, HERE, "sensor", SECOND)
    assert (back.revoked_at, back.kind, back.created_at) == (None, "sensor", revoked.created_at)
    assert (await holder(connection, FIRST), await holder(connection, SECOND)) == (None, HERE.device_id)


@pytest.mark.parametrize("is_revoked", [True, False])
async def test_an_id_stays_with_the_place_that_had_it_first(connection: Connection, is_revoked: bool) -> None:
    await devices.add(connection, HERE, "node", FIRST)
    if is_revoked:
        await devices.revoke(connection, HERE.device_id)
    moved = type(HERE)(ELSEWHERE.tenant_id, ELSEWHERE.farm_id, ELSEWHERE.barn_id, HERE.device_id)
    with pytest.raises(devices.DeviceTaken):
        await devices.add(connection, moved, "node", SECOND)
    assert (await devices.find(connection, HERE.device_id)).origin == HERE


@pytest.mark.parametrize(
    "name", ["operator", "edge-ingress-gateway", "edge-ingress-gateway-0", "cloud-x", "farmiq-probe", "status"]
)
async def test_no_device_gets_a_name_under_which_others_log_in(connection: Connection, name: str) -> None:
    origin = type(HERE)(HERE.tenant_id, HERE.farm_id, HERE.barn_id, name)
    with pytest.raises(InvalidId):
        await devices.add(connection, origin, "node", FIRST)
    assert await devices.everyone(connection) == []


async def test_unknown_devices_are_told_apart(connection: Connection) -> None:
    with pytest.raises(devices.DeviceUnknown):
        await devices.rotate(connection, "nobody", FIRST)
    with pytest.raises(devices.DeviceUnknown):
        await devices.revoke(connection, "nobody")


def test_no_text_form_of_a_credential_shows_it() -> None:
    assert "token" not in repr(FIRST)
