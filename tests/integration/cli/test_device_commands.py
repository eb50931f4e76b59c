"""What `farmiq device add` prints is pasted into a shell, and the device's data is in the edge's database."""

import asyncio
import os
import signal
import subprocess
from asyncio.subprocess import DEVNULL
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from farmiq.kit.postgres import Pool
from farmiq.stack.mosquitto_users import gateway_rules
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
        "MQTT_URL": farm.broker.add_user("gateway", gateway_rules()),
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
    program("mosquitto_pub")
    script = pasted(farm.command("add", "pump-7", "--kind", "sensor").stdout)
    assert script.startswith("mosquitto_pub ")
    for count in (1, 2):
        await asyncio.to_thread(
            subprocess.run, ["/bin/sh", "-c", script], env=environment(run_folder), cwd=tmp_path, check=True
        )
        await eventually(partial(_has, edge_pool, "pump-7", count), what=f"{count} readings")
    assert await samples(edge_pool, "pump-7") == 2


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
