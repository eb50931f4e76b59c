"""docs/guides/esp32-sensor.ino, built for this machine and run: real broker, real gateway, a device's own login.

`tests/support/arduino` stands in for the board and its two libraries. Everything that the sketch decides is the sketch's own.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from farmiq.kit.postgres import Pool
from integration.docs.device_world import device_file, has_stored, stored_ids
from support.device_farm import DeviceFarm, farm
from support.documents import DOCS, ROOT
from support.service_process import start_service
from support.waiting import eventually

__all__ = ["device_file", "farm", "start_service"]  # fixtures


BOARD = ROOT / "tests" / "support" / "arduino"
ROOM = 5


def with_values(sketch: str, values: dict[str, str]) -> str:
    """As somebody who fills in the top of the sketch."""
    for name, value in values.items():
        sketch, count = re.subn(rf"({name} = )[^;]+;", rf"\g<1>{value};", sketch, count=1)
        assert count == 1, name
    return sketch


@pytest.fixture
def sketch(device_file: Path, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The running sketch, five times a second and with room for few readings."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed: apt-get install g++")
    device = json.loads(device_file.read_text())
    broker = urlsplit(device["mqtt_url"])
    values = {
        "BROKER": f'"{broker.hostname}"',
        "BROKER_PORT": str(broker.port),
        "MQTT_PASSWORD": f'"{device["mqtt_password"]}"',
        "MEASURE_US": "200000",
        "READINGS_MAX": str(ROOM),
    }
    source = (DOCS / "guides" / "esp32-sensor.ino").read_text(encoding="utf-8")
    (tmp_path / "sketch.ino").write_text(with_values(source, values), encoding="utf-8")
    warnings = ["-Wall", "-Wextra", "-Werror"]
    build = [
        compiler,
        "-std=c++17",
        *warnings,
        f"-I{BOARD}",
        f'-DSKETCH="{tmp_path}/sketch.ino"',
        str(BOARD / "main.cpp"),
    ]
    built = subprocess.run([*build, "-o", str(tmp_path / "sketch")], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    process = subprocess.Popen([str(tmp_path / "sketch")])
    yield process
    process.kill()
    process.wait()


async def test_readings_are_stored_and_those_that_found_no_room_while_the_broker_was_away_are_told_of(
    sketch: "subprocess.Popen[bytes]", farm: DeviceFarm, edge_pool: Pool
) -> None:
    await eventually(lambda: has_stored(edge_pool, 3), 60, "readings to be stored")
    farm.broker.kill()
    before, dropped_before = len(await stored_ids(edge_pool)), await dropped(edge_pool)
    farm.start()  # it tries again after two seconds, in which it has measured twice as often as it has room for

    async def is_told() -> bool:
        return await dropped(edge_pool) > dropped_before

    await eventually(is_told, 90, "what found no room to be told of")
    await eventually(lambda: has_stored(edge_pool, before + 2 * ROOM), 60, "readings to be stored again")
    assert sketch.poll() is None
    ids = await stored_ids(edge_pool)
    assert len(ids) == len(set(ids))
    assert await edge_pool.fetchval("SELECT count(*) FROM ingress_rejected") == 0


async def dropped(pool: Pool) -> int:
    rows = await pool.fetch("SELECT payload_json FROM sync_outbox WHERE event_type = 'sensor.readings_dropped'")
    return sum(json.loads(bytes(row["payload_json"]))["count"] for row in rows)
