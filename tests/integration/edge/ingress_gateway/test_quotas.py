"""A device that floods the gateway's queue, on a real broker and database: nobody else waits for it, and nothing is lost."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.acked_device import Device
from support.gateway import SERVICE, Crowd, Ears, as_sent, environment, register, stats
from support.mosquitto import Broker
from support.service_process import service_process
from support.telemetry import HERE, reading_message
from support.waiting import eventually

FLOODER = Origin("demo", "farm-1", "barn-1", "flooder")
LIMITS = {
    "INGRESS_DEVICE_MESSAGES_PER_SECOND": "50",
    "INGRESS_BURST_SECONDS": "2",
    "INGRESS_SHUT_OUT_SECONDS": "2",
}


async def resend_until_acknowledged(crowd: Crowd, ears: Ears, readings: Mapping[UUID, Message]) -> int:
    """As a device does that believes acknowledgements only. Returns how often it had to send."""
    rounds = 0

    async def are_acknowledged() -> bool:
        nonlocal rounds
        missing = [message for event_id, message in readings.items() if event_id not in ears.told]
        if missing:
            rounds += 1
            await crowd.publish(as_sent(missing[:80]))
        return not missing

    await eventually(are_acknowledged, 90.0, "every reading to be acknowledged")
    return rounds


async def stored(pool: Pool, ids: Sequence[UUID]) -> int:
    return int(await pool.fetchval("SELECT count(*) FROM telemetry_raw WHERE id = ANY($1::uuid[])", list(ids)))


@pytest.mark.timeout(180)
async def test_a_flood_is_passed_over_stays_on_its_device_and_delays_nobody(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    await register(edge_pool, HERE.device_id, FLOODER.device_id)
    environ = environment(edge_url, mosquitto, **LIMITS)
    flood = {(event_id := new_id()): reading_message(1.0, FLOODER, event_id) for _ in range(3_000)}
    with service_process(SERVICE, environ, run_folder, tmp_path / "gateway.log") as gateway:
        async with Ears(mosquitto) as ears, Crowd(mosquitto, 2) as crowd, Device(mosquitto) as victim:
            await victim.send_until_acked(10)
            await crowd.publish(as_sent(flood.values()))
            # Behind the whole flood in the one queue that all share, and sent only once.
            await victim.send(11, 20)
            await victim.until_acked(20)
            figures = await asyncio.to_thread(stats, gateway)
            assert figures["throttled"] > 2_000
            assert await stored(edge_pool, list(flood)) == len(ears.told.keys() & flood.keys()) < 1_000
            assert ears.retry_after["iot/flooder/ack"] > 0
            assert "device_shut_out" in gateway.log_text()
            # Shut out for a while, it comes back by itself: what it kept arrives, each reading once.
            kept = dict(list(flood.items())[-200:])
            assert await resend_until_acknowledged(crowd, ears, kept) > 1
            assert await stored(edge_pool, list(kept)) == 200
    assert await edge_pool.fetchval("SELECT count(*) FROM ingress_rejected") == 0
