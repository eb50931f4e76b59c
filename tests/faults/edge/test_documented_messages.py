"""The messages of the documents, sent with `mosquitto_pub` and a device's own credential, are stored once, whatever happens.

The weigh station's messages have a file of their own, `test_weigh_sessions.py`."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any
from uuid import uuid4

import pytest

from farmiq.kit.postgres import Pool
from farmiq.stack.mosquitto_users import gateway_rights
from support.device_farm import DeviceFarm, farm
from support.mosquitto_clients import program, pub, sub
from support.paho_client import Connect, connect
from support.service_process import ServiceProcess
from support.waiting import eventually

__all__ = ["connect", "farm"]  # fixtures


TENANT, FARM, BARN, DEVICE = (f"018f1a84-bb0e-7d3f-b2e4-9e8b5f8e000{number}" for number in (2, 3, 4, 5))
STREAM = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0001"
PLACE = f"{TENANT}/{FARM}/{BARN}/{DEVICE}"
READING_ID = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0001"


def envelope(event_type: str, payload: dict[str, Any], event_id: str | None = None, **other: Any) -> str:
    fields = {
        "schema_version": "1.0",
        "event_id": event_id or str(uuid4()),
        "trace_id": "trace-id-123",
        "tenant_id": TENANT,
        "device_id": DEVICE,
        "event_type": event_type,
        "ts": "2025-01-01T10:00:00Z",
        "payload": payload,
    }
    return json.dumps(fields | other)


def reading(value: float = 26.4, event_id: str | None = None, **other: Any) -> str:
    return envelope("telemetry.reading", {"value": value, "unit": "C"}, event_id, **other)


# The reading of the event document, the batch and the loss of the design, and a status. Each is one message with one id.
BATCH = {
    "stream_id": STREAM,
    "boot_id": str(uuid4()),
    "lane": "live",
    "seq0": 1001,
    "time_quality": 2,
    "channels": [{"metric": "temperature", "unit": "C", "sensor": "t1"}],
    "t": [1735725600000000],
    "c": [0],
    "v": [26.4],
}
LOSS = {
    "stream_id": STREAM,
    "first_seq": 1,
    "last_seq": 900,
    "count": 900,
    "first_ts": "2025-01-01T10:00:00Z",
    "last_ts": "2025-01-01T10:15:00Z",
    "reason": "spool_full",
    "dropped_at": "2025-01-03T10:00:00Z",
}
MESSAGES = {
    f"iot/telemetry/{PLACE}/temperature": reading(event_id=READING_ID),
    f"iot/telemetry/{PLACE}/batch": envelope("telemetry.batch", BATCH),
    f"iot/event/{PLACE}/telemetry.loss": envelope("telemetry.loss", LOSS),
    f"iot/status/{PLACE}": envelope("device.status", {"state": "online"}),
}


class Edge:
    """The farm of the documents: their device, another one, and a gateway that can be killed."""

    def __init__(self, farm: DeviceFarm, gateway: ServiceProcess, pool: Pool) -> None:
        self.farm = farm
        self.gateway = gateway
        self._pool = pool
        place = ("--tenant", TENANT, "--farm", FARM, "--barn", BARN, "--kind", "sensor")
        self.device = farm.told("add", DEVICE, *place)
        self.other = farm.told("add", "other", *place)

    async def publish(self, issued: dict[str, Any], topic: str, body: str, *options: str) -> None:
        await asyncio.to_thread(pub, issued, topic, body, *options)

    async def publish_documents(self) -> None:
        for topic, body in MESSAGES.items():
            await self.publish(self.device, topic, body, *(["-r"] if topic.startswith("iot/status/") else []))

    async def publish_until_stored(self, issued: dict[str, Any], value: float) -> None:
        """A marker behind everything that was sent before it. It is sent again until it is there, as devices do."""
        device_id = issued["device_id"]
        topic, body = (
            f"iot/telemetry/{TENANT}/{FARM}/{BARN}/{device_id}/temperature",
            reading(value, device_id=device_id),
        )

        async def is_stored() -> bool:
            await self.publish(issued, topic, body)
            return bool(await self.count("telemetry_raw", f"metric_value = {value}"))

        await eventually(is_stored, seconds=60, what=f"the marker {value}")

    async def count(self, table: str, where: str = "true") -> int:
        return int(await self._pool.fetchval(f"SELECT count(*) FROM {table} WHERE {where}"))  # noqa: S608 - names of this file

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._pool.fetch(query)]


@pytest.fixture
def edge(farm: DeviceFarm, edge_pool: Pool, edge_url: str, run_folder: Path, tmp_path: Path) -> Iterator[Edge]:
    program("mosquitto_pub")
    environ = {
        "DATABASE_URL": edge_url,
        "MQTT_URL": farm.broker.add_user("gateway", gateway_rights()),
        "ADMIN_TOKEN": "a token for the administrator",
    }
    gateway = ServiceProcess("edge-ingress-gateway", environ, run_folder, tmp_path / "gateway.log").start()
    yield Edge(farm, gateway, edge_pool)
    gateway.kill()


async def test_the_documents_messages_are_stored_once_whatever_is_repeated_killed_or_restarted(edge: Edge) -> None:
    for _ in range(3):
        await edge.publish_documents()
    await edge.publish_until_stored(edge.device, 1)
    edge.gateway.kill()
    await edge.publish_documents()
    edge.gateway.start()
    await edge.publish_until_stored(edge.device, 2)
    await asyncio.to_thread(edge.farm.broker.kill)
    await asyncio.to_thread(edge.farm.start)
    await edge.publish_documents()
    await edge.publish_until_stored(edge.device, 3)
    await asyncio.to_thread(edge.farm.broker.stop)
    await asyncio.to_thread(edge.farm.start)
    await edge.publish_documents()
    await edge.publish_until_stored(edge.device, 4)

    raw = "SELECT id::text, tenant_id, farm_id, barn_id, device_id, metric_type, metric_value, unit FROM telemetry_raw"
    stored = ("temperature", 26.4, "C")
    assert await edge.rows(f"{raw} WHERE id = '{READING_ID}'") == [(READING_ID, TENANT, FARM, BARN, DEVICE, *stored)]
    assert await edge.count("telemetry_raw", f"stream_id = '{STREAM}' AND seq = 1001 AND metric_value = 26.4") == 1
    assert await edge.count("telemetry_raw") == 2 + 4, "the reading, the sample of the batch, and four markers"
    assert await edge.rows("SELECT first_seq, last_seq, reason FROM stream_losses") == [(1, 900, "spool_full")]
    assert await edge.rows("SELECT event_type, count(*) FROM sync_outbox GROUP BY 1 ORDER BY 1") == [
        ("edge.device.registered", 2),
        ("telemetry.batch.ingested", 1),
        ("telemetry.ingested", 1 + 4),
        ("telemetry.loss", 1),
    ]
    assert await edge.rows("SELECT device_id, reported_state FROM device_liveness") == [(DEVICE, "online")]
    assert await edge.count("ingress_rejected") == 0


async def test_another_devices_credential_can_neither_write_nor_read_there(edge: Edge, connect: Connect) -> None:
    operator = connect(edge.farm.broker.url("everything"))
    operator.subscribe("iot/+/ack")
    with sub(edge.other, "#", "iot/#", "iot/+/ack", f"iot/{DEVICE}/ack", "$share/x/iot/#", "iot/other/ack") as spy:
        await edge.publish_until_stored(edge.device, 1)
        topic, ack = operator.hears()
        assert (topic, json.loads(ack)["events"][0]["result"]) == (f"iot/{DEVICE}/ack", "stored")
        operator.publish("iot/other/ack", b"{}")
        assert await asyncio.to_thread(spy.hears) == ("iot/other/ack", "{}"), "nothing of the device came before"
    for topic, body in MESSAGES.items():
        await edge.publish(edge.other, topic, body)
        await edge.publish(edge.other, topic, body, "-r")
    await edge.publish_until_stored(edge.other, 2)
    assert await edge.count("telemetry_raw", f"device_id = '{DEVICE}'") == 1
    assert await edge.count("stream_losses") == 0


@pytest.mark.parametrize(
    "claim", [{"device_id": DEVICE}, {"tenant_id": "another", "device_id": "other"}, {"tenant_id": "another"}]
)
async def test_a_body_that_claims_to_be_another_is_rejected_and_kept_with_the_reason(
    edge: Edge, claim: dict[str, str]
) -> None:
    own = f"iot/telemetry/{TENANT}/{FARM}/{BARN}/other/temperature"
    await edge.publish(edge.other, own, reading(99, **claim))
    await edge.publish_until_stored(edge.other, 1)
    assert await edge.rows("SELECT topic, reason, tenant_id, device_id FROM ingress_rejected") == [
        (own, "topic_mismatch", TENANT, "other")
    ]
    assert await edge.count("telemetry_raw") == await edge.count("telemetry_raw", "device_id = 'other'") == 1


async def test_a_revoked_device_is_heard_no_more(edge: Edge) -> None:
    await edge.publish_until_stored(edge.device, 1)
    await asyncio.to_thread(edge.farm.told, "revoke", DEVICE)
    with pytest.raises(CalledProcessError):
        await edge.publish(edge.device, *next(iter(MESSAGES.items())))
    await edge.publish_until_stored(edge.other, 2)
    assert await edge.count("telemetry_raw", f"device_id = '{DEVICE}'") == 1
