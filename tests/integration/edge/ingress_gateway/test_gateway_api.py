"""The whole service, from a device's message on a real broker to what an operator is told about it."""

from typing import Any

import aiohttp
import pytest

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.main import serve
from farmiq.kit.mqtt import MqttClient
from farmiq.kit.postgres import Pool
from support.mosquitto import Broker
from support.service_process import running
from support.telemetry import raw_message, reading_message
from support.waiting import eventually

TOKEN = "for-this-test-only"


async def ask(url: str, token: str | None = None) -> tuple[int, Any]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.json()


@pytest.fixture
def environ(edge_url: str, mosquitto: Broker) -> dict[str, str]:
    return {"DATABASE_URL": edge_url, "MQTT_URL": mosquitto.url("edge-ingress-gateway"), "ADMIN_TOKEN": TOKEN}


async def test_a_malformed_message_is_counted_kept_and_shown_and_the_next_one_is_stored(
    edge_pool: Pool, mosquitto: Broker, environ: dict[str, str]
) -> None:
    async with edge_pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id="node-1", kind="node"
        )
    device = MqttClient(mosquitto.url("node-1"), client_id="node-1")
    await device.start()
    await device.wait_connected()
    good = reading_message(21.5)
    async with running(serve, "edge-ingress-gateway", environ) as url:

        async def is_subscribed() -> bool:
            await device.publish(good.topic, good.payload)
            return bool((await ask(f"{url}/api/v1/ingress/stats"))[1]["messages_received"])

        await eventually(is_subscribed, what="the gateway to take a message")
        bad = raw_message(good.topic, b'{"event_id": "not an id"}')
        after = reading_message(22.5)
        await device.publish(bad.topic, bad.payload)
        await device.publish(after.topic, after.payload)

        async def is_stored() -> bool:
            return bool(await edge_pool.fetchval("SELECT count(*) = 2 FROM telemetry_raw"))

        await eventually(is_stored, what="the message after the bad one")
        _, stats = await ask(f"{url}/api/v1/ingress/stats")
        assert (stats["samples_stored"], stats["rejected"]) == (2, 1)
        _, answer = await ask(f"{url}/api/v1/ingress/rejected?tenant_id=demo", TOKEN)
        (kept,) = answer["rejected"]
        assert (kept["reason"], kept["topic"], kept["device_id"]) == ("schema", bad.topic, "node-1")
        assert "event_id" in kept["detail"]
        assert (await ask(f"{url}/api/v1/ingress/rejected?tenant_id=other", TOKEN))[1] == {"rejected": []}
        assert (await ask(f"{url}/api/v1/ingress/rejected"))[0] == 401
    await device.stop()
