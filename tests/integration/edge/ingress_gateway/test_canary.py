"""Test messages of the gateway's own, on a real broker and database: they return while the way is whole, and leave no trace."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from farmiq.edge.ingress_gateway import canary
from farmiq.edge.ingress_gateway.broker_logins import MqttLogin
from farmiq.kit.migrations import migrate
from farmiq.kit.mqtt import MqttClient
from farmiq.kit.postgres import Pool
from farmiq.stack.postgres import Postgres
from support.foreign_broker import ForeignBroker, foreign_broker
from support.gateway import SERVICE, ask, stats
from support.server_process import ServerProcess
from support.service_process import ServiceProcess, service_process
from support.waiting import wait_for

THIEF = "thief"
RULES = {
    SERVICE: ("topic read iot/#", "topic write iot/+/ack"),
    canary.LOGIN: MqttLogin(canary.LOGIN, "", canary.RIGHTS).rule_lines[1:],
    THIEF: ("topic read iot/thief/ack",),
}
SHARED = tuple(
    f"$share/{SERVICE}/{topic}" for topic in ("iot/telemetry/#", "iot/event/#", "iot/weighvision/#", "iot/status/#")
)
WAYS = set(canary.TOPICS.values())
# Every table in which something of a device would be found.
TABLES = ("ingress_rejected", "ingress_dedupe", "sync_outbox", "telemetry_raw", "streams", "devices", "weight_sessions")


def environment(database_url: str, broker: ForeignBroker) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "MQTT_URL": broker.url(SERVICE),
        "MQTT_CANARY_URL": broker.url(canary.LOGIN),
        "CANARY_INTERVAL_SECONDS": "1",
        "ADMIN_TOKEN": "for-this-test-only",
    }


def metrics(gateway: ServiceProcess) -> dict[str, float]:
    """Of the canary. Each is of one service, whose name is left out of the labels."""
    with urlopen(f"{gateway.url}/metrics", timeout=10) as answer:  # noqa: S310 - our own loopback address
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line.startswith("farmiq_canary"))
    return {name: float(value) for name, value in pairs}


def rounds(gateway: ServiceProcess, outcome: str) -> float:
    return metrics(gateway)[f'farmiq_canary_rounds_total{{outcome="{outcome}"}}']


def until_rounds(gateway: ServiceProcess, outcome: str, more: int) -> None:
    target = rounds(gateway, outcome) + more
    wait_for(lambda: rounds(gateway, outcome) >= target, 60.0, f"{more} more rounds that {outcome}")


@asynccontextmanager
async def thief_in_the_group(broker: ForeignBroker) -> AsyncIterator[None]:
    client = MqttClient(broker.url(THIEF), client_id=THIEF, subscriptions=SHARED, clean_session=True)
    await client.start()
    await client.wait_connected()
    try:
        yield
    finally:
        await client.stop()


async def test_test_messages_return_and_leave_nothing_behind(
    edge_url: str, edge_pool: Pool, run_folder: Path, tmp_path: Path
) -> None:
    with (
        foreign_broker(tmp_path / "broker", run_folder, RULES) as broker,
        service_process(SERVICE, environment(edge_url, broker), run_folder, tmp_path / "gateway.log") as gateway,
    ):
        await asyncio.to_thread(until_rounds, gateway, "succeeded", 3)
        assert rounds(gateway, "failed") == 0
        assert await asyncio.to_thread(stats, gateway) == dict.fromkeys(stats(gateway), 0)
        for table in TABLES:
            assert await edge_pool.fetchval(f"SELECT count(*) FROM {table}") == 0, table  # noqa: S608 - our own names
        assert await edge_pool.fetchval("SELECT count(*) FROM canary_receipts") == 4


@pytest.mark.timeout(180)
async def test_a_stranger_in_the_share_group_shows_while_devices_send_nothing(
    edge_url: str, run_folder: Path, tmp_path: Path
) -> None:
    with (
        foreign_broker(tmp_path / "broker", run_folder, RULES) as broker,
        service_process(SERVICE, environment(edge_url, broker), run_folder, tmp_path / "gateway.log") as gateway,
    ):
        await asyncio.to_thread(until_rounds, gateway, "succeeded", 1)
        async with thief_in_the_group(broker):
            await asyncio.to_thread(until_rounds, gateway, "failed", 4)
            _, ready = await asyncio.to_thread(ask, gateway, "/api/ready")
            assert ready["status"] == "ready"
            assert "test messages were not acknowledged" in ready["remarks"]["canary"]
        await asyncio.to_thread(until_rounds, gateway, "succeeded", 2)
    assert "canary_lost" in gateway.log_text()


@pytest.mark.timeout(180)
async def test_a_gateway_that_is_stuck_shows_and_so_does_its_return(
    edge_url: str, edge_pool: Pool, run_folder: Path, tmp_path: Path
) -> None:
    with (
        foreign_broker(tmp_path / "broker", run_folder, RULES) as broker,
        service_process(SERVICE, environment(edge_url, broker), run_folder, tmp_path / "gateway.log") as gateway,
    ):
        await asyncio.to_thread(until_rounds, gateway, "succeeded", 1)
        async with edge_pool.acquire() as connection, connection.transaction():
            await connection.execute("LOCK TABLE edge_identity IN ACCESS EXCLUSIVE MODE")
            await asyncio.to_thread(until_rounds, gateway, "failed", 3)
            assert metrics(gateway)["farmiq_canary_consecutive_failures"] >= 3
            assert {way for way in WAYS if metrics(gateway)[f'farmiq_canary_lost_total{{way="{way}"}}'] > 0} == WAYS
        await asyncio.to_thread(until_rounds, gateway, "succeeded", 2)


@pytest.mark.timeout(180)
async def test_a_database_that_is_away_shows_and_so_does_its_return(
    postgres_server: ServerProcess, run_folder: Path, tmp_path: Path
) -> None:
    assert isinstance(postgres_server.server, Postgres)
    url = postgres_server.server.url()
    await migrate(url, "farmiq.edge.migrations")
    with (
        foreign_broker(tmp_path / "broker", run_folder, RULES) as broker,
        service_process(SERVICE, environment(url, broker), run_folder, tmp_path / "gateway.log") as gateway,
    ):
        await asyncio.to_thread(until_rounds, gateway, "succeeded", 1)
        await asyncio.to_thread(postgres_server.kill)
        await asyncio.to_thread(until_rounds, gateway, "failed", 2)
        await asyncio.to_thread(postgres_server.start)
        await asyncio.to_thread(until_rounds, gateway, "succeeded", 1)
