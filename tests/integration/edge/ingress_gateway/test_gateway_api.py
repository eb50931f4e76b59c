"""The whole service, from a device's message on a real broker to what an operator is told about it."""

from typing import Any
from uuid import UUID

import aiohttp
import msgspec
import pytest

from farmiq.contracts.ack import DeviceAck
from farmiq.edge.ingress_gateway.api import PAYLOAD_SHOWN_BYTES
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.edge.ingress_gateway.main import serve
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message, MqttClient
from farmiq.kit.postgres import Pool
from support.ack_listener import AckListener
from support.gateway import SERVICE, Crowd, as_sent, register, until_rows
from support.mosquitto import Broker
from support.service_process import running
from support.telemetry import HERE, NOW, raw_message, reading_message
from support.waiting import eventually

TOKEN = "for-this-test-only"


async def ask(url: str, token: str | None = None) -> tuple[int, Any]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.json()


@pytest.fixture
def environ(edge_url: str, mosquitto: Broker) -> dict[str, str]:
    return {"DATABASE_URL": edge_url, "MQTT_URL": mosquitto.url(SERVICE), "ADMIN_TOKEN": TOKEN}


async def test_a_malformed_message_is_counted_kept_and_shown_and_the_next_one_is_stored(
    edge_pool: Pool, mosquitto: Broker, environ: dict[str, str]
) -> None:
    await register(edge_pool)
    device = MqttClient(mosquitto.url("node-1"), client_id="node-1")
    await device.start()
    await device.wait_connected()
    good = reading_message(21.5)
    async with running(serve, SERVICE, environ) as url:

        async def is_subscribed() -> bool:
            await device.publish(good.topic, good.payload)
            return bool((await ask(f"{url}/api/v1/ingress/stats", TOKEN))[1]["messages_received"])

        await eventually(is_subscribed, what="the gateway to take a message")
        bad = raw_message(good.topic, b'{"event_id": "not an id"}')
        after = reading_message(22.5)
        await device.publish(bad.topic, bad.payload)
        await device.publish(after.topic, after.payload)

        async def is_stored() -> bool:
            return bool(await edge_pool.fetchval("SELECT count(*) = 2 FROM telemetry_raw"))

        await eventually(is_stored, what="the message after the bad one")
        _, stats = await ask(f"{url}/api/v1/ingress/stats", TOKEN)
        assert (stats["samples_stored"], stats["rejected"]) == (2, 1)
        _, answer = await ask(f"{url}/api/v1/ingress/rejected?tenant_id=demo", TOKEN)
        (kept,) = answer["rejected"]
        assert (kept["reason"], kept["topic"], kept["device_id"]) == ("schema", bad.topic, "node-1")
        assert "event_id" in kept["detail"]
        assert (await ask(f"{url}/api/v1/ingress/rejected?tenant_id=other", TOKEN))[1] == {"rejected": [], "next": None}
    await device.stop()


