"""`farmiq device` with a real broker and a real database: what it makes, what it ends, and what heals it."""

import asyncio
import stat
import subprocess
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from farmiq.cli import exits
from farmiq.cli.device_changes import add_device, revoke_device, rotate_device
from farmiq.cli.device_edge import find_edge
from farmiq.cli.errors import BadSetting, BadUsage, CommandFailed
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.kit.postgres import Pool
from farmiq.stack.device_logins import BrokerOfHome, apply_register, write_register
from farmiq.stack.device_secrets import KeptLogin, find
from farmiq.stack.external import tier_database_url
from farmiq.stack.mosquitto import MqttRefused, log_in
from farmiq.stack.mosquitto_users import keeper_rights
from farmiq.timeseries.stream import Origin
from support.device_farm import DeviceFarm, farm
from support.mosquitto import Broker
from support.paho_client import Client, Connect, connect
from support.postgres import NewDatabase
from support.service_process import StartService, start_service
from support.telemetry import reading_message
from support.waiting import eventually, wait_for

__all__ = ["connect", "farm", "start_service"]  # fixtures


async def holder_of(pool: Pool, token: str) -> str | None:
    async with pool.acquire() as connection:
        holder = await devices.holder_of(connection, token)
    return None if holder is None else holder.device_id


async def test_a_device_is_added_with_secrets_that_work_and_only_its_login_is_kept_for_send(
    farm: DeviceFarm, edge_pool: Pool
) -> None:
    issued = await asyncio.to_thread(farm.told, "add", "pump-7", "--kind", "sensor")
    assert list(issued) == [
        "device_id", "mqtt_url", "mqtt_username", "mqtt_password", "http_token", "tenant_id", "farm_id", "barn_id", "kind",
    ]  # fmt: skip
    assert (issued["device_id"], issued["mqtt_username"], issued["kind"]) == ("pump-7", "pump-7", "sensor")
    assert (issued["tenant_id"], issued["farm_id"], issued["barn_id"]) == ("demo", "farm-1", "barn-1")
    parts = urlsplit(issued["mqtt_url"])
    assert (parts.username, parts.password, parts.port) == ("pump-7", issued["mqtt_password"], farm.broker.port)
    await log_in("127.0.0.1", farm.broker.port, "pump-7", issued["mqtt_password"])
    assert await holder_of(edge_pool, issued["http_token"]) == "pump-7"
    row = await edge_pool.fetchval("SELECT d::text FROM devices d WHERE device_id = 'pump-7'")
    login = farm.home.path / "devices" / "pump-7" / "login.json"
    others = [path for path in farm.home.path.rglob("*") if path.is_file() and path != login]
    kept = [row, *(path.read_text(errors="replace") for path in others)]
    assert len(kept) > 3
    for secret in (issued["mqtt_password"], issued["http_token"]):
        assert not [text for text in kept if secret in text]
    assert issued["http_token"] not in login.read_text()
    assert find(farm.home, "pump-7") == KeptLogin(
        tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id="pump-7", mqtt_url=issued["mqtt_url"]
    )
    assert (stat.S_IMODE(login.stat().st_mode), stat.S_IMODE(login.parent.stat().st_mode)) == (0o600, 0o700)


async def test_the_login_that_is_kept_follows_a_rotation_and_goes_with_the_device(farm: DeviceFarm) -> None:
    await asyncio.to_thread(farm.told, "add", "pump-7")
    rotated = await asyncio.to_thread(farm.told, "rotate", "pump-7")
    kept = find(farm.home, "pump-7")
    assert kept is not None
    assert kept.mqtt_url == rotated["mqtt_url"]
    assert rotated["mqtt_password"] not in repr(kept)
    await asyncio.to_thread(farm.told, "revoke", "pump-7")
    assert find(farm.home, "pump-7") is None


async def test_adding_again_is_refused_and_leaves_the_secrets_as_they_are(farm: DeviceFarm) -> None:
    issued = await farm.add("pump-7")
    with pytest.raises(CommandFailed) as refused:
        await farm.add("pump-7")
    assert "farmiq device rotate pump-7" in refused.value.fix
    with pytest.raises(CommandFailed, match="belongs to demo/farm-1/barn-1"):
        await farm.add("pump-7", barn="barn-2")
    assert await farm.lets_in(issued)


