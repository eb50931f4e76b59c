"""What Mosquitto with an access file never does, and other brokers do: played by a scripted peer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from farmiq.kit.mqtt import BrokerAway, MqttClient
from support.waiting import eventually

CONNACK = b"\x20\x02\x00\x00"
DISCONNECT = b"\xe0"
SERVER_UNAVAILABLE = b"\x20\x02\x00\x03"


@asynccontextmanager
async def scripted(answer: Callable[[int, bytes], bytes]) -> AsyncIterator[str]:
    """A peer that answers each packet, given its first byte and its rest, with some bytes. Yields its URL."""
    writers: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while (first := await reader.read(1)) and first != DISCONNECT:
                length = (await reader.readexactly(1))[0]  # short packets only
                writer.write(answer(first[0], await reader.readexactly(length)))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client hung up, which is its right
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"mqtt://node-1:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()


def refuse_second_filter(first: int, rest: bytes) -> bytes:
    if first >> 4 == 1:
        return CONNACK
    if first >> 4 == 8:
        return b"\x90\x04" + rest[:2] + b"\x01\x80"
    return b""


async def test_a_refused_subscription_is_named_and_the_client_does_not_count_as_connected() -> None:
    async with scripted(refuse_second_filter) as url:
        client = MqttClient(url, client_id="gateway", subscriptions=["farm/#", "secret/#"])
        with capture_logs() as lines:
            await client.start()
            await eventually(lambda: _logged(lines, "refused the subscription to secret/#"))
        with pytest.raises(BrokerAway):
            await client.publish("farm/a", b"x")
        await client.stop()

    assert not client.connections
    assert {line["log_level"] for line in lines} == {"error"}


async def test_a_broker_that_refuses_for_other_reasons_is_quoted_and_tried_again() -> None:
    attempts = 0

    def refuse_once(first: int, rest: bytes) -> bytes:
        nonlocal attempts
        if first >> 4 != 1:
            return b""
        attempts += 1
        return SERVER_UNAVAILABLE if attempts == 1 else CONNACK

    async with scripted(refuse_once) as url:
        client = MqttClient(url, client_id="gateway")
        with capture_logs() as lines:
            await client.start()
            await asyncio.wait_for(client.wait_connected(), 20)
        await client.stop()

    assert "Server unavailable" in lines[0]["reason"]


@pytest.mark.parametrize("noise", [b"\xff" * 64, b"\x30\x00", b"\x20\x01\x00", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_a_peer_that_speaks_no_mqtt_does_not_end_the_client(noise: bytes) -> None:
    attempts = 0

    def talk_nonsense_once(first: int, rest: bytes) -> bytes:
        nonlocal attempts
        if first >> 4 != 1:
            return b""
        attempts += 1
        return noise if attempts == 1 else CONNACK

    async with scripted(talk_nonsense_once) as url:
        client = MqttClient(url, client_id="gateway", keepalive_seconds=1)
        await client.start()
        await asyncio.wait_for(client.wait_connected(), 20)
        await client.stop()

    assert attempts == 2


async def _logged(lines: Sequence[Mapping[str, Any]], text: str) -> bool:
    return any(text in line.get("reason", "") for line in lines)