async def test_a_made_trace_id_is_in_the_row_that_goes_to_the_cloud_and_in_the_log(
    edge_pool: Pool, mosquitto: Broker, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    await register(edge_pool)
    good = reading_message(21.5)
    fields = {name: value for name, value in msgspec.json.decode(good.payload).items() if name != "trace_id"}
    async with running(serve, SERVICE, environ) as url, Crowd(mosquitto, 1) as crowd:
        await eventually(lambda: is_ready(url), what="the gateway to be subscribed")
        await crowd.publish([(good.topic, msgspec.json.encode(fields))])
        await until_rows(edge_pool, "sync_outbox", 1)
        trace_id = await edge_pool.fetchval("SELECT trace_id FROM sync_outbox")
        assert len(trace_id) == 32

        async def is_logged() -> bool:
            logged.append(capsys.readouterr().out)
            return any("trace_id_made" in line and trace_id in line for line in "".join(logged).splitlines())

        logged: list[str] = []
        await eventually(is_logged, what="the log line")


async def is_ready(url: str) -> bool:
    return (await ask(f"{url}/api/ready"))[0] == 200


async def refuse_many(pool: Pool, count: int) -> list[bytes]:
    """Newest first. Ten at a time share their moment, as those of one micro-batch do."""
    payloads = []
    for number in range(count):
        message = raw_message("iot/telemetry/demo/farm-1/barn-1/node-1/temperature", b"\x00\xff<b>%d" % number)
        payloads.append(message.payload)
        if number % 10 == 9:
            await ingest(pool, [raw_message(message.topic, payload) for payload in payloads[-10:]], NOW)
            await pool.execute("UPDATE ingress_rejected SET received_at = received_at - interval '1 second'")
    return payloads


async def test_rejected_messages_are_paged_by_key_and_each_comes_once(edge_pool: Pool, environ: dict[str, str]) -> None:
    await refuse_many(edge_pool, 50)
    async with running(serve, SERVICE, environ) as url:
        pages: list[list[Any]] = []
        after = ""
        while True:
            _, answer = await ask(f"{url}/api/v1/ingress/rejected?tenant_id=demo&limit=7{after}", TOKEN)
            pages.append(answer["rejected"])
            if answer["next"] is None:
                break
            after = f"&after={answer['next']}"
            # What comes in while somebody turns pages moves nothing on them.
            await ingest(edge_pool, [raw_message("iot/telemetry/demo/farm-1/barn-1/node-1/batch", b"new")], NOW)
        seen = [message for page in pages for message in page]
        assert [len(page) for page in pages] == [7] * 7 + [1]
        assert len({message["id"] for message in seen}) == 50
        assert [message["received_at"] for message in seen] == sorted(
            (message["received_at"] for message in seen), reverse=True
        )


async def test_what_a_device_sent_is_shown_on_request_only_and_cannot_be_mistaken_for_anything_else(
    edge_pool: Pool, environ: dict[str, str]
) -> None:
    await refuse_many(edge_pool, 10)
    await ingest(edge_pool, [raw_message("nowhere", "\u202e".encode() * 1000)], NOW)
    async with running(serve, SERVICE, environ) as url:
        _, answer = await ask(f"{url}/api/v1/ingress/rejected", TOKEN)
        assert all(
            "payload" not in name or name == "payload_size_bytes" for message in answer["rejected"] for name in message
        )
        first = answer["rejected"][0]
        assert (first["tenant_id"], first["reason"], first["payload_size_bytes"]) == (None, "bad_topic", 3000)
        status, shown = await ask(f"{url}/api/v1/ingress/rejected/{first['id']}", TOKEN)
        assert (status, shown["message"]) == (200, first)
        assert shown["payload_beginning"] == ("\\xe2\\x80\\xae" * 1000)[: 4 * PAYLOAD_SHOWN_BYTES]
        second = answer["rejected"][1]["id"]
        _, shown = await ask(f"{url}/api/v1/ingress/rejected/{second}", TOKEN)
        assert shown["payload_beginning"].startswith("\\x00\\xff<b>")


QUESTIONS = {
    "rejected?limit=0": 400,
    "rejected?limit=1001": 400,
    "rejected?tenant_id=%00": 400,
    "rejected?tenant_id=a/b": 400,
    "rejected?reason=%00": 400,
    "rejected?after=nonsense": 400,
    "rejected?after=WyIyMDI2LTExLTE2VDA4OjAwOjAwWiJd": 400,
    "rejected/0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e5f": 404,
    "rejected/7": 404,
    "rejected?reason=schema": 200,
    "stats": 200,
}


async def test_a_wrong_question_is_told_apart_from_a_failure_and_answers_are_for_operators(
    environ: dict[str, str],
) -> None:
    async with running(serve, SERVICE, environ) as url:
        for path, status in QUESTIONS.items():
            given, answer = await ask(f"{url}/api/v1/ingress/{path}", TOKEN)
            assert (given, "error" in answer) == (status, status != 200), path
        for path in ("rejected", "rejected/0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e5f"):
            for token in (None, "", "wrong", TOKEN + "x"):
                assert (await ask(f"{url}/api/v1/ingress/{path}", token))[0] == 401, (path, token)


async def test_what_the_cloud_is_told_can_be_asked(environ: dict[str, str]) -> None:
    async with running(serve, SERVICE, environ | {"TELEMETRY_SYNC_MODE": "both"}) as url:
        assert await ask(f"{url}/api/v1/ingress/sync-plan", TOKEN) == (
            200,
            {"mode": "both", "window": "1m", "settle_seconds": 30},
        )
        assert (await ask(f"{url}/api/v1/ingress/sync-plan"))[0] == 401


async def test_acknowledgements_number_the_transactions_behind_them(
    edge_pool: Pool, mosquitto: Broker, environ: dict[str, str]
) -> None:
    """promise-device-edge 4: a station finds out by the number that its edge has lost commits under the same epoch."""
    await register(edge_pool)
    acks: list[DeviceAck] = []
    commits = []
    async with (
        running(serve, SERVICE, environ),
        AckListener(mosquitto, "ears", "iot/+/ack", acks.append),
        Crowd(mosquitto, 1) as crowd,
    ):
        for value in (21.5, 22.5):
            event_id = new_id()
            message = reading_message(value, HERE, event_id)

            def acknowledged(event_id: UUID = event_id) -> list[DeviceAck]:
                return [ack for ack in acks if event_id in {event.event_id for event in ack.events}]

            async def is_acknowledged(message: Message = message) -> bool:
                await crowd.publish(as_sent([message]))
                return bool(acknowledged())

            await eventually(is_acknowledged, what="the reading to be acknowledged")
            commits.append(acknowledged()[-1].commits)
    first, second = commits
    assert isinstance(first, int)
    assert isinstance(second, int)
    assert 0 < first < second
