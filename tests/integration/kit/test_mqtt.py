"""What `kit.mqtt` promises, against a real Mosquitto that is restarted, killed and frozen under it."""

import asyncio
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from farmiq.kit import mqtt
from farmiq.kit.mqtt import BrokerAway, Message, MqttClient, Will
from farmiq.stack.mosquitto import WINDOW_MESSAGES, Mosquitto
from farmiq.stack.mosquitto_users import MqttUser, set_users
from farmiq.stack.ports import free_port
from support.mosquitto import EVERYTHING, Broker
from support.server_process import ServerProcess
from support.waiting import eventually

NewClient = Callable[..., Awaitable[MqttClient]]


@pytest.fixture
async def new_client(mosquitto: Broker) -> AsyncIterator[NewClient]:
    """A client of the test's own broker, connected and with its subscriptions in force. Stopped after the test."""
    made: list[MqttClient] = []

    async def make(client_id: str, *topics: str, **options: Any) -> MqttClient:
        client = MqttClient(mosquitto.url("tester"), client_id=client_id, subscriptions=topics, **options)
        made.append(client)
        await client.start()
        async with asyncio.timeout(20):
            await client.wait_connected()
        return client

    yield make
    await asyncio.gather(*(client.stop() for client in made))


class TlsMosquitto(Mosquitto):
    """The broker of the stack with a certificate, as it is off the box."""

    def prepare(self) -> None:
        super().prepare()
        settings = self.folder / "mosquitto.conf"
        folder = self.folder.parent
        keys = f"certfile {folder / 'server.pem'}\nkeyfile {folder / 'server.key'}\n"
        settings.write_text(settings.read_text(encoding="utf-8") + keys, encoding="utf-8")

    async def probe(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), 5):
            pass


@pytest.fixture
def tls_broker(run_folder: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a broker with TLS, and the certificate to trust."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed, and the broker needs a certificate: apt-get install openssl")
    command = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "server.key"), "-out", str(tmp_path / "server.pem")]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    server = TlsMosquitto(tmp_path / "mosquitto", free_port(), "probe-password")
    set_users(server.folder, MqttUser("tester", "test-password", EVERYTHING))
    process = ServerProcess(server, run_folder, tmp_path / "mosquitto.log")
    process.start()
    yield server.url("tester", "test-password").replace("mqtt://", "mqtts://"), tmp_path / "server.pem"
    process.stop()


async def take(client: MqttClient, count: int, seconds: float = 20.0) -> list[Message]:
    """Exactly `count` messages; more would be taken by the next call, and nothing is acknowledged."""
    taken: list[Message] = []
    async with asyncio.timeout(seconds):
        while len(taken) < count:
            taken += await client.next_batch(count - len(taken), 0.05)
    return taken


async def publish_when_connected(client: MqttClient, topic: str, payload: bytes) -> None:
    async with asyncio.timeout(20):
        await client.wait_connected()
        await client.publish(topic, payload)


def payloads(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]


