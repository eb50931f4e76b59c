import asyncio
import queue
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties

from farmiq.stack.mosquitto import MqttRefused, log_in
from farmiq.stack.mosquitto_users import device_rules, gateway_rules
from support.mosquitto import Broker
from support.waiting import wait_for

Connect = Callable[..., "Client"]


class Client:
    """A paho client that keeps what it hears."""

    def __init__(self, url: str, client_id: str = "", clean: bool = True, will: str | None = None) -> None:
        self.heard: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.disconnects = 0
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=clean)
        self.paho.on_message = lambda _client, _data, message: self.heard.put((message.topic, bytes(message.payload)))
        self.paho.on_disconnect = self._count_disconnect
        if will:
            self.paho.will_set(will, b"will", qos=1)
        parts = urlsplit(url)
        self.paho.username_pw_set(parts.username, parts.password)
        self.paho.connect("127.0.0.1", parts.port or 0)
        self.paho.loop_start()
        wait_for(self.paho.is_connected, what="the connection")

    def subscribe(self, topic: str) -> None:
        done: queue.Queue[None] = queue.Queue()
        self.paho.on_subscribe = lambda *_: done.put(None)
        self.paho.subscribe(topic, qos=1)
        done.get(timeout=10)

    def publish(self, topic: str, payload: bytes = b"x", retain: bool = False) -> None:
        """Returns when the broker has acknowledged, which it also does for a message that it then drops."""
        self.paho.publish(topic, payload, qos=1, retain=retain).wait_for_publish(10)

    def hears(self) -> tuple[str, bytes]:
        return self.heard.get(timeout=10)

    def _count_disconnect(
        self, _client: paho.Client, _data: object, _flags: object, _code: object, _properties: Properties | None
    ) -> None:
        self.disconnects += 1

    def close(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def vanish(self) -> None:
        """Breaks the connection without a goodbye, so that the broker sends the will."""
        sock = self.paho.socket()
        assert sock is not None
        self.paho.loop_stop()
        sock.close()


@pytest.fixture
def connect() -> Iterator[Connect]:
    clients: list[Client] = []

    def make(url: str, client_id: str = "", clean: bool = True, will: str | None = None) -> Client:
        clients.append(Client(url, client_id, clean, will))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def farm(mosquitto: Broker) -> Broker:
    mosquitto.add_user("gateway", gateway_rules())
    mosquitto.add_user("node-a", device_rules("t", "f", "b", "node-a"))
    mosquitto.add_user("node-b", device_rules("t", "f", "b", "node-b"))
    return mosquitto


async def test_nobody_gets_in_without_the_right_password(mosquitto: Broker) -> None:
    mosquitto.add_user("somebody")
    for user, password in (("somebody", "wrong"), ("nobody", "x"), ("", "")):
        with pytest.raises(MqttRefused):
            await log_in("127.0.0.1", mosquitto.port, user, password)


async def test_anonymous_clients_are_refused(mosquitto: Broker) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", mosquitto.port)
    writer.write(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00")
    assert await reader.readexactly(4) == b"\x20\x02\x00\x05"  # not authorised
    writer.close()


OWN = ["iot/telemetry/t/f/b/node-a/temperature", "iot/event/t/f/b/node-a/door.opened", "iot/status/t/f/b/node-a",
       "iot/weighvision/t/f/b/node-a/session/s1/weighvision.session.created"]  # fmt: skip
NOT_OWN = [
    "iot/telemetry/t/f/b/node-b/temperature", "iot/telemetry/t/f/other/node-a/x", "iot/telemetry/t2/f/b/node-a/x",
    "iot/event/t/f/b/node-b/door.opened", "iot/status/t/f/b/node-b", "iot/status/t/f/b/node-a/more",
    "iot/weighvision/t/f/b/node-b/session/s1/x", "iot/node-a/ack", "iot/node-b/ack", "elsewhere",
]  # fmt: skip


def test_a_device_speaks_for_itself_alone(farm: Broker, connect: Connect) -> None:
    everything = connect(farm.url("listener"))
    everything.subscribe("#")
    node = connect(farm.url("node-a"))
    for topic in NOT_OWN:
        node.publish(topic)
        node.publish(topic, retain=True)
    for topic in OWN:
        node.publish(topic)
    # Delivery keeps the order of one publisher: had one of the forbidden ones passed, it would come first.
    assert [everything.hears()[0] for _ in OWN] == OWN


def test_a_device_hears_nothing_but_its_own_acknowledgements(farm: Broker, connect: Connect) -> None:
    node = connect(farm.url("node-a"))
    for topic in ("#", "+/+/ack", "iot/node-b/ack", "iot/node-a/ack", "$share/g/iot/#", "$SYS/#"):
        node.subscribe(topic)
    other = connect(farm.url("speaker"))
    for topic in ("iot/node-b/ack", "iot/telemetry/t/f/b/node-b/x", "iot/telemetry/t/f/b/node-a/x", "elsewhere"):
        other.publish(topic)
    other.publish("iot/node-a/ack", b"last")
    assert node.hears() == ("iot/node-a/ack", b"last")


def test_the_will_of_a_device_obeys_the_same_rules(farm: Broker, connect: Connect) -> None:
    everything = connect(farm.url("listener"))
    everything.subscribe("#")
    # The same client id again: by then the broker has dealt with the end of the first connection.
    connect(farm.url("node-a"), client_id="a", will="iot/status/t/f/b/node-b").vanish()
    connect(farm.url("node-a"), client_id="a", will="iot/status/t/f/b/node-a").vanish()
    assert everything.hears() == ("iot/status/t/f/b/node-a", b"will")


def test_the_gateway_shares_what_devices_say_and_answers_them(farm: Broker, connect: Connect) -> None:
    gateway, node = connect(farm.url("gateway")), connect(farm.url("node-a"))
    gateway.subscribe("$share/edge/iot/telemetry/#")
    node.subscribe("iot/node-a/ack")
    node.publish(OWN[0], b"21")
    assert gateway.hears() == (OWN[0], b"21")
    gateway.publish("iot/telemetry/t/f/b/node-a/forged")
    gateway.publish("iot/node-a/ack", b"got it")
    assert node.hears() == ("iot/node-a/ack", b"got it")


def test_a_user_is_added_without_dropping_a_connection(farm: Broker, connect: Connect) -> None:
    gateway = connect(farm.url("gateway"))
    gateway.subscribe("iot/#")
    newcomer = connect(farm.add_user("node-c", device_rules("t", "f", "b", "node-c")))
    newcomer.publish("iot/telemetry/t/f/b/node-c/x")
    assert gateway.hears()[0] == "iot/telemetry/t/f/b/node-c/x"
    assert gateway.disconnects == 0


def test_more_messages_than_the_default_queue_wait_for_a_gateway_that_is_away(farm: Broker, connect: Connect) -> None:
    gateway = Client(farm.url("gateway"), client_id="gateway-1", clean=False)
    gateway.subscribe("iot/telemetry/#")
    gateway.close()
    node = connect(farm.url("node-a"))
    waiting = [node.paho.publish(OWN[0], b"%d" % number, qos=1) for number in range(1500)]
    for message in waiting:
        message.wait_for_publish(20)
    farm.restart()
    again = connect(farm.url("gateway"), client_id="gateway-1", clean=False)
    assert [again.hears()[1] for _ in range(1500)] == [b"%d" % number for number in range(1500)]


def test_an_oversized_packet_costs_its_sender_the_connection_and_nobody_else(farm: Broker, connect: Connect) -> None:
    gateway = connect(farm.url("gateway"))
    gateway.subscribe("iot/#")
    greedy = Client(farm.url("node-a"))
    greedy.paho.publish(OWN[0], b"x" * 300_000, qos=0)
    wait_for(lambda: greedy.disconnects > 0, what="the disconnection")
    greedy.close()
    connect(farm.url("node-b")).publish("iot/telemetry/t/f/b/node-b/x", b"small")
    assert gateway.hears() == ("iot/telemetry/t/f/b/node-b/x", b"small")
