"""The gateway is killed at every step between receiving and acknowledging; so are its neighbours."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from farmiq.kit.ids import new_id
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import Pool, open_pool
from farmiq.stack.postgres import Postgres
from support.acked_device import Device
from support.gateway import (
    SERVICE,
    ask,
    assert_all_agree,
    assert_exactly_once,
    environment,
    register,
    stats,
    until_rows,
    wait_until_ready,
)
from support.mosquitto import Broker
from support.server_process import ServerProcess
from support.service_process import ServiceProcess, service_process
from support.telemetry import loss_message, raw_message, reading_message
from support.waiting import wait_for

HANDLERS = "farmiq.edge.ingress_gateway.handlers"
STORE = "farmiq.edge.ingress_gateway.store"
MEASUREMENTS = "farmiq.timeseries.store"

# In the order in which a micro-batch passes them, and whether what it holds is committed by then. After one is before the next.
STEPS = [
    ("farmiq.edge.ingress_gateway.consumer:until_stored", "before", False),
    (f"{STORE}:door", "after", False),
    (f"{STORE}:first_seen", "after", False),
    (f"{MEASUREMENTS}:lock_streams", "after", False),
    (f"{MEASUREMENTS}:copy_rows", "after", False),
    (f"{MEASUREMENTS}:save_coverage", "after", False),
    ("farmiq.outbox:append", "after", False),
    (f"{MEASUREMENTS}:insert_readings", "after", False),
    (f"{MEASUREMENTS}:record_loss", "after", False),
    (f"{STORE}:keep_rejected", "after", False),
    ("farmiq.edge.ingress_gateway.put_off:tell", "after", False),  # the last statement before the commit
    (f"{HANDLERS}:_commit", "after", True),
    ("farmiq.kit.mqtt:MqttClient.acknowledge", "after", True),
    ("farmiq.kit.mqtt:MqttClient.publish", "after", True),
]


async def test_gateway_killed_at_each_step_between_receiving_and_acknowledging_stores_everything_once(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    """Each gateway finds what the one before it left unacknowledged, and dies one step further. The device repeats nothing."""
    await register(edge_pool)
    # Long enough that what waits for a gateway comes to it in one micro-batch.
    environ = environment(edge_url, mosquitto, INGRESS_BATCH_WAIT_MS="400")
    await subscribe_once(environ, run_folder, tmp_path)
    readings, losses = [], []
    async with Device(mosquitto) as device:
        for number, (target, moment, is_committed) in enumerate(STEPS):
            first = number * 10 + 1
            await device.send(first, first + 9)
            await device.send_message(reading_message(float(number), event_id=(reading := new_id())))
            await device.send_message(loss_message(uuid4(), 1, 5, event_id=(loss := new_id())))
            await device.send_message(raw_message("iot/status/nowhere", b"%d" % number))
            readings.append(reading)
            losses.append(loss)
            log = tmp_path / f"{number}.log"
            gateway = ServiceProcess(SERVICE, environ, run_folder, log, (target, moment, 1))
            await asyncio.to_thread(live_and_die, gateway)
            stored = await edge_pool.fetchval(
                "SELECT count(*) FROM telemetry_raw WHERE seq BETWEEN $1 AND $1 + 9", first
            )
            assert stored == (10 if is_committed else 0), f"killed {moment} {target}"
            await assert_all_agree(edge_pool)
        last = len(STEPS) * 10
        with service_process(SERVICE, environ, run_folder, tmp_path / "last.log"):
            await device.send(last + 1, last + 10)
            await device.until_acked(last + 10)
    await assert_exactly_once(edge_pool, device.stream, last + 10)
    rows = await edge_pool.fetch("SELECT id FROM telemetry_raw WHERE seq IS NULL ORDER BY id")
    assert [row["id"] for row in rows] == sorted(readings)
    rows = await edge_pool.fetch("SELECT event_id FROM stream_losses ORDER BY event_id")
    assert [row["event_id"] for row in rows] == sorted(losses)
    # A message that nobody can recognise is kept each time it is delivered: once for each death after a commit, and once more.
    assert await edge_pool.fetchval("SELECT count(DISTINCT payload) FROM ingress_rejected") == len(STEPS)


def live_and_die(gateway: ServiceProcess) -> None:
    with suppress(AssertionError):  # it may be dead before anybody could ask whether it is well
        gateway.start()
    gateway.wait_for_death()


async def subscribe_once(environ: dict[str, str], run_folder: Path, tmp_path: Path) -> None:
    """From here on the broker keeps what is sent while no gateway runs."""
    with service_process(SERVICE, environ, run_folder, tmp_path / "subscriber.log") as gateway:
        await asyncio.to_thread(wait_until_ready, gateway)


@pytest.mark.parametrize("has_saved", [False, True])
async def test_broker_killed_under_load_loses_nothing_that_the_device_still_holds(
    has_saved: bool, edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    """From its own file, Mosquitto 2.0.11 comes back with the gateway's session and without its shared subscriptions."""
    await register(edge_pool)
    with service_process(SERVICE, environment(edge_url, mosquitto), run_folder, tmp_path / "gateway.log") as gateway:
        async with Device(mosquitto) as device:
            await device.send_until_acked(10)
            if has_saved:
                await asyncio.to_thread(mosquitto.save_sessions)
            await device.send(11, 20)
            await asyncio.to_thread(mosquitto.kill)

            def is_not_ready() -> bool:
                status, answer = ask(gateway, "/api/ready")
                return (
                    status == 503
                    and "BrokerAway" in answer["checks"]["broker"]
                    and answer["checks"]["database"] == "ok"
                )

            await asyncio.to_thread(wait_for, is_not_ready, 20.0, "the gateway to say that its broker is away")
            await asyncio.to_thread(mosquitto.start)
            await device.send_until_acked(40)
            await asyncio.to_thread(wait_until_ready, gateway)
            await assert_exactly_once(edge_pool, device.stream, 40)


