"""The consumer of docs/guides/consume-events.md, taken out of the page and run on a real RabbitMQ with the page's own rights."""

import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit
from uuid import UUID, uuid4

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from aiormq.exceptions import ChannelAccessRefused

from farmiq.cloud.topology import topology
from farmiq.contracts import bus, event_types
from farmiq.contracts.telemetry import TelemetryIngested, pack_of
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.amqp_topology import declare
from farmiq.kit.ids import new_id
from farmiq.stack.rabbitmq import RabbitMq
from support.documents import DOCS, block
from support.rabbitmq import control
from support.telemetry import HERE, batch_of, bus_body
from support.waiting import wait_for

PAGE = "guides/consume-events.md"


@dataclass
class Consumer:
    """The program of the page with a database file of its own."""

    folder: Path
    amqp_url: str
    processes: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def start(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-u", "latest.py", "latest.sqlite"],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "AMQP_URL": self.amqp_url},
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


@pytest.fixture
def consumer(_rabbitmq: RabbitMq, amqp_url: str, tmp_path: Path) -> Iterator[Consumer]:
    (tmp_path / "latest.py").write_text(block(PAGE, "python", '"""Usage: AMQP_URL='), encoding="utf-8")
    name, password = f"acme-{secrets.token_hex(4)}", secrets.token_urlsafe(16)
    parts = urlsplit(amqp_url)
    let_in(_rabbitmq, name, password, parts.path[1:])
    address = f"amqp://{quote(name)}:{quote(password)}@{parts.hostname}:{parts.port}{parts.path}"
    consumer = Consumer(tmp_path, address)
    yield consumer
    consumer.end()
    control(_rabbitmq, f'ok = rabbit_auth_backend_internal:delete_user(<<"{name}">>, <<"test">>)')


@pytest.fixture
async def amqp_url(new_vhost: Callable[[], str]) -> str:
    """A virtual host in which the cloud has made its exchanges and queues."""
    url = new_vhost()
    async with connected(url, "test") as connection:
        await declare(await connection.channel(), topology())
    return url


def let_in(server: RabbitMq, name: str, password: str, virtual_host: str) -> None:
    """As the page says it with `rabbitmqctl set_permissions`."""
    page = (DOCS / PAGE).read_text(encoding="utf-8")
    found = re.search(r"set_permissions acme '([^']*)' '([^']*)' '([^']*)'", page)
    assert found is not None
    rights = ", ".join('<<"{}">>'.format(one.replace("\\", "\\\\")) for one in found.groups())
    control(
        server,
        f'ok = rabbit_auth_backend_internal:add_user(<<"{name}">>, <<"{password}">>, <<"test">>)',
        f'ok = rabbit_auth_backend_internal:set_permissions(<<"{name}">>, <<"{virtual_host}">>, {rights}, <<"test">>)',
    )


@asynccontextmanager
async def channel_of(url: str) -> AsyncIterator[AbstractChannel]:
    connection = await aio_pika.connect(url)
    async with connection:
        yield await connection.channel()


async def publish(url: str, event_type: str, *bodies: bytes) -> None:
    async with channel_of(url) as channel:
        exchange = await channel.get_exchange(bus.TELEMETRY_EXCHANGE, ensure=False)
        for body in bodies:
            await exchange.publish(aio_pika.Message(body), event_type, mandatory=True)


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


async def test_the_rights_of_the_page_open_nothing_but_queues_of_its_own(consumer: Consumer, amqp_url: str) -> None:
    consumer.start()
    with pytest.raises(ChannelAccessRefused):
        await take_from(consumer.amqp_url, bus.TELEMETRY_INGEST_QUEUE)
    with pytest.raises(ChannelAccessRefused):
        await make_queue(consumer.amqp_url, "farmiq.mine.queue")
    with pytest.raises(ChannelAccessRefused):
        await delete_queue(consumer.amqp_url, bus.MEDIA_STORE_QUEUE)


async def take_from(url: str, name: str) -> None:
    async with channel_of(url) as channel:
        await (await channel.get_queue(name, ensure=False)).get(fail=False)


async def make_queue(url: str, name: str) -> None:
    async with channel_of(url) as channel:
        await channel.declare_queue(name, durable=True)


async def delete_queue(url: str, name: str) -> None:
    async with channel_of(url) as channel:
        await channel.queue_delete(name)