async def test_rotating_replaces_both_secrets_and_ends_what_the_old_ones_opened(
    farm: DeviceFarm, edge_pool: Pool
) -> None:
    before = await farm.add("pump-7")
    connected = Client(before.mqtt_url, "pump-7")
    after = await rotate_device(farm.edge, "pump-7")
    wait_for(lambda: connected.disconnects > 0, what="the end of the old connection")
    connected.close()
    assert (await farm.lets_in(before), await farm.lets_in(after)) == (False, True)
    assert await holder_of(edge_pool, before.http_token) is None
    assert await holder_of(edge_pool, after.http_token) == "pump-7"


async def test_revoking_takes_a_device_out_and_adding_lets_it_back_in_with_new_secrets(
    farm: DeviceFarm, edge_pool: Pool, connect: Connect
) -> None:
    before, other = await farm.add("pump-7"), await farm.add("pump-8")
    connected, neighbour = Client(before.mqtt_url), connect(other.mqtt_url)
    first = await revoke_device(farm.edge, "pump-7")
    assert first.revoked_at is not None
    assert await revoke_device(farm.edge, "pump-7") == first, "twice is the same as once"
    wait_for(lambda: connected.disconnects > 0, what="the end of its connection")
    connected.close()
    assert neighbour.disconnects == 0
    assert not [file for file in farm.files if "pump-7" in file.read_text()]
    assert await holder_of(edge_pool, before.http_token) is None
    async with edge_pool.acquire() as connection:
        assert await devices.provisioned(connection, ["pump-7"]) == set()
    with pytest.raises(CommandFailed) as refused:
        await rotate_device(farm.edge, "pump-7")
    assert "farmiq device add pump-7" in refused.value.fix
    after = await farm.add("pump-7")
    assert (await farm.lets_in(before), await farm.lets_in(after)) == (False, True)


@pytest.mark.parametrize("is_killed", [True, False])
async def test_devices_outlive_the_broker(farm: DeviceFarm, is_killed: bool) -> None:
    issued, gone = await farm.add("pump-7"), await farm.add("pump-8")
    await revoke_device(farm.edge, "pump-8")
    await asyncio.to_thread(farm.broker.kill if is_killed else farm.broker.stop)
    await asyncio.to_thread(farm.start)
    assert (await farm.lets_in(issued), await farm.lets_in(gone)) == (True, False)


@pytest.mark.parametrize("is_running", [False, True])
async def test_the_database_alone_brings_every_login_back(farm: DeviceFarm, edge_pool: Pool, is_running: bool) -> None:
    """A machine that was replaced: the database is restored from a backup, and the broker's files are new."""
    issued, gone = await farm.add("pump-7"), await farm.add("pump-8")
    await revoke_device(farm.edge, "pump-8")
    farm.broker.stop()
    for file in farm.files:
        file.unlink()
    async with edge_pool.acquire() as connection:
        if not is_running:
            await write_register(connection, farm.home)
        await asyncio.to_thread(farm.start)
        assert await farm.lets_in(issued) == (not is_running)
        broker = BrokerOfHome(farm.home, farm.broker.port, farm.broker.services_port)
        assert await apply_register(connection, broker) == is_running
        assert not await apply_register(connection, broker)
    assert (await farm.lets_in(issued), await farm.lets_in(gone)) == (True, False)


@pytest.mark.parametrize("is_running", [False, True])
async def test_a_device_that_an_older_database_does_not_have_is_out(
    farm: DeviceFarm, edge_pool: Pool, is_running: bool
) -> None:
    stays, gone = await farm.add("pump-7"), await farm.add("pump-8")
    await edge_pool.execute("DELETE FROM devices WHERE device_id = 'pump-8'")
    async with edge_pool.acquire() as connection:
        if is_running:
            await apply_register(connection, BrokerOfHome(farm.home, farm.broker.port, farm.broker.services_port))
        else:
            farm.broker.stop()
            await write_register(connection, farm.home)
            await asyncio.to_thread(farm.start)
    assert (await farm.lets_in(stays), await farm.lets_in(gone)) == (True, False)


@pytest.mark.parametrize("command", ["add", "rotate", "revoke"])
async def test_a_command_that_died_between_database_and_broker_is_healed_by_the_next(
    command: str, farm: DeviceFarm, edge_pool: Pool
) -> None:
    old = await farm.add("pump-7")
    credential = devices.Credential("$7$1$YQ==$YQ==", "a token that nobody has seen")
    async with edge_pool.acquire() as connection:
        match command:
            case "add":
                await devices.add(connection, Origin("demo", "farm-1", "barn-1", "pump-8"), "node", credential)
            case "rotate":
                await devices.rotate(connection, "pump-7", credential)
            case "revoke":
                await devices.revoke(connection, "pump-7")
    match command:
        case "add":
            with pytest.raises(CommandFailed, match="already"):
                await farm.add("pump-8")
            assert await farm.lets_in(await rotate_device(farm.edge, "pump-8"))
        case "rotate":
            assert await farm.lets_in(await rotate_device(farm.edge, "pump-7"))
            assert not await farm.lets_in(old)
        case "revoke":
            await farm.add("pump-8")
            assert not await farm.lets_in(old), "a command for any device brings the broker in line"


