"""One real stack, with all four servers and none of our services, taken through everything that may happen to it."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aio_pika
import asyncpg
import boto3
import psutil
import pytest

from farmiq.stack.control import environment, read_state, start, stop, wait_until_healthy
from farmiq.stack.home import Home
from farmiq.stack.mosquitto import MqttRefused, log_in
from farmiq.stack.processes import leftovers
from farmiq.stack.state import ChildState, StackState
from support.waiting import wait_for

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

SERVERS = {"postgres", "mosquitto", "epmd", "rabbitmq", "seaweedfs", "relay"}


@pytest.fixture(scope="module")
def home(run_folder: Path) -> Iterator[Home]:
    home = Home(run_folder / "Höfe $farm")  # blanks and letters as people have them in paths
    yield home
    stop(home, purge=True)
    assert not home.path.exists()


@pytest.fixture
def stack(home: Home) -> StackState:
    start(home, os.environ, services=())
    return wait_until_healthy(home, lambda _: None)


def child(home: Home, name: str) -> ChildState:
    return next(child for child in read_state(home).children if child.name == name)


async def use_everything(home: Home) -> None:
    """With the credentials that `farmiq env` gives out."""
    given = environment(home)
    for variable in ("EDGE_DATABASE_URL", "CLOUD_DATABASE_URL"):
        connection = await asyncpg.connect(given[variable])
        await connection.execute("CREATE TABLE IF NOT EXISTS kept (id int)")
        await connection.execute("INSERT INTO kept VALUES (1)")
        await connection.close()
    mqtt = urlsplit(given["MQTT_URL"])
    await log_in("127.0.0.1", mqtt.port or 0, mqtt.username or "", mqtt.password or "")
    async with await aio_pika.connect(given["AMQP_URL"]) as amqp:
        channel = await amqp.channel()
        await channel.declare_queue("kept", durable=True)
        message = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, "kept", mandatory=True)
    with closing(s3_client(given)) as s3:
        s3.put_object(Bucket=given["MEDIA_BUCKET"], Key="kept.jpg", Body=b"kept")


def s3_client(given: dict[str, str]) -> "S3Client":
    return boto3.client(
        "s3",
        endpoint_url=given["S3_ENDPOINT"],
        aws_access_key_id=given["S3_ACCESS_KEY"],
        aws_secret_access_key=given["S3_SECRET_KEY"],
        region_name="us-east-1",
    )


async def count_kept(home: Home) -> dict[str, int]:
    given = environment(home)
    counts = {}
    for variable in ("EDGE_DATABASE_URL", "CLOUD_DATABASE_URL"):
        connection = await asyncpg.connect(given[variable])
        counts[variable] = await connection.fetchval("SELECT count(*) FROM kept")
        await connection.close()
    async with await aio_pika.connect(given["AMQP_URL"]) as amqp:
        queue = await (await amqp.channel()).declare_queue("kept", durable=True, passive=True)
        counts["AMQP_URL"] = queue.declaration_result.message_count or 0
    with closing(s3_client(given)) as s3:
        counts["S3_ENDPOINT"] = s3.list_objects_v2(Bucket=given["MEDIA_BUCKET"])["KeyCount"]
    return counts


async def test_every_server_can_be_used_with_the_credentials_given_out(stack: StackState, home: Home) -> None:
    assert {child.name for child in stack.children} == SERVERS
    await use_everything(home)


async def test_the_mqtt_operator_is_known_and_nobody_else(stack: StackState, home: Home) -> None:
    with pytest.raises(MqttRefused):
        await log_in("127.0.0.1", child(home, "mosquitto").port or 0, "operator", "operator")


def test_nothing_listens_beyond_this_machine(stack: StackState, home: Home) -> None:
    listening = {
        connection.laddr.ip
        for process in leftovers(home.path)
        for connection in psutil.Process(process.pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1", "::1"}
    assert "127.0.0.1" in listening


def test_no_command_line_and_no_log_shows_a_credential(stack: StackState, home: Home) -> None:
    buckets = ("MEDIA_BUCKET", "CLOUD_MEDIA_BUCKET")
    secrets = [value for name, value in environment(home).items() if "://" not in value and name not in buckets]
    secrets += [urlsplit(value).password or "" for value in environment(home).values() if "@" in value]
    shown = [Path(f"/proc/{process.pid}/cmdline").read_bytes().decode() for process in leftovers(home.path)]
    shown += [path.read_text(errors="replace") for path in (home.path / "logs").iterdir()]
    assert secrets
    assert not [secret for secret in secrets if secret and any(secret in text for text in shown)]


def test_a_second_start_leaves_everything_as_it_is(stack: StackState, home: Home) -> None:
    assert start(home, os.environ, services=()) is False
    assert [child.pid for child in read_state(home).children] == [child.pid for child in stack.children]


async def test_every_child_that_is_killed_is_healed(stack: StackState, home: Home) -> None:
    before = {child.name: child.pid for child in stack.children}
    for pid in before.values():
        os.kill(pid or 0, signal.SIGKILL)
    wait_for(lambda: all(child.restarts > 0 for child in read_state(home).children), what="the notice of every death")
    healed = wait_until_healthy(home, lambda _: None)
    assert {child.name for child in healed.children if child.pid != before[child.name]} == SERVERS
    assert {child.last_exit for child in healed.children} >= {"signal SIGKILL"}
    await use_everything(home)


async def test_data_survives_down_and_up_also_when_strangers_took_the_ports(stack: StackState, home: Home) -> None:
    before, ports = await count_kept(home), {child.name: child.port for child in stack.children}
    stop(home)
    assert leftovers(home.path) == []
    assert read_state(home).phase == "stopped"
    with ExitStack() as strangers:
        for port in ports.values():
            stranger = strangers.enter_context(socket.socket())
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stranger.bind(("127.0.0.1", port))
            stranger.listen()
        start(home, os.environ, services=())
        again = wait_until_healthy(home, lambda _: None)
        assert not {child.port for child in again.children} & set(ports.values())
        assert await count_kept(home) == before


async def test_a_start_after_the_supervisor_was_killed_replaces_what_it_left(stack: StackState, home: Home) -> None:
    await use_everything(home)
    before = await count_kept(home)
    os.kill(stack.supervisor_pid or 0, signal.SIGKILL)
    wait_for(lambda: read_state(home).phase == "stopped", what="the notice of the supervisor's death")
    old = {process.pid for process in leftovers(home.path)}
    start(home, os.environ, services=())
    wait_until_healthy(home, lambda _: None)
    assert not old & {process.pid for process in leftovers(home.path)}
    assert await count_kept(home) == before


def test_nothing_is_left_after_the_supervisor_was_killed(stack: StackState, home: Home) -> None:
    os.kill(stack.supervisor_pid or 0, signal.SIGKILL)
    wait_for(lambda: read_state(home).phase == "stopped", what="the notice of the supervisor's death")
    assert "killed" in (read_state(home).problem or "")
    assert leftovers(home.path)
    stop(home)
    assert leftovers(home.path) == []
    assert [path for path in Path("/tmp").glob("seaweedfs-*") if str(child(home, "seaweedfs").port) in path.name] == []
