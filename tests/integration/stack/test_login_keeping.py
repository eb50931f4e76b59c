"""The broker follows the register while a farm runs: within moments when it is told, within seconds when it is not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.broker_logins import hash_password
from farmiq.kit.postgres import Pool
from farmiq.stack.device_logins import BrokerOfHome
from farmiq.stack.login_keeping import keep_logins
from farmiq.stack.mosquitto import MqttRefused, log_in
from farmiq.stack.mosquitto_users import access_file
from farmiq.timeseries.stream import Origin
from support.device_farm import DeviceFarm, farm
from support.paho_client import Client
from support.waiting import eventually, wait_for

__all__ = ["farm"]  # a fixture

PASSWORD = "for-this-test-only"
LONG = 3600.0


@asynccontextmanager
async def kept(farm: DeviceFarm, edge_url: str, look_seconds: float = LONG) -> AsyncIterator[None]:
    broker = BrokerOfHome(farm.home, farm.broker.port, farm.broker.services_port)
    task = asyncio.create_task(keep_logins(edge_url, broker, look_seconds))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def add(pool: Pool, device_id: str, password: str = PASSWORD) -> None:
    credential = devices.Credential(hash_password(password), f"token of {device_id}")
    async with pool.acquire() as connection:
        await devices.add(connection, Origin("demo", "farm-1", "barn-1", device_id), "node", credential)


async def is_let_in(farm: DeviceFarm, device_id: str, password: str = PASSWORD) -> bool:
    try:
        await log_in("127.0.0.1", farm.broker.port, device_id, password)
    except (MqttRefused, OSError, asyncio.IncompleteReadError):
        return False
    return True


async def test_a_device_that_was_added_is_let_in_rotated_and_thrown_out_without_a_command(
    farm: DeviceFarm, edge_url: str, edge_pool: Pool
) -> None:
    async with kept(farm, edge_url):
        await add(edge_pool, "pump-7")
        await eventually(lambda: is_let_in(farm, "pump-7"), what="the new device at the broker")
        connected = Client(f"mqtt://pump-7:{PASSWORD}@127.0.0.1:{farm.broker.port}", "pump-7")
        async with edge_pool.acquire() as connection:
            await devices.rotate(connection, "pump-7", devices.Credential(hash_password("another"), "another token"))
        await eventually(lambda: is_let_in(farm, "pump-7", "another"), what="its new password")
        assert not await is_let_in(farm, "pump-7")
        await asyncio.to_thread(wait_for, lambda: connected.disconnects > 0, 20.0, "the end of the old connection")
        connected.close()
        async with edge_pool.acquire() as connection:
            await devices.revoke(connection, "pump-7")

        async def is_out() -> bool:
            return not await is_let_in(farm, "pump-7", "another")

        await eventually(is_out, what="the revoked device to be refused")


async def test_a_change_that_nobody_announced_is_found_by_looking(
    farm: DeviceFarm, edge_url: str, edge_pool: Pool
) -> None:
    async with kept(farm, edge_url, look_seconds=0.1):
        await add(edge_pool, "pump-7")
        await eventually(lambda: is_let_in(farm, "pump-7"), what="the first device")
        await edge_pool.execute(
            "INSERT INTO devices (device_id, tenant_id, farm_id, barn_id, mqtt_password_hash, credential_at)"
            " VALUES ('pump-8', 'demo', 'farm-1', 'barn-1', $1, now())",
            hash_password(PASSWORD),
        )
        await eventually(lambda: is_let_in(farm, "pump-8"), what="the device that came without a word")
        assert await is_let_in(farm, "pump-7"), "the others stay"


async def test_what_changed_while_the_database_cut_the_line_is_made_up_for(
    farm: DeviceFarm, edge_url: str, edge_pool: Pool
) -> None:
    cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'farmiq-logins'"
    async with kept(farm, edge_url, look_seconds=0.1):
        await add(edge_pool, "pump-7")
        await eventually(lambda: is_let_in(farm, "pump-7"), what="the first device")
        assert await edge_pool.fetchval(cut) == 1
        await add(edge_pool, "pump-8")
        await eventually(lambda: is_let_in(farm, "pump-8"), what="the device added meanwhile")


async def test_a_broker_that_was_away_gets_what_changed_meanwhile(
    farm: DeviceFarm, edge_url: str, edge_pool: Pool
) -> None:
    async with kept(farm, edge_url):
        await asyncio.to_thread(farm.broker.stop)
        await add(edge_pool, "pump-7")
        await asyncio.to_thread(farm.start)
        await eventually(lambda: is_let_in(farm, "pump-7"), what="the device at the broker that is back")
        assert not await is_let_in(farm, "pump-7", "another password")


async def test_a_broker_that_starts_with_a_file_that_was_cut_short_gets_everybody_back(
    farm: DeviceFarm, edge_url: str, edge_pool: Pool
) -> None:
    async with kept(farm, edge_url, look_seconds=0.1):
        await add(edge_pool, "pump-7")
        await eventually(lambda: is_let_in(farm, "pump-7"), what="the device")
        await asyncio.to_thread(farm.broker.kill)
        access_file(farm.broker.server.folder).write_text('{"clients": [')
        await asyncio.to_thread(farm.start)
        await eventually(lambda: is_let_in(farm, "pump-7"), what="the device at the broker that had forgotten it")


async def test_the_command_and_the_keeper_take_turns_and_the_last_secrets_work(
    farm: DeviceFarm, edge_url: str, edge_pool: Pool
) -> None:
    async with kept(farm, edge_url):
        await add(edge_pool, "pump-7")
        issued = await asyncio.gather(*(farm.add(f"pump-1{number}") for number in range(4)))
        for one in issued:
            assert await farm.lets_in(one)
        await eventually(lambda: is_let_in(farm, "pump-7"), what="the one that was added beside the commands")


async def test_a_device_that_is_registered_elsewhere_and_back_may_use_the_topics_of_its_place(
    farm: DeviceFarm, edge_url: str, edge_pool: Pool
) -> None:
    """A broker that stayed behind would take and drop what the device sends: it is PUBACKed, and nobody ever sees it."""

    async def is_at(barn_id: str) -> bool:
        return f"/{barn_id}/" in await asyncio.to_thread(access_file(farm.home.server_folder("mosquitto")).read_text)

    async with kept(farm, edge_url, look_seconds=0.1):
        await add(edge_pool, "pump-7")
        await eventually(lambda: is_at("barn-1"), what="the device's role at the broker")
        for barn_id in ("barn-2", "barn-1"):
            await edge_pool.execute("UPDATE devices SET barn_id = $1", barn_id)
            await eventually(partial(is_at, barn_id), what=f"its role in {barn_id}")
