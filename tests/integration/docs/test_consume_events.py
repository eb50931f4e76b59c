"""The consumer of docs/guides/consume-events.md, taken out of the page and run on a real RabbitMQ with a login of its own."""

import json
import secrets
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import aio_pika
import pytest
import pytest_asyncio
from aio_pika.abc import AbstractChannel

from farmiq.cli.bus_users import NodeLogins, add_user, revoke_user
from farmiq.cli.cloud_bus import Bus
from farmiq.cli.edge_cloud import Cloud
from farmiq.cloud.topology import topology
from farmiq.contracts import bus, event_types
from farmiq.contracts.telemetry import TelemetryIngested, pack_of
from farmiq.kit.amqp_inspection import connected, virtual_host_of
from farmiq.kit.amqp_topology import declare
from farmiq.kit.ids import new_id
from farmiq.stack.rabbitmq import RabbitMq
from support.documents import block
from support.telemetry import HERE, batch_of, bus_body
from support.waiting import wait_for

PAGE = "guides/consume-events.md"


@dataclass
class Consumer:
    """The program of the page with a database file of its own."""

    folder: Path
    processes: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-u", "latest.py", "acme.json", "latest.sqlite", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first == "listening\n", first + process.stdout.read()
        return process

    def rows(self) -> list[tuple[str, str, float, int]]:
        with closing(sqlite3.connect(self.folder / "latest.sqlite")) as database:
            return sorted(database.execute("SELECT metric, sensor, value, samples FROM latest"))

    def samples(self) -> int:
        return sum(row[3] for row in self.rows())

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest_asyncio.fixture
async def consumer(shared_rabbitmq: RabbitMq, amqp_url: str, cloud_url: str, tmp_path: Path) -> AsyncIterator[Consumer]:
    """With the login and the queue that `farmiq bus user add` makes."""
    (tmp_path / "latest.py").write_text(block(PAGE, "python", '"""Usage: python latest.py'), encoding="utf-8")
    name = f"acme-{secrets.token_hex(4)}"
    logins = NodeLogins(shared_rabbitmq, virtual_host_of(amqp_url))
    cloud = Cloud(cloud_url, is_of_a_home=False)
    login = await add_user(cloud, Bus(amqp_url), logins, name, HERE.tenant_id)
    (tmp_path / "acme.json").write_text(json.dumps(login.as_data()), encoding="utf-8")
    consumer = Consumer(tmp_path)
    yield consumer
    consumer.end()
    await revoke_user(cloud, Bus(amqp_url), logins, name)


@pytest.fixture
async def amqp_url(new_vhost: Callable[[], str]) -> str:
    """A virtual host in which the cloud has made its exchanges and queues."""
    url = new_vhost()
    async with connected(url, "test") as connection:
        await declare(await connection.channel(), topology())
    return url


@asynccontextmanager
async def channel_of(url: str) -> AsyncIterator[AbstractChannel]:
    connection = await aio_pika.connect(url)
    async with connection:
        yield await connection.channel()


async def publish(url: str, event_type: str, *bodies: bytes) -> None:
    async with channel_of(url) as channel:
        exchange = await channel.get_exchange(bus.TENANTS_EXCHANGE, ensure=False)
        for body in bodies:
            message = aio_pika.Message(body, headers={bus.TENANT_HEADER: HERE.tenant_id})
            await exchange.publish(message, event_type, mandatory=True)


def pack(stream: UUID, first: int, last: int) -> bytes:
    packed = pack_of(batch_of(stream, first, last), first, last)
    return bus_body(event_types.TELEMETRY_BATCH_INGESTED, packed, HERE)


async def test_packs_and_readings_are_counted_once_however_often_they_come(consumer: Consumer, amqp_url: str) -> None:
    stream, event_id = uuid4(), new_id()
    reading = bus_body(
        event_types.TELEMETRY_INGESTED,
        TelemetryIngested(metric_type="pressure", metric_value=4.2, unit="bar"),
        HERE,
        event_id,
    )
    packs = [pack(stream, 1, 20), pack(stream, 21, 40)]
    process = consumer.start()
    await publish(amqp_url, event_types.TELEMETRY_BATCH_INGESTED, *reversed(packs), *packs)
    await publish(amqp_url, event_types.TELEMETRY_INGESTED, reading, reading)
    wait_for(lambda: consumer.samples() == 41, 60, "forty samples and a reading")
    assert consumer.rows() == [("humidity", "", 39.0, 20), ("pressure", "", 4.2, 1), ("temperature", "t1", 40.0, 20)]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0


async def test_what_was_published_while_the_consumer_was_dead_comes_when_it_is_back(
    consumer: Consumer, amqp_url: str
) -> None:
    stream = uuid4()
    process = consumer.start()
    await publish(amqp_url, event_types.TELEMETRY_BATCH_INGESTED, pack(stream, 1, 20))
    wait_for(lambda: consumer.samples() == 20, 60, "the first pack")
    process.send_signal(signal.SIGKILL)
    process.wait()
    await publish(amqp_url, event_types.TELEMETRY_BATCH_INGESTED, pack(stream, 21, 40), pack(stream, 41, 60))
    consumer.start()
    wait_for(lambda: consumer.samples() == 60, 60, "the packs that waited")


async def test_it_ends_after_as_many_events_as_it_was_given(consumer: Consumer, amqp_url: str) -> None:
    stream = uuid4()
    packs = [pack(stream, first, first + 9) for first in (1, 11, 21)]
    process = consumer.start("2")
    await publish(amqp_url, event_types.TELEMETRY_BATCH_INGESTED, *packs)
    process.communicate(timeout=60)
    assert (process.returncode, consumer.samples()) == (0, 20)
    process = consumer.start("1")
    process.communicate(timeout=60)
    assert (process.returncode, consumer.samples()) == (0, 30)
