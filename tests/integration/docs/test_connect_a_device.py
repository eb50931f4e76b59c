"""The programs of docs/guides/connect-a-device.md, taken out of the page and run: real broker, real gateway, own login."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from farmiq.kit.postgres import Pool
from integration.docs.device_world import device_file, has_stored, stored_ids
from support.device_farm import DeviceFarm, farm
from support.documents import block
from support.mosquitto_clients import program
from support.service_process import start_service
from support.waiting import eventually, wait_for

__all__ = ["device_file", "farm", "start_service"]  # fixtures


PAGE = "guides/connect-a-device.md"


class Pump:
    """The Python program of the page, with its SQLite file in its own folder."""

    def __init__(self, device_file: Path) -> None:
        self._device_file = device_file
        self._folder = device_file.parent
        (self._folder / "pump.py").write_text(block(PAGE, "python", '"""Usage: python pump.py'), encoding="utf-8")
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-u", "pump.py", self._device_file.name, *arguments]
        process = subprocess.Popen(
            command, cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._processes.append(process)
        return process

    def waiting(self) -> list[str]:
        """Ids of the readings on its disk."""
        with closing(sqlite3.connect(self._folder / "pump-7.sqlite")) as kept:
            return [row[0] for row in kept.execute("SELECT event_id FROM readings")]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def pump(device_file: Path) -> Iterator[Pump]:
    pump = Pump(device_file)
    yield pump
    pump.end()


async def test_every_reading_of_the_python_program_is_stored_and_nothing_waits_on_its_disk(
    pump: Pump, edge_pool: Pool
) -> None:
    process = pump.start("3")
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "3 readings measured, all of them stored\n")
    assert len(await stored_ids(edge_pool)) == 3
    assert pump.waiting() == []


async def test_the_python_program_killed_while_the_broker_is_away_loses_nothing_and_repeats_nothing(
    pump: Pump, farm: DeviceFarm, edge_pool: Pool
) -> None:
    process = pump.start()
    await eventually(lambda: has_stored(edge_pool, 2), 60, "two readings to be stored")
    farm.broker.kill()
    wait_for(lambda: len(pump.waiting()) >= 3, 60, "readings that wait on the disk")
    process.send_signal(signal.SIGKILL)
    process.wait()
    left, before = pump.waiting(), await stored_ids(edge_pool)
    farm.start()

    output, _ = pump.start("0").communicate(timeout=60)
    assert output == "0 readings measured, all of them stored\n"
    stored = await stored_ids(edge_pool)
    assert sorted(stored) == sorted({*before, *left})
    assert pump.waiting() == []


async def test_a_refused_reading_is_told_and_does_not_hold_up_the_others(
    pump: Pump, device_file: Path, edge_pool: Pool
) -> None:
    process = pump.start("1")
    process.communicate(timeout=60)
    bad = json.dumps({"event_id": "0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e60", "tenant_id": "demo", "device_id": "pump-7"})
    with closing(sqlite3.connect(device_file.parent / "pump-7.sqlite")) as kept, kept:
        topic = "iot/telemetry/demo/farm-1/barn-1/pump-7/pressure"
        whole = bad[:-1] + ', "event_type": "telemetry.reading", "ts": "2026-11-16T10:00:00Z", "payload": {}}'
        kept.execute("INSERT INTO readings VALUES (?, ?, ?)", ("0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e60", topic, whole))
    output, _ = pump.start("1").communicate(timeout=60)
    assert "rejected: {'event_id': '0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e60'" in output
    assert output.endswith("1 readings measured, all of them stored\n")
    assert len(await stored_ids(edge_pool)) == 2


async def test_the_shell_script_sends_one_reading(device_file: Path, edge_pool: Pool, tmp_path: Path) -> None:
    program("mosquitto_rr")
    script = tmp_path / "send-reading"
    script.write_text(block(PAGE, "sh", "#!/bin/sh"), encoding="utf-8")
    done = await asyncio.to_thread(run_script, script, device_file)
    assert (done.returncode, done.stderr) == (0, "")
    assert await has_stored(edge_pool, 1), "it ended before the reading was stored"
    row = await edge_pool.fetchrow("SELECT metric_value, unit FROM telemetry_raw WHERE device_id = 'pump-7'")
    assert row is not None
    assert tuple(row) == (4.2, "bar")


async def test_the_shell_script_keeps_a_reading_while_the_broker_is_away(
    device_file: Path, farm: DeviceFarm, edge_pool: Pool, tmp_path: Path
) -> None:
    program("mosquitto_rr")
    script = tmp_path / "send-reading"
    script.write_text(block(PAGE, "sh", "#!/bin/sh"), encoding="utf-8")
    farm.broker.kill()
    done = await asyncio.to_thread(run_script, script, device_file)
    assert done.returncode == 1
    assert "not acknowledged: " in done.stderr
    (kept,) = [path.name.partition(".")[0] for path in (tmp_path / "pump-7-unsent").glob("*.json")]
    farm.start()

    async def is_through() -> bool:
        return (await asyncio.to_thread(run_script, script, device_file)).returncode == 0

    await eventually(is_through, 60, "the gateway to be back at the broker")
    assert (await stored_ids(edge_pool)).count(kept) == 1
    assert list((tmp_path / "pump-7-unsent").glob("*.json")) == []


def run_script(script: Path, device_file: Path) -> "subprocess.CompletedProcess[str]":
    command = ["sh", str(script), str(device_file), "pressure", "4.2", "bar"]
    return subprocess.run(command, cwd=device_file.parent, capture_output=True, text=True, timeout=60, check=False)
