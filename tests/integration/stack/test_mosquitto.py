import asyncio

import pytest

from farmiq.stack.mosquitto import MqttRefused, log_in
from farmiq.stack.mosquitto_users import gateway_rights
from support.mosquitto import Broker
from support.paho_client import Client, Connect, connect
from support.waiting import wait_for

__all__ = ["connect"]  # fixtures


@pytest.fixture
def farm(mosquitto: Broker) -> Broker:
    mosquitto.add_user("gateway", gateway_rights())
    mosquitto.add_device("node-a")
    mosquitto.add_device("node-b")
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


OWN = "iot/telemetry/t/f/b/node-a/temperature"


def test_the_gateway_shares_what_devices_say_and_answers_them(farm: Broker, connect: Connect) -> None:
    gateway, node = connect(farm.url("gateway")), connect(farm.device_url("node-a"))
    gateway.subscribe("$share/edge-ingress-gateway/iot/telemetry/#")
    node.subscribe("iot/node-a/ack")
    node.publish(OWN, b"21")
    assert gateway.hears() == (OWN, b"21")
    gateway.publish("iot/telemetry/t/f/b/node-a/forged")
    gateway.publish("iot/node-a/ack", b"got it")
    assert node.hears() == ("iot/node-a/ack", b"got it")


def test_a_user_is_added_without_dropping_a_connection(farm: Broker, connect: Connect) -> None:
    gateway = connect(farm.url("gateway"))
    gateway.subscribe("iot/#")
    newcomer = connect(farm.add_device("node-c"))
    newcomer.publish("iot/telemetry/t/f/b/node-c/x")
    assert gateway.hears()[0] == "iot/telemetry/t/f/b/node-c/x"
    assert gateway.disconnects == 0


def test_more_messages_than_the_default_queue_wait_for_a_gateway_that_is_away(farm: Broker, connect: Connect) -> None:
    gateway = Client(farm.url("gateway"), client_id="gateway-1", clean=False)
    gateway.subscribe("iot/telemetry/#")
    gateway.close()
    node = connect(farm.device_url("node-a"))
    waiting = [node.paho.publish(OWN, b"%d" % number, qos=1) for number in range(1500)]
    for message in waiting:
        message.wait_for_publish(20)
    farm.restart()
    again = connect(farm.url("gateway"), client_id="gateway-1", clean=False)
    assert [again.hears()[1] for _ in range(1500)] == [b"%d" % number for number in range(1500)]


def test_an_oversized_packet_costs_its_sender_the_connection_and_nobody_else(farm: Broker, connect: Connect) -> None:
    gateway = connect(farm.url("gateway"))
    gateway.subscribe("iot/#")
    greedy = Client(farm.device_url("node-a"))
    greedy.paho.publish(OWN, b"x" * 300_000, qos=0)
    wait_for(lambda: greedy.disconnects > 0, what="the disconnection")
    greedy.close()
    connect(farm.device_url("node-b")).publish("iot/telemetry/t/f/b/node-b/x", b"small")
    assert gateway.hears() == ("iot/telemetry/t/f/b/node-b/x", b"small")
