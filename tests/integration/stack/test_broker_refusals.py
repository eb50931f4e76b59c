"""What a real broker refuses is in the edge's database, on the gateway's route and in its metric; the broker waits for nobody."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import psutil

from farmiq.edge.ingress_gateway import devices, refusals
from farmiq.kit.clock import Clock
from farmiq.kit.mqtt import MqttClient, Will
from farmiq.kit.postgres import Pool
from farmiq.stack.broker_log import LOG_TYPES, Refusals, make_pipe, open_pipe
from farmiq.stack.children import Child
from farmiq.stack.home import Home
from farmiq.stack.keeper import Keeper
from farmiq.stack.refusal_keeping import keep_refusals, remove_retained
from farmiq.stack.state import ChildState
from support.foreign_broker import ForeignBroker, Rules
from support.gateway import ask, wait_until_ready
from support.service_process import ServiceProcess, service_process
from support.waiting import eventually, wait_for

GATEWAY = "edge-ingress-gateway"
LOGGED = f"{LOG_TYPES}log_dest stderr\nlog_timestamp_format %Y-%m-%dT%H:%M:%S\nconnection_messages true\n"
PLACE = "demo/farm-1/barn-1/node-1"
NODE_TOPICS = (f"topic write iot/telemetry/{PLACE}/+", f"topic write iot/status/{PLACE}")
RULES: Rules = {
    GATEWAY: ("topic read iot/#", f"topic read $share/{GATEWAY}/#", "topic write iot/+/ack"),
    "node-1": (*NODE_TOPICS, "topic read iot/node-1/ack"),
    "stranger": (),
    "operator": ("topic readwrite iot/#",),
}


@asynccontextmanager
async def kept_broker(
    tmp_path: Path, open_output: Callable[[Path], int]
) -> AsyncIterator[tuple[ForeignBroker, ChildState]]:
    """Under a keeper of the supervisor."""
    home = Home(tmp_path / "home")
    home.create()
    broker = ForeignBroker(tmp_path / "broker", RULES, "dynamic-security", LOGGED)
    keeper = Keeper(Child(broker, "server"), home, lambda: None, Clock(), open_output)
    keeper.start()
    try:
        await asyncio.wait_for(keeper.healthy.wait(), 60)
        yield broker, keeper.state
    finally:
        await keeper.stop()


async def misbehave(broker: ForeignBroker, name: str) -> None:
    """Two publishes on a topic of another, a subscription to everything, and a second connection."""
    first = MqttClient(broker.url(name), client_id=name, clean_session=True)
    await first.start()
    await first.wait_connected()
    for _ in range(2):
        await first.publish("iot/telemetry/demo/farm-1/barn-1/node-2/temperature", b"{}")
    thief = MqttClient(broker.url(name), client_id=name, subscriptions=("#",), clean_session=True)
    await thief.start()
    await eventually(lambda: _has_reconnected(first), what="the first connection to come back")
    await thief.stop()
    await first.stop()


async def _has_reconnected(client: MqttClient) -> bool:
    return client.connections > 1


async def removed_messages_are_passed_over(broker: ForeignBroker, pool: Pool) -> None:
    """Removing a retained message is publishing an empty one, which reaches the gateway too."""
    client = MqttClient(broker.url("operator"), client_id="operator", clean_session=True)
    await client.start()
    await client.wait_connected()
    await client.publish(f"iot/telemetry/{PLACE}/temperature", b"", retain=True)
    await client.publish(f"iot/telemetry/{PLACE}/temperature", b"no JSON")
    await client.stop()
    await eventually(lambda: pool.fetchval("SELECT count(*) > 0 FROM ingress_rejected"), what="the other to be refused")
    assert await pool.fetchval("SELECT array_agg(payload_size_bytes) FROM ingress_rejected") == [7]


def refused_devices(gateway: ServiceProcess, kind: str) -> float:
    with urlopen(f"{gateway.url}/metrics", timeout=10) as answer:  # noqa: S310 - our own loopback address
        lines = answer.read().decode().splitlines()
    return next(
        float(line.split()[-1]) for line in lines if line.startswith(f'farmiq_broker_refused_devices{{kind="{kind}"')
    )


async def test_what_a_device_was_refused_is_on_the_gateways_route_for_its_tenant_alone(
    edge_url: str, edge_pool: Pool, run_folder: Path, tmp_path: Path
) -> None:
    async with edge_pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id="node-1", kind="node"
        )
    seen = Refusals(Clock())
    keeping = asyncio.create_task(keep_refusals(edge_url, seen, record_seconds=0.1))
    async with kept_broker(tmp_path, lambda path: open_pipe(path, seen)) as (broker, state):
        await misbehave(broker, "node-1")
        await misbehave(broker, "stranger")

        async def is_recorded() -> bool:
            assert not keeping.done()
            rows = await edge_pool.fetch("SELECT kind, tenant_id FROM broker_refusals")
            wanted = {"publish_denied", "subscribe_denied", "connection_replaced"}
            return {(kind, tenant) for kind in wanted for tenant in ("demo", "")} <= {tuple(row) for row in rows}

        await eventually(is_recorded, what="the refusals to be recorded")
        environ = {"DATABASE_URL": edge_url, "MQTT_URL": broker.url(GATEWAY), "ADMIN_TOKEN": "for-this-test-only"}
        with service_process(GATEWAY, environ, run_folder, tmp_path / "gateway.log") as gateway:
            await asyncio.to_thread(wait_until_ready, gateway)
            _, own = await asyncio.to_thread(ask, gateway, "/api/v1/ingress/refusals?tenant_id=demo&device_id=node-1")
            found = {one["kind"]: one for one in own["refusals"]}
            assert found["publish_denied"]["count"] == 2
            assert found["publish_denied"]["topic"] == "iot/telemetry/demo/farm-1/barn-1/node-2/temperature"
            assert found["subscribe_denied"]["topic"] == "#"
            assert {one["device_id"] for one in own["refusals"]} == {"node-1"}
            assert await asyncio.to_thread(ask, gateway, "/api/v1/ingress/refusals?tenant_id=other") == (
                200,
                {"refusals": []},
            )
            assert (await asyncio.to_thread(ask, gateway, "/api/v1/ingress/refusals"))[0] == 400
            wait_for(lambda: refused_devices(gateway, "publish_denied") == 2, what="the metric")
            await removed_messages_are_passed_over(broker, edge_pool)
        text = await asyncio.to_thread(Path(state.log).read_text)
    keeping.cancel()
    assert "already connected, closing old connection" in text
    assert "PUBLISH" not in text
    async with edge_pool.acquire() as connection:
        assert await refusals.forget(connection, Clock().now()) == 6


async def test_retained_messages_do_not_stay_in_the_brokers_memory(tmp_path: Path) -> None:
    seen = Refusals(Clock())
    async with kept_broker(tmp_path, lambda path: open_pipe(path, seen)) as (broker, state):
        pid = state.pid
        assert pid is not None
        removing = asyncio.create_task(remove_retained(broker.url("operator"), seen))
        sender = MqttClient(broker.url("node-1"), client_id="node-1", clean_session=True)
        await sender.start()
        await sender.wait_connected()
        await sender.publish("iot/status/demo/farm-1/barn-1/node-1", b"{}", retain=True)
        before = memory_bytes(pid)
        for number in range(400):
            topic = f"iot/telemetry/demo/farm-1/barn-1/node-1/m{number}"
            await sender.publish(topic, bytes(250_000), retain=True)

        async def is_small() -> bool:
            assert not removing.done()
            return await retained_by(broker) == [f"iot/status/{PLACE}"] and memory_bytes(pid) < before + (20 << 20)

        await eventually(is_small, what="the broker to keep the status alone, and its memory to come back down")
        assert sum(one.count for one in seen.take() if one.kind == "retained_removed") == 400
        removing.cancel()
        await sender.stop()


async def test_a_retained_last_will_does_not_stay_either(tmp_path: Path) -> None:
    seen = Refusals(Clock())
    topic = f"iot/telemetry/{PLACE}/will"
    async with kept_broker(tmp_path, lambda path: open_pipe(path, seen)) as (broker, _):
        removing = asyncio.create_task(remove_retained(broker.url("operator"), seen))
        gateway = MqttClient(broker.url(GATEWAY), client_id=GATEWAY, subscriptions=[f"$share/{GATEWAY}/iot/#"])
        await gateway.start()
        await gateway.wait_connected()
        first = MqttClient(broker.url("node-1"), client_id="node-1", will=Will(topic, b"gone"))
        await first.start()
        await first.wait_connected()
        # A second connection of the same login ends the first, and the broker publishes its will.
        second = MqttClient(broker.url("node-1"), client_id="node-1", clean_session=True)
        await second.start()
        batch = await gateway.next_batch(10, 0.0)
        assert {message.payload for message in batch} == {b"gone"}
        gateway.acknowledge(batch)
        await second.stop()

        async def is_removed() -> bool:
            assert not removing.done()
            return await retained_by(broker) == []

        await eventually(is_removed, what="the broker to keep nothing")
        assert {one.kind for one in seen.take() if one.client_id == "node-1"} >= {"retained_removed"}
        removing.cancel()
        for client in (first, gateway):
            await client.stop()


def memory_bytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


async def retained_by(broker: ForeignBroker) -> list[str]:
    """What a new subscriber is handed: the broker sends it before anything that is published after."""
    client = MqttClient(broker.url("operator"), client_id="newcomer", subscriptions=["iot/#"], clean_session=True)
    await client.start()
    await client.wait_connected()
    await client.publish("iot/newcomer/ack", b"end")
    found: list[str] = []
    while True:
        messages = await client.next_batch(100, 0.0)
        client.acknowledge(messages)
        for message in messages:
            if message.topic == "iot/newcomer/ack":
                await client.stop()
                return found
            if message.is_retained:
                found.append(message.topic)


async def test_a_reader_that_hangs_does_not_hold_the_broker_up(tmp_path: Path) -> None:
    reading, writing = make_pipe()
    async with kept_broker(tmp_path, lambda _: os.dup(writing)) as (broker, _):
        client = MqttClient(broker.url("node-1"), client_id="node-1", clean_session=True)
        await client.start()
        await client.wait_connected()
        # Each leaves more than 150 bytes in the log: far more than the pipe takes.
        for _ in range(100):
            await asyncio.gather(
                *(client.publish("iot/telemetry/demo/farm-1/barn-1/node-1/x", b"{}") for _ in range(100))
            )
        await client.stop()
        await broker.probe()
    os.close(writing)
    os.close(reading)