async def test_database_killed_and_stopped_under_load_is_waited_for_and_nothing_is_acknowledged_meanwhile(
    postgres_server: ServerProcess, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    server = postgres_server.server
    assert isinstance(server, Postgres)
    url = server.url()
    await migrate(url, "farmiq.edge.migrations")
    async with await open_pool(url, service="test") as pool:
        await register(pool)
    environ = environment(url, mosquitto)
    with service_process(SERVICE, environ, run_folder, tmp_path / "first.log") as gateway:
        async with Device(mosquitto) as device:
            await device.send_until_acked(10)
            for round_number, stop in enumerate((postgres_server.kill, lambda: stop_immediately(postgres_server)), 1):
                first = round_number * 10 + 1
                await asyncio.to_thread(stop)
                await device.send(first, first + 9)
                await asyncio.to_thread(until_waiting, gateway, round_number)
                assert device.acked_seq == first - 1
                await asyncio.to_thread(postgres_server.start)
                # Nobody sends it again: the gateway has kept it, and comes back by itself.
                await device.until_acked(first + 9)
                await asyncio.to_thread(wait_until_ready, gateway)
            before = await asyncio.to_thread(stats, gateway)
            await asyncio.to_thread(postgres_server.kill)
            await device.send(31, 40)
            await asyncio.to_thread(until_waiting, gateway, 3)
            assert await asyncio.to_thread(stats, gateway) == before
            gateway.kill()
            # The broker was told nothing while the database was away: the next gateway gets what this one had in its hands.
            await asyncio.to_thread(postgres_server.start)
            with service_process(SERVICE, environ, run_folder, tmp_path / "second.log") as successor:
                await device.until_acked(40)
                assert (await asyncio.to_thread(stats, successor))["messages_received"] == 1
            async with await open_pool(url, service="test") as pool:
                await assert_exactly_once(pool, device.stream, 40)


def stop_immediately(server: ServerProcess) -> None:
    """PostgreSQL's own way to end at once: every session is cut, and the next start has to recover."""
    os.kill(server.pid, signal.SIGQUIT)
    wait_for(lambda: not server.is_running, 20.0, "PostgreSQL to end")


def until_waiting(gateway: ServiceProcess, times: int) -> None:
    """Until it has said so, here and in its log, for as many times as its database has been away."""

    def is_waiting() -> bool:
        status, answer = ask(gateway, "/api/ready")
        return status == 503 and answer["checks"]["database"] != "ok" and answer["checks"]["broker"] == "ok"

    wait_for(is_waiting, 20.0, "the gateway to say that its database is away")
    wait_for(lambda: gateway.log_text().count("database_waited_for") >= times, 20.0, "the gateway to wait for it")


async def test_gateway_that_stops_in_order_leaves_nothing_half_done(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    await register(edge_pool)
    environ = environment(edge_url, mosquitto)
    async with Device(mosquitto) as device:
        with service_process(SERVICE, environ, run_folder, tmp_path / "first.log") as gateway:
            await device.send_until_acked(1)
            sending = asyncio.gather(*(device.send(first, first + 9) for first in range(2, 2002, 10)))
            await until_rows(edge_pool, "ingress_dedupe", 20)
            assert await asyncio.to_thread(gateway.stop) == 0
            await sending
        await assert_all_agree(edge_pool)
        with service_process(SERVICE, environ, run_folder, tmp_path / "second.log"):
            await device.until_acked(2001)
    await assert_exactly_once(edge_pool, device.stream, 2001)