async def test_a_broker_that_is_away_is_named_and_the_next_command_makes_up_for_it(
    farm: DeviceFarm, edge_pool: Pool
) -> None:
    issued = await farm.add("pump-7")
    farm.broker.stop()
    waiting = asyncio.create_task(revoke_device(farm.edge, "pump-7"))

    async def is_out() -> bool:
        async with edge_pool.acquire() as connection:
            return not await devices.provisioned(connection, ["pump-7"])

    await eventually(is_out, what="the revocation in the database")
    assert not waiting.done(), "the database knows, the command still waits for the broker"
    await asyncio.to_thread(farm.start)
    await waiting
    assert not await farm.lets_in(issued)


async def test_commands_at_the_same_time_take_turns_and_the_last_secrets_work(
    farm: DeviceFarm, edge_pool: Pool
) -> None:
    await farm.add("pump-7")
    issued = await asyncio.gather(*(rotate_device(farm.edge, "pump-7") for _ in range(5)))
    let_in = [await farm.lets_in(one) for one in issued]
    holds = [await holder_of(edge_pool, one.http_token) is not None for one in issued]
    assert sum(let_in) == 1
    assert let_in == holds, "password and token of the same command"


@pytest.mark.parametrize(
    ("device_id", "tenant", "words"),
    [
        ("operator", "t", "log in to the broker"),
        ("edge-ingress-gateway", "t", "log in to the broker"),
        ("farmiq-probe", "t", "log in to the broker"),
        ("telemetry", "t", "words of our topics"),
        ("a/b", "t", "up to 63 letters"),
        ("+", "t", "up to 63 letters"),
        ("pump-7\nuser x", "t", "up to 63 letters"),
        ("pump-7", "+", "up to 63 letters"),
    ],
)
async def test_a_name_that_could_be_mistaken_for_another_is_refused(
    farm: DeviceFarm, device_id: str, tenant: str, words: str
) -> None:
    before = [file.read_text() for file in farm.files]
    with pytest.raises(BadUsage) as refused:
        await add_device(farm.edge, Origin(tenant, "f", "b", device_id), "node")
    assert words in refused.value.why
    assert [file.read_text() for file in farm.files] == before


async def test_the_farm_keeps_its_own_devices_and_unknown_ones_are_named(farm: DeviceFarm) -> None:
    for change in (rotate_device, revoke_device):
        for own, what in (("node-1", "the node"), ("station-1", "the weigh station")):
            with pytest.raises(CommandFailed, match=f"{own} is {what} that this farm runs itself"):
                await change(farm.edge, own)
        with pytest.raises(CommandFailed, match="no device nobody"):
            await change(farm.edge, "nobody")


def test_devices_are_listed_with_place_kind_and_state(farm: DeviceFarm) -> None:
    assert "device add" in farm.command("ls").stdout
    farm.told("add", "pump-7", "--tenant", "t", "--farm", "f", "--barn", "b", "--kind", "sensor")
    assert "shown this once" in farm.command("add", "scale-1", "--kind", "weigh-station").stdout
    assert "pump-7 is out" in farm.command("revoke", "pump-7").stdout
    listed = {device["device_id"]: device for device in farm.told("ls")}
    assert (listed["pump-7"]["tenant_id"], listed["pump-7"]["kind"]) == ("t", "sensor")
    assert listed["pump-7"]["revoked_at"]
    assert listed["scale-1"]["revoked_at"] is None
    assert {device["online"] for device in listed.values()} == {None}
    *shown, unknown = farm.command("ls").stdout.splitlines()
    assert "no edge-telemetry-timeseries runs here" in unknown
    assert [line.split()[:3] for line in shown[1:]] == [
        ["scale-1", "weigh-station", "demo/farm-1/barn-1"],
        ["pump-7", "sensor", "t/f/b"],
    ]


