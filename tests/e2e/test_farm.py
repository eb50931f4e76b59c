"""One farm, started and stopped by the real command: from the simulated sensor to the row in the cloud database.

The tests run in the order in which they stand here, on one farm: it is looked at, hurt, stopped, and started again."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import asyncpg
import boto3
import pytest

from e2e.farm import FARMIQ, Farm
from farmiq.cli import exits
from farmiq.cli.hops import ROUTES
from farmiq.contracts.services import SERVICES
from farmiq.stack.mosquitto import log_in
from farmiq.stack.processes import leftovers
from farmiq.stack.state import read_state
from support.waiting import run_apart, wait_for

SERVERS = ("postgres", "mosquitto", "epmd", "rabbitmq", "seaweedfs", "relay")


def test_up_tells_what_runs_where_it_is_how_to_get_in_and_what_to_type_next(farm: Farm) -> None:
    told = farm.up_output
    for child in read_state(farm.home).children:
        assert child.name in told
    assert farm.environment()["CONSOLE_URL"] in told
    assert "farmiq env CONSOLE_PASSWORD" in told
    assert str(farm.home.path) in told
    for command in ("farmiq open", "farmiq watch", "farmiq demo break wan", "status (", "env (", "down ("):
        assert command in told


def test_a_sample_reaches_the_cloud_database(farm: Farm) -> None:
    farm.wait_until_cloud_has(1)
    (row,) = farm.fetch(
        "cloud", "SELECT tenant_id, device_id, metric_type, metric_value FROM telemetry_raw WHERE seq = 1"
    )
    assert (row["tenant_id"], row["device_id"]) == ("demo", "node-1")
    assert row["metric_type"]
    assert row["metric_value"] is not None


def test_no_hop_has_counted_more_than_the_hop_before_it(farm: Farm) -> None:
    farm.wait_until_cloud_has(farm.captured())
    earlier, later = farm.status(), farm.status()
    assert [hop["problem"] for hop in earlier["hops"]] == [None] * len(earlier["hops"])

    def samples(status: Any) -> list[int]:
        counts = {hop["name"]: hop["counts"] for hop in status["hops"]}
        return [
            counts["cloud-telemetry-service"]["samples_stored"],
            counts["edge-telemetry-timeseries"]["samples_stored"],
            counts["node-forwarder"]["last_captured_seq"],
        ]

    # Samples keep flowing while the hops are asked, and the node writes its counts once a second. So what is downstream is
    # compared with what was upstream a little later, when all of it must have passed there.
    wait_for(lambda: samples(farm.status())[2] >= samples(later)[0], what="the node's own count to catch up")
    now = farm.status()
    assert 0 < samples(earlier)[0] <= samples(later)[1]
    assert samples(earlier)[1] <= samples(now)[2]
    assert farm.counts("edge-sync-forwarder")["dlq_count"] == 0
    assert farm.counts("cloud-telemetry-service")["samples_lost"] == 0


def test_status_draws_the_path_before_the_tables(farm: Farm) -> None:
    told = farm.command("status")
    assert told.returncode == exits.OK, told.stdout + told.stderr
    path, _, tables = told.stdout.partition("Services")
    hops = ["node-forwarder", *(name for name, _, _ in ROUTES)]
    assert [line.removeprefix("→").split()[0] for line in path.splitlines()[3:] if line] == hops
    for name in (*(service.name for service in SERVICES), *SERVERS):
        assert name in tables


def test_the_exports_evaluate_in_a_shell_and_every_address_works(farm: Farm) -> None:
    script = (
        f'eval "$({FARMIQ} env)" && exec {sys.executable} -c "import json, os; print(json.dumps(dict(os.environ)))"'
    )
    shell = subprocess.run(
        ["sh", "-euc", script],
        env={"FARMIQ_HOME": str(farm.home.path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    variables = json.loads(shell.stdout)
    assert farm.environment().items() <= variables.items()
    for service in SERVICES:
        if service.port is not None:
            with urllib.request.urlopen(f"{variables[service.url_variable]}/api/ready", timeout=10) as answer:  # noqa: S310 - our own loopback
                assert json.loads(answer.read())["status"] == "ready"
    run_apart(lambda: _use_databases_broker_and_bus(variables))
    for tier in ("", "CLOUD_"):
        store = boto3.client(
            "s3",
            endpoint_url=variables[f"{tier}S3_ENDPOINT"],
            aws_access_key_id=variables[f"{tier}S3_ACCESS_KEY"],
            aws_secret_access_key=variables[f"{tier}S3_SECRET_KEY"],
            region_name="us-east-1",
        )
        found = store.head_bucket(Bucket=variables[f"{tier}MEDIA_BUCKET"])
        assert found["ResponseMetadata"]["HTTPStatusCode"] == 200


async def _use_databases_broker_and_bus(variables: dict[str, str]) -> None:
    for tier in ("EDGE", "CLOUD"):
        connection = await asyncpg.connect(variables[f"{tier}_DATABASE_URL"], timeout=10)
        assert await connection.fetchval("SELECT count(*) FROM telemetry_raw") > 0
        await connection.close()
    broker = urlsplit(variables["MQTT_URL"])
    await log_in(broker.hostname or "", broker.port or 0, broker.username or "", broker.password or "")
    bus = await aio_pika.connect(variables["AMQP_URL"], timeout=10)
    async with bus:
        await bus.channel()


def test_a_second_up_leaves_everything_as_it_is(farm: Farm) -> None:
    before = {child.name: child.pid for child in read_state(farm.home).children}
    assert "was up already" in farm.up()
    assert {child.name: child.pid for child in read_state(farm.home).children} == before


def test_migrate_finds_the_database_of_the_running_farm(farm: Farm) -> None:
    for tier in ("edge", "cloud"):
        told = farm.command("migrate", tier)
        assert told.stdout == f"The {tier} database is at the newest revision already.\n", told.stderr


def test_doctor_finds_nothing_wrong_with_a_healthy_farm(farm: Farm) -> None:
    checks = json.loads(farm.command("doctor", "--json").stdout)
    assert [check for check in checks if check["verdict"] == "failed"] == []
    assert {*SERVERS, "supervisor"} <= {check["name"] for check in checks}


def test_every_child_is_among_those_that_are_killed_below(farm: Farm) -> None:
    assert {child.name for child in read_state(farm.home).children} == {
        *SERVERS,
        *(service.name for service in SERVICES),
    }


@pytest.mark.parametrize("name", [*SERVERS, *(service.name for service in SERVICES)])
def test_a_child_killed_with_9_is_healed_and_no_sample_is_missing_afterwards(farm: Farm, name: str) -> None:
    before = farm.child(name)
    assert before.pid is not None
    os.kill(before.pid, signal.SIGKILL)

    def is_healed() -> bool:
        now = farm.child(name)
        return now.state == "healthy" and now.restarts > before.restarts and now.pid not in (None, before.pid)

    wait_for(is_healed, 90, f"{name} to be healed")
    wait_for(lambda: read_state(farm.home).is_healthy, 90, "everything else to be healthy")
    captured = farm.captured()
    captured_since = wait_for(lambda: (seq := farm.captured()) > captured and seq, 30, "new samples")
    farm.wait_until_cloud_has(int(captured_since))
    for stream in farm.coverage():
        assert stream.ranges[0][0] == 1
        assert stream.lost == 0
        assert stream.rows == sum(end - first for first, end in stream.ranges)


def test_nothing_is_left_behind_after_the_supervisor_was_killed_with_9(farm: Farm) -> None:
    pid = read_state(farm.home).supervisor_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: read_state(farm.home).phase == "stopped", what="the state to say so")
    told = farm.command("status")
    assert told.returncode == exits.NOT_RUNNING
    assert "was killed" in told.stderr
    sick = json.loads(farm.command("doctor", "--json").stdout)
    assert {"supervisor", "leftovers"} <= {check["name"] for check in sick if check["verdict"] == "failed"}
    assert farm.command("down").returncode == exits.OK
    assert leftovers(farm.home.path) == []


def test_a_second_start_keeps_data_addresses_and_credentials_and_goes_on(farm: Farm) -> None:
    remembered = json.loads(farm.home.environment_file.read_text())
    farm.up()
    assert farm.environment() == remembered
    before = farm.coverage()
    assert before
    farm.wait_until_cloud_has(max(before[0].end, farm.captured()) + 1)
    after = farm.coverage()
    assert len(after) == len(before)
    assert after[0].ranges[0][0] == 1
    assert after[0].rows == sum(end - first for first, end in after[0].ranges)


def test_down_leaves_nothing_running_and_the_data_in_place(farm: Farm) -> None:
    ports = [child.port for child in read_state(farm.home).children if child.port]
    told = farm.command("down")
    assert told.returncode == exits.OK, told.stderr
    assert leftovers(farm.home.path) == []
    assert [port for port in ports if _listens(port)] == []
    assert farm.command("status").returncode == exits.NOT_RUNNING
    assert farm.home.server_folder("postgres").exists()


def test_purge_leaves_nothing_at_all(farm: Farm) -> None:
    assert farm.command("down", "--purge", "--yes").returncode == exits.OK
    assert not farm.home.path.exists()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
