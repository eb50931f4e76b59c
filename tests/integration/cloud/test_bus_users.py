"""Programs that read one tenant's events, on a real broker: what reaches them, what they may do, and that ingestion goes on."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiormq
import pytest
import pytest_asyncio
from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import AMQPError, ChannelAccessRefused

from farmiq.cli.bus_users import IssuedLogin, NodeLogins, add_user, revoke_user
from farmiq.cli.cloud_bus import Bus
from farmiq.cli.edge_cloud import Cloud
from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.cloud import bus_users
from farmiq.cloud.ingestion import edges
from farmiq.cloud.ingestion.main import serve
from farmiq.cloud.topology import topology
from farmiq.contracts import bus, event_types
from farmiq.kit.amqp_inspection import connected, virtual_host_of
from farmiq.kit.amqp_topology import declare, depth
from farmiq.kit.postgres import Pool
from farmiq.stack.rabbitmq import RabbitMq
from support.bus_queue import take_all, take_messages
from support.entrance import SERVICE, TOKEN, event, remembered, send, statuses, until_ready
from support.rabbitmq import NewVirtualHost, control
from support.service_process import running
from support.waiting import eventually

TENANTS = ("demo", "demo.2", "other")


@dataclass
class World:
    server: RabbitMq
    cloud: Cloud
    bus: Bus
    names: list[str] = field(default_factory=list)

    @property
    def logins(self) -> NodeLogins:
        return NodeLogins(self.server, virtual_host_of(self.bus.amqp_url))

    async def add(self, tenant: str) -> IssuedLogin:
        """Under a name of its own: users belong to the node, which other tests share."""
        name = f"acme-{secrets.token_hex(4)}"
        self.names.append(name)
        return await add_user(self.cloud, self.bus, self.logins, name, tenant)

    async def revoke(self, name: str) -> None:
        await revoke_user(self.cloud, self.bus, self.logins, name)

    async def waiting(self, login: IssuedLogin) -> list[str]:
        """Ids of the events in the user's queue, read with the user's own login."""
        return [str(one.event_id) for one in await take_all(login.amqp_url, login.queue)]


@pytest_asyncio.fixture
async def world(
    shared_rabbitmq: RabbitMq, new_vhost: NewVirtualHost, cloud_url: str, cloud_pool: Pool
) -> AsyncIterator[World]:
    async with cloud_pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=TENANTS, token=TOKEN)
    world = World(shared_rabbitmq, Cloud(cloud_url, is_of_a_home=False), Bus(new_vhost()))
    yield world
    for name in world.names:
        await world.logins.delete(name)


@pytest_asyncio.fixture
async def ingestion(world: World) -> AsyncIterator[str]:
    async with running(
        serve, SERVICE, {"DATABASE_URL": world.cloud.database_url, "AMQP_URL": world.bus.amqp_url}
    ) as url:
        await until_ready(url)
        yield url


async def accepted(url: str, *events: dict[str, Any]) -> list[str]:
    status, answer, _ = await send(url, *events)
    assert (status, statuses(answer)) == (200, ["accepted"] * len(events))
    return [one["event_id"] for one in events]


async def test_a_user_gets_every_event_of_its_tenant_and_none_of_another(world: World, ingestion: str) -> None:
    """Also where one tenant's name is the beginning of another's."""
    ours, theirs = await world.add("demo"), await world.add("demo.2")
    mixed = [event(tenant_id=tenant) for tenant in TENANTS * 3]
    await accepted(ingestion, *mixed)
    door = event(event_type="door.opened", payload={"door": 1})
    await accepted(ingestion, door)
    assert await world.waiting(ours) == [one["event_id"] for one in mixed if one["tenant_id"] == "demo"] + [
        door["event_id"]
    ]
    assert await world.waiting(theirs) == [one["event_id"] for one in mixed if one["tenant_id"] == "demo.2"]
    services = await take_all(world.bus.amqp_url, bus.TELEMETRY_INGEST_QUEUE)
    assert {str(one.event_id) for one in services} == {one["event_id"] for one in (*mixed, door)}


async def test_a_copy_has_the_routing_key_the_id_and_the_headers_of_the_event(world: World, ingestion: str) -> None:
    login = await world.add("demo")
    (event_id,) = await accepted(ingestion, event())
    (copy,) = await take_messages(login.amqp_url, login.queue)
    (original,) = await take_messages(world.bus.amqp_url, bus.TELEMETRY_INGEST_QUEUE)
    assert copy.body == original.body
    assert (copy.exchange, copy.routing_key) == (bus.TENANTS_EXCHANGE, event_types.TELEMETRY_INGESTED)
    properties, theirs = copy.header.properties, original.header.properties
    assert properties.message_id == theirs.message_id == event_id
    own = {name: value for name, value in (theirs.headers or {}).items() if name != "x-delivery-count"}
    assert properties.headers == own | {bus.TENANT_HEADER: "demo"}


ATTEMPTS: dict[str, Callable[[AbstractChannel, IssuedLogin], Awaitable[object]]] = {
    "read ours": lambda channel, _: channel.basic_get(bus.TELEMETRY_INGEST_QUEUE),
    "consume ours": lambda channel, _: channel.basic_consume(bus.MEDIA_STORE_QUEUE, _ignore),
    "purge ours": lambda channel, _: channel.queue_purge(bus.TELEMETRY_INGEST_QUEUE),
    "bind to all tenants": lambda channel, login: channel.queue_bind(
        login.queue, bus.TENANTS_EXCHANGE, arguments={"x-match": "any"}
    ),
    "bind to our exchange": lambda channel, login: channel.queue_bind(login.queue, bus.TELEMETRY_EXCHANGE, "#"),
    "unbind": lambda channel, login: channel.queue_unbind(login.queue, bus.TENANTS_EXCHANGE),
    "make a queue": lambda channel, login: channel.queue_declare(f"{login.name}.mine.queue", durable=True),
    "make an exchange": lambda channel, _: channel.exchange_declare("mine", exchange_type="fanout"),
    "delete its queue": lambda channel, login: channel.queue_delete(login.queue),
    "publish": lambda channel, _: channel.basic_publish(b"{}", exchange=bus.TELEMETRY_EXCHANGE, routing_key="a.b"),
    "publish to itself": lambda channel, login: channel.basic_publish(b"{}", exchange="", routing_key=login.queue),
    "publish to tenants": lambda channel, _: channel.basic_publish(
        b"{}",
        exchange=bus.TENANTS_EXCHANGE,
        properties=aiormq.spec.Basic.Properties(headers={bus.TENANT_HEADER: "other"}),
    ),
}


async def test_a_user_may_read_its_own_queue_and_nothing_else(world: World) -> None:
    async with connected(world.bus.amqp_url, "test") as own:
        await declare(await own.channel(), topology())
    login = await world.add("demo")
    connection = await aiormq.connect(login.amqp_url)
    allowed = [name for name, attempt in ATTEMPTS.items() if not await is_refused(connection, attempt, login)]
    await connection.close()
    assert allowed == []
    assert await world.waiting(login) == []


async def is_refused(
    connection: AbstractConnection,
    attempt: Callable[[AbstractChannel, IssuedLogin], Awaitable[object]],
    login: IssuedLogin,
) -> bool:
    """RabbitMQ says no by closing the channel: each attempt has one of its own."""
    channel = await connection.channel()
    try:
        await attempt(channel, login)
    except ChannelAccessRefused:
        return True
    await channel.close()
    return False


async def _ignore(_message: object) -> None:
    """Nothing is ever delivered to it."""


async def test_a_full_queue_drops_its_oldest_and_ingestion_accepts_everything(world: World, ingestion: str) -> None:
    login = await world.add("demo")
    async with connected(world.bus.amqp_url, "test") as connection:
        user = bus_users.BusUser(login.name, "demo", datetime.now(UTC))
        await bus_users.make_queue(connection, user, messages_max=5)
    ids = [id_ for _ in range(4) for id_ in await accepted(ingestion, *(event() for _ in range(10)))]
    assert await world.waiting(login) == ids[-5:]
    assert len(await take_all(world.bus.amqp_url, bus.TELEMETRY_INGEST_QUEUE)) == 40


async def test_a_queue_that_refuses_its_copies_does_not_keep_an_event_from_being_accepted(
    world: World, ingestion: str, cloud_pool: Pool
) -> None:
    """Somebody has put a queue that refuses in the place of the user's own."""
    login = await world.add("demo")
    connection = await aiormq.connect(world.bus.amqp_url)
    channel = await connection.channel()
    await channel.queue_declare("narrow", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    await channel.queue_bind("narrow", bus.TENANTS_EXCHANGE, arguments={"x-match": "all", bus.TENANT_HEADER: "demo"})
    await connection.close()
    ids = await accepted(ingestion, *(event() for _ in range(5)))
    assert await remembered(cloud_pool) == sorted(ids)
    assert sorted(await world.waiting(login)) == sorted(ids)


async def test_a_user_does_not_hide_that_a_service_has_lost_its_binding(
    world: World, ingestion: str, cloud_pool: Pool
) -> None:
    """RabbitMQ gives a message back when no queue takes it. A user's queue must not be the one that takes it."""
    login = await world.add("demo")
    async with connected(world.bus.amqp_url, "test") as connection:
        channel = await connection.channel()
        await channel.queue_unbind(bus.TELEMETRY_INGEST_QUEUE, bus.EVENT_EXCHANGE, "#")
    door = event(event_type="door.opened", payload={})
    status, answer, _ = await send(ingestion, door)
    assert (status, answer["error"]["code"]) == (503, "topology_gone")
    assert await remembered(cloud_pool) == []
    assert await world.waiting(login) == []

    async def is_taken() -> bool:
        status, answer, _ = await send(ingestion, door)
        return status == 200 and statuses(answer) == ["accepted"]

    await eventually(is_taken, 60.0, "the event to be accepted")
    assert await world.waiting(login) == [door["event_id"]]


async def test_a_revoked_user_is_cut_off_and_its_queue_is_gone(world: World, ingestion: str, cloud_pool: Pool) -> None:
    login = await world.add("demo")
    connection = await aiormq.connect(login.amqp_url)
    await (await connection.channel()).basic_consume(login.queue, _ignore)
    await world.revoke(login.name)

    async def is_closed() -> bool:
        return bool(connection.is_closed)

    await eventually(is_closed, 30.0, "the user's connection to be ended")
    with pytest.raises(AMQPError):
        await aiormq.connect(login.amqp_url)
    async with connected(world.bus.amqp_url, "test") as own:
        assert await depth(own, login.queue) is None
    assert await cloud_pool.fetchval("SELECT count(*) FROM bus_users") == 0
    await accepted(ingestion, event())
    with pytest.raises(CommandFailed, match="there is no user"):
        await world.revoke(login.name)


async def test_a_login_that_was_not_made_is_made_by_the_same_command_again_for_any_tenant(
    world: World, ingestion: str
) -> None:
    """Killed after the queue was made. What it had taken for the first tenant is not the second one's to read."""
    login = await world.add("demo")
    await accepted(ingestion, event())
    await world.logins.delete(login.name)
    again = await add_user(world.cloud, world.bus, world.logins, login.name, "other")
    await accepted(ingestion, event())
    (theirs,) = await accepted(ingestion, event(tenant_id="other"))
    assert await world.waiting(again) == [theirs]


async def test_what_somebody_else_made_is_neither_taken_over_nor_deleted(world: World, cloud_pool: Pool) -> None:
    name, virtual_host = f"theirs-{secrets.token_hex(4)}", virtual_host_of(world.bus.amqp_url)
    world.names.append(name)
    control(world.server, f'ok = rabbit_auth_backend_internal:add_user(<<"{name}">>, <<"x">>, <<"test">>)')
    with pytest.raises(CommandFailed, match="RabbitMQ has a user"):
        await add_user(world.cloud, world.bus, world.logins, name, "demo")
    with pytest.raises(CommandFailed, match="there is no user"):
        await world.revoke(name)
    assert await NodeLogins(world.server, virtual_host).exists(name)
    for reserved in ("farmiq", "farmiq.cloud-media-store", "amq.me", "a b", 'x">>'):
        with pytest.raises(BadUsage):
            await add_user(world.cloud, world.bus, world.logins, reserved, "demo")
    assert await cloud_pool.fetchval("SELECT count(*) FROM bus_users") == 0
