"""What `farmiq device add` prints is pasted into a shell, and the device's data is in the edge's database."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from farmiq.edge.ingress_gateway import paste
from farmiq.kit.mqtt import MqttClient
from farmiq.kit.postgres import Pool
from farmiq.stack.mosquitto_users import gateway_rights
from farmiq.stack.processes import MARKER
from support.device_farm import FARMIQ, DeviceFarm, farm
from support.mosquitto_clients import program
from support.service_process import ServiceProcess
from support.waiting import eventually

__all__ = ["farm"]  # fixtures


@pytest.fixture
def gateway(farm: DeviceFarm, edge_url: str, run_folder: Path, tmp_path: Path) -> Iterator[ServiceProcess]:
    environ = {
        "DATABASE_URL": edge_url,
        "MQTT_URL": farm.broker.add_user("gateway", gateway_rights()),
        "ADMIN_TOKEN": "a token for the administrator",
    }
    gateway = ServiceProcess("edge-ingress-gateway", environ, run_folder, tmp_path / "gateway.log").start()
    yield gateway
    gateway.kill()


def pasted(output: str) -> str:
    """What comes behind the last blank line."""
    return output.rstrip().rpartition("\n\n")[2]


def environment(run_folder: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "HOME") if name in os.environ}
    return inherited | {"PATH": f"{FARMIQ.parent}:{os.environ['PATH']}", MARKER: str(run_folder)}


async def samples(pool: Pool, device_id: str) -> int:
    return int(await pool.fetchval("SELECT count(*) FROM telemetry_raw WHERE device_id = $1", device_id))


@pytest.mark.usefixtures("gateway")
async def test_a_sensors_command_stores_a_reading_each_time_it_is_run(
    farm: DeviceFarm, edge_pool: Pool, run_folder: Path, tmp_path: Path
) -> None:
    program("mosquitto_rr")
    script = pasted(farm.command("add", "pump-7", "--kind", "sensor").stdout)
    for count in (1, 2):
        done = await run(["/bin/sh", "-c", script], run_folder, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert await samples(edge_pool, "pump-7") == count, "it ended before the reading was stored"
    assert unsent(tmp_path) == []
    assert stat.S_IMODE((tmp_path / "pump-7" / "mosquitto_rr").stat().st_mode) == 0o600


@pytest.mark.parametrize("way", ["shell", "python"])
async def test_a_reading_whose_message_is_stolen_is_kept_and_stored_once_by_the_next_run(
    farm: DeviceFarm, gateway: ServiceProcess, edge_pool: Pool, run_folder: Path, tmp_path: Path, way: str
) -> None:
    """The thief stands for every way in which a message that has its PUBACK never reaches the gateway."""
    program("mosquitto_rr")
    issued = await farm.add("pump-7", kind="sensor")
    script = paste.shell(issued) if way == "shell" else paste.python(issued)
    command = ["/bin/sh", "-c", script] if way == "shell" else [sys.executable, "-c", script]
    await asyncio.to_thread(gateway.kill)
    thief = farm.broker.add_user("thief", gateway_rights())
    await steal(thief, partial(run, command, run_folder, tmp_path), "edge-ingress-gateway")
    kept = unsent(tmp_path)
    assert len(kept) == 1
    assert await samples(edge_pool, "pump-7") == 0

    await asyncio.to_thread(gateway.start)
    done = await run(command, run_folder, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = await edge_pool.fetch("SELECT id FROM telemetry_raw WHERE device_id = 'pump-7'")
    assert len(rows) == 2, "the one that was stolen, and the one of this run"
    assert kept[0] in {str(row["id"]) for row in rows}
    assert unsent(tmp_path) == []


@pytest.mark.usefixtures("gateway")
async def test_a_rejected_reading_ends_the_command_with_its_reason(
    farm: DeviceFarm, edge_pool: Pool, run_folder: Path, tmp_path: Path
) -> None:
    program("mosquitto_rr")
    script = paste.shell(await farm.add("pump-7", kind="sensor")).replace("send 26.4", "send '\"warm\"'")
    done = await run(["/bin/sh", "-c", script], run_folder, tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("rejected by the edge: ")
    assert unsent(tmp_path) == []
    assert await samples(edge_pool, "pump-7") == 0


async def steal(
    thief_url: str, send: Callable[[], Awaitable["subprocess.CompletedProcess[str]"]], client_id: str
) -> None:
    """Takes what is sent meanwhile out of the gateway's own session, as the gateway would, and stores nothing."""
    thief = MqttClient(thief_url, client_id=client_id, subscriptions=["iot/#"], clean_session=True)
    await thief.start()
    try:
        await thief.wait_connected()
        done = await send()
    finally:
        await thief.stop()
    assert done.returncode == 1
    assert "not acknowledged: " in done.stderr


async def run(command: list[str], run_folder: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    return await asyncio.to_thread(
        subprocess.run,
        command,
        env=environment(run_folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def unsent(folder: Path) -> list[str]:
    """Ids of the readings that wait for the next run."""
    return [path.stem for path in (folder / "pump-7" / "unsent").iterdir()]


@pytest.mark.usefixtures("gateway")
async def test_a_nodes_commands_run_a_node_whose_samples_are_stored_and_acknowledged(
    farm: DeviceFarm, edge_pool: Pool, run_folder: Path, tmp_path: Path
) -> None:
    script = pasted(farm.command("add", "barn-node").stdout)
    assert script.endswith("farmiq run node-agent node-forwarder")
    node = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", script, env=environment(run_folder), cwd=tmp_path, stdout=DEVNULL, start_new_session=True
    )
    try:
        await eventually(partial(_has, edge_pool, "barn-node", 1), seconds=60, what="samples of the node")
    finally:
        os.killpg(node.pid, signal.SIGTERM)
        await asyncio.wait_for(node.wait(), 30)
    assert (tmp_path / "barn-node" / "spool").is_dir()


async def _has(pool: Pool, device_id: str, count: int) -> bool:
    return await samples(pool, device_id) >= count
