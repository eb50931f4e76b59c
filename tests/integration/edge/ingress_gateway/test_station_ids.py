"""A weigh station's name is provisioned with its device, and checked in the topic."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from farmiq.contracts import event_types
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import mqtt_envelope
from farmiq.contracts.weighvision import WeightRecorded
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.broker_logins import login_of
from farmiq.edge.ingress_gateway.devices import Credential, Device
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.telemetry import raw_message


async def add(pool: Pool, device_id: str, station_id: str | None, kind: str = "weigh-station") -> Device:
    async with pool.acquire() as connection:
        origin = Origin("demo", "farm-1", "barn-1", device_id)
        return await devices.add(connection, origin, kind, Credential("$7$x", device_id), station_id)


def weight(station_id: str, device_id: str) -> Message:
    envelope = mqtt_envelope(
        WeightRecorded(weight_kg=87.09), event_id=new_id(), event_type=event_types.WEIGHT_RECORDED, tenant_id="demo",
        device_id=device_id, ts=datetime.now(UTC),
    )  # fmt: skip
    topic = f"iot/weighvision/demo/farm-1/barn-1/{station_id}/session/{uuid4()}/{event_types.WEIGHT_RECORDED}"
    return raw_message(topic, encode(envelope))


async def test_a_station_speaks_under_the_name_that_was_provisioned_with_its_device(edge_pool: Pool) -> None:
    await add(edge_pool, "camera-7", "scale-a")
    await add(edge_pool, "camera-8", "scale-b")
    await add(edge_pool, "old-1", None)
    for station_id, device_id, reason in (
        ("scale-a", "camera-7", None),
        ("old-1", "old-1", None),
        ("scale-b", "camera-7", "topic_mismatch"),
        ("camera-7", "camera-7", "topic_mismatch"),
        ("scale-a", "old-1", "topic_mismatch"),
        ("scale-a", "nobody", "not_provisioned"),
    ):
        (outcome,) = await ingest(edge_pool, [weight(station_id, device_id)], datetime.now(UTC))
        assert [refusal.code for refusal in outcome.refusals] == ([] if reason is None else [reason]), station_id
        assert {refusal.device_id for refusal in outcome.refusals} <= {station_id}, (
            "nobody is answered for somebody else"
        )
    rows = await edge_pool.fetch("SELECT device_id FROM sync_outbox WHERE event_type LIKE 'weighvision.%' ORDER BY 1")
    assert [row["device_id"] for row in rows] == ["camera-7", "old-1"]


async def test_a_name_belongs_to_one_station_of_a_barn_and_to_stations_alone(edge_pool: Pool) -> None:
    await add(edge_pool, "camera-7", "scale-a")
    await add(edge_pool, "node-7", None, "node")
    for device_id, station_id, kind in (
        ("camera-8", "scale-a", "weigh-station"),
        ("camera-8", "node-7", "weigh-station"),
        ("scale-a", None, "weigh-station"),
        ("scale-a", None, "node"),
    ):
        with pytest.raises(devices.StationTaken):
            await add(edge_pool, device_id, station_id, kind)
    with pytest.raises(devices.NoStation):
        await add(edge_pool, "node-1", "scale-b", "node")


async def test_the_broker_lets_a_station_write_under_its_own_name_alone(edge_pool: Pool) -> None:
    login = login_of(await add(edge_pool, "camera-7", "scale-a"), "$7$x")
    topics = [right.topic for right in login.rights if right.kind == "publishClientSend"]
    assert [topic for topic in topics if "weighvision" in topic] == [
        "iot/weighvision/demo/farm-1/barn-1/scale-a/session/+/+"
    ]
    assert "iot/event/demo/farm-1/barn-1/camera-7/+" in topics