def numbered(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


@asynccontextmanager
async def killed_after(line: bytes, *arguments: str) -> AsyncIterator[None]:
    """Runs the taker beside the block, which may go on when the taker has said `line`; then kills it with -9."""
    program = str(Path(__file__).with_name("mqtt_taker.py"))
    process = await asyncio.create_subprocess_exec(sys.executable, program, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(20):
            await _read_until(process, b"connected\n")
            yield
            if line != b"connected\n":
                await _read_until(process, line)
    finally:
        process.kill()
        await process.wait()


async def _read_until(process: asyncio.subprocess.Process, line: bytes) -> None:
    """Log lines may come in between."""
    assert process.stdout is not None
    while await process.stdout.readline() != line:
        assert not process.stdout.at_eof()


async def test_what_a_killed_client_did_not_acknowledge_is_delivered_again(
    mosquitto: Broker, new_client: NewClient
) -> None:
    sender = await new_client("sender")
    async with killed_after(b"taken\n", mosquitto.url("tester"), "gateway", "farm/#", "5", "will"):
        for payload in numbered(5):
            await sender.publish("farm/a", payload)

    successor = await new_client("gateway", "farm/#")
    again = await take(successor, 5)

    assert payloads(again) == numbered(5)
    assert all(message.is_redelivered for message in again)


async def test_what_was_acknowledged_is_not_delivered_again(new_client: NewClient) -> None:
    sender = await new_client("sender")
    first = await new_client("gateway", "farm/#")
    for payload in numbered(6):
        await sender.publish("farm/a", payload)
    taken = await take(first, 6)
    first.acknowledge(taken[::2])
    await first.stop()

    second = await new_client("gateway", "farm/#")
    again = await take(second, 3)
    await sender.publish("farm/a", b"marker")

    assert payloads(again) == [b"1", b"3", b"5"]
    assert payloads(await take(second, 1)) == [b"marker"]


async def test_acknowledging_a_message_of_an_older_connection_acknowledges_nothing(
    mosquitto: Broker, new_client: NewClient
) -> None:
    sender = await new_client("sender")
    gateway = await new_client("gateway", "farm/#")
    await sender.publish("farm/a", b"reading")
    [old] = await take(gateway, 1)
    await asyncio.to_thread(mosquitto.restart)
    [new] = await take(gateway, 1)

    gateway.acknowledge([old])
    await gateway.stop()
    successor = await new_client("gateway", "farm/#")

    assert (old.payload, new.payload) == (b"reading", b"reading")
    assert new.connection > old.connection
    assert payloads(await take(successor, 1)) == [b"reading"]


async def test_messages_not_yet_taken_when_the_connection_ends_come_once_and_can_be_acknowledged(
    mosquitto: Broker, new_client: NewClient
) -> None:
    sender = await new_client("sender")
    gateway = await new_client("gateway", "farm/#")
    for payload in numbered(5):
        await sender.publish("farm/a", payload)
    await take(gateway, 1)  # the other four are here too, or on their way
    await asyncio.to_thread(mosquitto.restart)
    await eventually(lambda: _has_reconnected(gateway))

    again = await take(gateway, 5)
    gateway.acknowledge(again)
    await publish_when_connected(sender, "farm/a", b"marker")

    assert payloads(again) == numbered(5)
    assert payloads(await take(gateway, 1)) == [b"marker"]


async def test_every_publish_during_restarts_ends_and_what_was_confirmed_arrives(
    mosquitto: Broker, new_client: NewClient
) -> None:
    sender = await new_client("sender", inflight_max=20)
    gateway = await new_client("gateway", "farm/#")
    confirmed: set[bytes] = set()
    away = 0
    is_over = asyncio.Event()

    async def publish_for_ever(name: str) -> None:
        nonlocal away
        number = 0
        while not is_over.is_set():
            number += 1
            payload = f"{name}-{number}".encode()
            try:
                await sender.publish("farm/a", payload)
                confirmed.add(payload)
            except BrokerAway:
                away += 1
                await asyncio.sleep(0.02)

    async with asyncio.timeout(40):
        publishing = [asyncio.create_task(publish_for_ever(str(name))) for name in range(10)]
        for _ in range(2):
            count = len(confirmed)
            await eventually(lambda: _is_true(len(confirmed) > count + 20))  # noqa: B023 - awaited at once
            await asyncio.to_thread(mosquitto.restart)
        is_over.set()
        await asyncio.gather(*publishing)

    received: set[bytes] = set()
    while not confirmed <= received:
        batch = await take(gateway, 1)
        gateway.acknowledge(batch)
        received |= set(payloads(batch))
    assert away > 0


async def test_a_publish_that_raised_is_not_sent_behind_the_callers_back(
    mosquitto: Broker, new_client: NewClient
) -> None:
    sender = await new_client("sender", clean_session=False)
    watcher = await new_client("watcher", "farm/#")
    mosquitto.pause()  # the kernel takes the packet for it; the broker never reads it
    publishing = asyncio.create_task(sender.publish("farm/a", b"given up"))
    await asyncio.sleep(0)
    mosquitto.kill()

    with pytest.raises(BrokerAway):
        await asyncio.wait_for(publishing, 20)
    await asyncio.to_thread(mosquitto.start)
    await eventually(lambda: _is_true(sender.connections == watcher.connections == 2))
    await sender.publish("farm/a", b"marker")

    assert payloads(await take(watcher, 1)) == [b"marker"]


async def test_a_frozen_broker_is_noticed_and_the_publish_ends(mosquitto: Broker, new_client: NewClient) -> None:
    sender = await new_client("sender", keepalive_seconds=1)
    mosquitto.pause()
    try:
        with pytest.raises(BrokerAway, match="stopped answering"):
            await asyncio.wait_for(sender.publish("farm/a", b"reading"), 20)
    finally:
        mosquitto.resume()
    await publish_when_connected(sender, "farm/a", b"reading")


async def test_a_broker_that_is_away_at_the_start_is_waited_for(mosquitto: Broker) -> None:
    url = mosquitto.url("tester")
    mosquitto.stop()
    client = MqttClient(url, client_id="early")
    woken = asyncio.Event()
    client.on_connect.append(woken.set)
    await client.start()
    with pytest.raises(BrokerAway):
        await client.publish("farm/a", b"too early")
    await asyncio.to_thread(mosquitto.start)

    await asyncio.wait_for(woken.wait(), 20)
    await client.publish("farm/a", b"in time")

    assert (client.is_connected, client.connections) == (True, 1)
    await client.stop()
    assert not client.is_connected


async def test_subscriptions_are_made_again_when_the_broker_lost_the_session(
    mosquitto: Broker, new_client: NewClient
) -> None:
    sender = await new_client("sender")
    gateway = await new_client("gateway", "farm/#", "barn/#")
    mosquitto.kill()  # before its first snapshot, so it comes back without any session
    await asyncio.to_thread(mosquitto.start)
    await eventually(lambda: _has_reconnected(gateway))

    await publish_when_connected(sender, "farm/a", b"one")
    await sender.publish("barn/a", b"two")

    assert payloads(await take(gateway, 2)) == [b"one", b"two"]


async def test_a_new_process_brings_its_own_subscriptions_into_a_kept_session(new_client: NewClient) -> None:
    sender = await new_client("sender")
    old = await new_client("gateway", "farm/#")
    await old.stop()
    new = await new_client("gateway", "farm/#", "barn/#")

    await sender.publish("barn/a", b"reading")

    assert payloads(await take(new, 1)) == [b"reading"]


async def test_the_will_of_a_killed_client_is_published(mosquitto: Broker, new_client: NewClient) -> None:
    watcher = await new_client("watcher", "status/node-1")

    async with killed_after(b"connected\n", mosquitto.url("tester"), "node-1", "farm/#", "1", "status/node-1"):
        pass

    [will] = await take(watcher, 1)
    assert (will.payload, will.topic) == (b"offline", "status/node-1")


async def test_the_will_of_a_client_that_said_goodbye_is_not_published(new_client: NewClient) -> None:
    watcher = await new_client("watcher", "status/node-1")
    node = await new_client("node-1", will=Will("status/node-1", b"offline"))
    await node.stop()
    sender = await new_client("sender")
    await sender.publish("status/node-1", b"marker")

    assert payloads(await take(watcher, 1)) == [b"marker"]


async def test_two_clients_of_a_shared_subscription_get_each_message_once(new_client: NewClient) -> None:
    sender = await new_client("sender")
    replicas = [await new_client(f"gateway-{number}", "$share/gateways/farm/#") for number in range(2)]
    shares: list[list[bytes]] = [[], []]

    async def read(replica: MqttClient, share: list[bytes]) -> None:
        while batch := await replica.next_batch(100, 0.05):
            replica.acknowledge(batch)
            share += payloads(batch)

    reading = [asyncio.create_task(read(*pair)) for pair in zip(replicas, shares, strict=True)]
    await asyncio.gather(*(sender.publish("farm/a", payload) for payload in numbered(200)))
    await eventually(lambda: _is_true(len(shares[0]) + len(shares[1]) >= 200))
    for replica in replicas:
        await replica.stop()
    await asyncio.gather(*reading)

    assert sorted(shares[0] + shares[1]) == sorted(numbered(200))
    assert all(shares)


async def test_batches_are_filled_up_to_their_limit_and_cancelling_loses_nothing(new_client: NewClient) -> None:
    sender = await new_client("sender")
    gateway = await new_client("gateway", "farm/#")
    waiting = asyncio.create_task(gateway.next_batch(10, 0.05))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(*(sender.publish("farm/a", payload) for payload in numbered(10)))

    sizes = [len(await asyncio.wait_for(gateway.next_batch(4, 5.0), 20)) for _ in range(2)]
    rest = await take(gateway, 2)

    assert sizes == [4, 4]
    assert payloads(rest) == [b"8", b"9"]


async def test_unacknowledged_messages_never_exceed_the_brokers_window(
    mosquitto: Broker, new_client: NewClient
) -> None:
    sender = await new_client("sender", inflight_max=500)
    gateway = await new_client("gateway", "farm/#")
    await asyncio.gather(*(sender.publish("farm/a", b"x") for _ in range(WINDOW_MESSAGES + 500)))

    first = await gateway.next_batch(2 * WINDOW_MESSAGES, 5.0)
    gateway.acknowledge(first)
    second = await take(gateway, WINDOW_MESSAGES + 500 - len(first))

    assert len(first) == WINDOW_MESSAGES
    assert len(second) == 500


async def test_qos_0_messages_beyond_the_limit_are_dropped_and_counted_and_qos_1_messages_are_not(
    new_client: NewClient,
) -> None:
    sender = await new_client("sender", inflight_max=500)
    gateway = await new_client("gateway", "farm/#")
    with capture_logs() as lines:
        await asyncio.gather(*(sender.publish("farm/a", b"x", qos=0) for _ in range(mqtt.UNTAKEN_MAX + 300)))
        await sender.publish("farm/a", b"marker")
        await eventually(lambda: _is_true(gateway.dropped == 300))

    kept = await take(gateway, mqtt.UNTAKEN_MAX + 1)

    assert kept[-1].payload == b"marker"
    assert [line["event"] for line in lines].count("mqtt_qos0_dropped") == 1


async def test_a_refused_login_is_explained_once_and_tried_until_the_password_is_known(mosquitto: Broker) -> None:
    with capture_logs() as lines:
        client = MqttClient(mosquitto.server.url("node-1", "right-password"), client_id="node-1")
        await client.start()
        await eventually(lambda: _is_true(lines))
        set_users(mosquitto.server.folder, MqttUser("node-1", "right-password", EVERYTHING))
        await asyncio.to_thread(mosquitto.restart)
        await asyncio.wait_for(client.wait_connected(), 20)
        await client.stop()

    assert (lines[0]["event"], lines[0]["log_level"]) == ("mqtt_connect_failed", "error")
    assert "user node-1: check user and password in MQTT_URL" in lines[0]["reason"]
    assert len([line for line in lines if "password" in line.get("reason", "")]) == 1
    assert "right-password" not in repr(lines)


async def test_two_clients_with_one_id_throw_each_other_out_more_and_more_slowly(new_client: NewClient) -> None:
    started = time.monotonic()
    one = await new_client("twin")
    two = await new_client("twin")
    await eventually(lambda: _is_true(min(one.connections, two.connections) >= 5), seconds=60)

    # Thrown out four times, each waited at least half of 0.1, 0.2, 0.4 and 0.8 s before it came back.
    assert time.monotonic() - started >= 0.75


# paho leaves the socket of a failed handshake to be closed by the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_certificate_of_a_stranger_is_refused_and_the_right_one_is_accepted(
    tls_broker: tuple[str, Path],
) -> None:
    url, authority = tls_broker
    stranger = MqttClient(url, client_id="node-1", clean_session=True)
    friend = MqttClient(
        url, client_id="node-2", clean_session=True, tls_context=ssl.create_default_context(cafile=str(authority))
    )
    with capture_logs() as lines:
        await stranger.start()
        await friend.start()
        await asyncio.wait_for(friend.wait_connected(), 20)
        await friend.publish("farm/a", b"x" * 100_000)
        await eventually(lambda: _is_true("CERTIFICATE_VERIFY_FAILED" in repr(lines)))
    await asyncio.gather(stranger.stop(), friend.stop())

    assert not stranger.connections


async def _is_true(fact: object) -> bool:
    return bool(fact)


async def _has_reconnected(client: MqttClient) -> bool:
    return client.connections >= 2 and client.is_connected