async def test_the_list_says_when_a_device_was_heard_last(
    farm: DeviceFarm, edge_pool: Pool, edge_url: str, start_service: StartService
) -> None:
    for device_id in ("barn-node", "silent"):
        await farm.add(device_id)
    message = reading_message(1.0, Origin("demo", "farm-1", "barn-1", "barn-node"))
    await ingest(edge_pool, [message], datetime.now(UTC))
    settings = {"DATABASE_URL": edge_url, "ADMIN_TOKEN": "a token for the administrator"}
    service = await asyncio.to_thread(start_service, "edge-telemetry-timeseries", settings)
    farm.tell(EDGE_TELEMETRY_TIMESERIES_URL=service.url, ADMIN_TOKEN=settings["ADMIN_TOKEN"])
    listed = {device["device_id"]: device for device in await asyncio.to_thread(farm.told, "ls")}
    assert (listed["barn-node"]["online"], listed["silent"]["online"]) == (True, False)
    assert listed["barn-node"]["last_rx_at"]
    assert listed["silent"]["last_rx_at"] is None
    service.kill()
    assert "does not say" in farm.command("ls").stdout


async def test_where_the_broker_is_not_ours_its_keeper_is_told_what_to_add(
    farm: DeviceFarm, edge_url: str, mosquitto: Broker, connect: Connect, tmp_path: Path
) -> None:
    there = {"DATABASE_URL": edge_url, "MQTT_URL": f"mqtt://127.0.0.1:{mosquitto.port}"}
    assert "--tenant TENANT" in farm.command("add", "pump-7", **there).stderr
    issued = farm.told("add", "pump-7", "--tenant", "t", "--farm", "f", "--barn", "b", **there)
    with pytest.raises(MqttRefused):
        await log_in("127.0.0.1", mosquitto.port, "pump-7", issued["mqtt_password"])
    password = urlsplit(mosquitto.add_user("administrator", keeper_rights())).password
    (tmp_path / "mosquitto_ctrl").write_text(
        f"-h 127.0.0.1\n-p {mosquitto.services_port}\n-u administrator\n-P {password}\n"
    )
    environ = {"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(tmp_path)}
    entered = f"{issued['mqtt_password']}\n" * 2
    for command in issued["broker_commands"]:
        assert issued["mqtt_password"] not in command
        run = partial(subprocess.run, ["/bin/sh", "-c", command], env=environ, input=entered, text=True, check=True)
        await asyncio.to_thread(run, timeout=30)
    device = connect(issued["mqtt_url"])
    assert (device.subscribe("iot/pump-7/ack"), device.subscribe("$share/edge-ingress-gateway/iot/#")) == (True, False)
    shown = farm.command("rotate", "pump-7", **there).stdout
    assert "is not run by FarmIQ" in shown
    assert "user pump-7\n  topic write iot/telemetry/t/f/b/pump-7/+" in shown
    withdrawn = farm.command("revoke", "pump-7", **there).stdout
    assert "remove user pump-7" in withdrawn
    assert "mosquitto_ctrl dynsec deleteClient pump-7\n  mosquitto_ctrl dynsec deleteRole pump-7" in withdrawn


def test_a_shell_that_still_has_the_database_url_of_farmiq_up_means_the_farm_that_runs_here(
    farm: DeviceFarm, edge_url: str
) -> None:
    assert farm.command("ls", DATABASE_URL=edge_url).returncode == exits.OK
    given = {"FARMIQ_HOME": str(farm.home.path), "DATABASE_URL": "postgresql://u:p@db:5432/farm"}
    farm.tell(EDGE_DATABASE_URL=tier_database_url(given["DATABASE_URL"], "edge"))
    edge = find_edge(given)
    assert edge.is_of_a_home
    assert edge.database_url == "postgresql://u:p@db:5432/farm_edge"
    with pytest.raises(BadSetting, match="which broker"):
        find_edge(given | {"DATABASE_URL": "postgresql://u:p@db:5432/another"})


def test_a_database_that_can_not_be_used_is_explained(farm: DeviceFarm, new_database: NewDatabase) -> None:
    empty = farm.command("ls", DATABASE_URL=new_database(), MQTT_URL="mqtt://broker")
    assert (empty.returncode, "farmiq migrate edge" in empty.stderr) == (exits.FAILED, True)
    nowhere = {"DATABASE_URL": "postgresql://u:hidden@127.0.0.1:1/x"}
    away = farm.command("ls", **nowhere, MQTT_URL="mqtt://broker")
    assert (away.returncode, "hidden" in away.stderr) == (exits.FAILED, False)
    assert farm.command("ls", **nowhere).returncode == exits.BAD_SETTINGS
