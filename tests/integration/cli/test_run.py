"""`farmiq run` with real services: one process, several ports."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farmiq.cli import exits
from farmiq.stack.ports import free_port
from farmiq.stack.processes import MARKER
from support.waiting import wait_for

FARMIQ = Path(sys.executable).parent / "farmiq"
Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(run_folder: Path, tmp_path: Path) -> Iterator[Run]:
    started: list[subprocess.Popen[str]] = []

    def start(*services: str, **variables: str) -> "subprocess.Popen[str]":
        with (tmp_path / "out.log").open("a") as log:
            process = subprocess.Popen(
                [FARMIQ, "run", *services],
                env={"PATH": os.environ["PATH"], MARKER: str(run_folder)} | variables,
                stdout=log,
                stderr=log,
                text=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_one_process_serves_several_services_each_on_its_own_port(run: Run, edge_url: str) -> None:
    telemetry, sync = free_port(), free_port()
    process = run(
        "edge-telemetry-timeseries",
        "edge-sync-forwarder",
        EDGE_TELEMETRY_TIMESERIES_PORT=str(telemetry),
        EDGE_SYNC_FORWARDER_PORT=str(sync),
        DATABASE_URL=edge_url,
        ADMIN_TOKEN="t0ken",
        CLOUD_INGESTION_URL="http://127.0.0.1:9/api/v1/edge/batch",
        CLOUD_INGESTION_TOKEN="t0ken",
        EDGE_CLUSTER_ID="edge-1",
    )
    wait_for(lambda: is_healthy(telemetry) and is_healthy(sync), what="both ports")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == exits.OK


def test_port_moves_a_single_service(run: Run, edge_url: str) -> None:
    port = free_port()
    process = run("edge-telemetry-timeseries", PORT=str(port), DATABASE_URL=edge_url, ADMIN_TOKEN="t0ken")
    wait_for(lambda: is_healthy(port), what="the port")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == exits.OK


def test_a_wrong_setting_stops_the_start_with_its_name(run: Run, tmp_path: Path) -> None:
    process = run("edge-telemetry-timeseries", PORT="harbour", ADMIN_TOKEN="t0ken")
    assert process.wait(30) == exits.BAD_SETTINGS
    told = (tmp_path / "out.log").read_text()
    assert "DATABASE_URL is missing" in told
    assert "PORT is 'harbour'" in told


def test_port_for_two_services_is_refused(run: Run, tmp_path: Path) -> None:
    process = run("edge-telemetry-timeseries", "edge-sync-forwarder", PORT="7000")
    assert process.wait(30) == exits.BAD_SETTINGS
    assert "EDGE_SYNC_FORWARDER_PORT=5108" in (tmp_path / "out.log").read_text()
