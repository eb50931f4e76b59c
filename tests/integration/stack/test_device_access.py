"""What a device may do at the broker: be itself, on its own topics, on one connection, until its password is taken away."""

import asyncio
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from farmiq.edge.ingress_gateway.broker_logins import device_rights
from farmiq.stack.mosquitto import BrokerNotReloaded, MqttRefused, log_in, put_in_force
from farmiq.stack.mosquitto_users import WITNESS_USER, MqttUser, gateway_rights, read_access, set_users
from support.mosquitto import Broker
from support.paho_client import Client, Connect, connect
from support.waiting import wait_for

__all__ = ["connect"]  # fixtures

PLACE = ("t", "f", "b")
SESSION = "iot/weighvision/t/f/b/{}/session/0190/weighvision.session.created"
OWN = ["iot/telemetry/t/f/b/{}/temperature", "iot/telemetry/t/f/b/{}/batch", "iot/event/t/f/b/{}/telemetry.loss",
       "iot/status/t/f/b/{}"]  # fmt: skip
NOT_OWN = [
    "iot/telemetry/t/f/b/node-b/temperature", "iot/telemetry/t/f/b/node-b/batch", "iot/event/t/f/b/node-b/telemetry.loss",
    "iot/status/t/f/b/node-b", "iot/telemetry/t/f/other/node-a/x", "iot/telemetry/t/other/b/node-a/x",
    "iot/telemetry/other/f/b/node-a/x", "iot/telemetry/t/f/b/node-a", "iot/telemetry/t/f/b/node-a/x/y",
    "iot/event/t/f/b/node-a/x/y", "iot/status/t/f/b/node-a/x", "iot/node-a/ack", "iot/node-b/ack", "elsewhere", "$SYS/broker",
    SESSION.format("node-b"), "iot/weighvision/t/f/b/node-a/x",
]  # fmt: skip
DENIED_TO_ALL = ["#", "+/+/ack", "iot/#", "iot/+/ack", "iot/node-b/ack", "iot/telemetry/t/f/b/node-b/#", "$SYS/#",
                 "$share/g/iot/#", "$share/g/iot/node-b/ack", "$share/g/iot/node-a/ack",
                 "$share/edge-ingress-gateway/iot/telemetry/#",
                 "$CONTROL/#", "$CONTROL/dynamic-security/v1/response"]  # fmt: skip


@pytest.fixture
def farm(mosquitto: Broker) -> Broker:
    mosquitto.add_user("gateway", gateway_rights())
    mosquitto.add_device("node-a")
    mosquitto.add_device("node-b")
    mosquitto.add_device("station", "weigh-station")
    return mosquitto


@pytest.fixture
def everything(farm: Broker, connect: Connect) -> Client:
    listener = connect(farm.url("listener"))
    listener.subscribe("#")
    return listener


@pytest.mark.parametrize(
    ("device", "own", "others"),
    [("node-a", OWN, [*NOT_OWN, SESSION.format("node-a")]), ("station", [*OWN, SESSION], NOT_OWN)],
)
def test_a_device_speaks_for_itself_alone(
    device: str, own: list[str], others: list[str], farm: Broker, connect: Connect, everything: Client
) -> None:
    node = connect(farm.device_url(device))
    for topic in others:
        node.publish(topic)
        node.publish(topic, retain=True)
    topics = [topic.format(device) for topic in own]
    for topic in topics:
        node.publish(topic)
    # Delivery keeps the order of one publisher: had one of the forbidden ones passed, it would come first.
    assert [everything.hears()[0] for _ in topics] == topics


def test_a_device_subscribes_to_nothing_but_its_own_acknowledgements(farm: Broker, connect: Connect) -> None:
    node = connect(farm.device_url("node-a"))
    assert not [topic for topic in DENIED_TO_ALL if node.subscribe(topic)]
    assert node.subscribe("iot/node-a/ack")
    other = connect(farm.url("speaker"))
    other.publish("iot/status/t/f/b/node-b", b"retained", retain=True)
    for topic in ("iot/node-b/ack", "iot/telemetry/t/f/b/node-b/x", "iot/telemetry/t/f/b/node-a/x", "elsewhere"):
        other.publish(topic)
    other.publish("iot/node-a/ack", b"last")
    assert node.hears() == ("iot/node-a/ack", b"last")


def test_the_will_of_a_device_obeys_the_same_rights(farm: Broker, connect: Connect, everything: Client) -> None:
    # The second connection is the same client to the broker: by then it has dealt with the end of the first.
    connect(farm.device_url("node-a"), will="iot/status/t/f/b/node-b").vanish()
    connect(farm.device_url("node-a"), will="iot/status/t/f/b/node-a").vanish()
    assert everything.hears() == ("iot/status/t/f/b/node-a", b"will")


def test_a_device_that_claims_the_client_id_of_another_leaves_it_alone(
    farm: Broker, connect: Connect, everything: Client
) -> None:
    victim = connect(farm.device_url("node-b"), "node-b", will="iot/status/t/f/b/node-b")
    victim.subscribe("iot/node-b/ack")
    for claimed in ("node-b", "gateway-1", ""):
        connect(farm.device_url("node-a"), claimed)
    everything.publish("iot/node-b/ack", b"still there")
    assert everything.hears()[0] == "iot/node-b/ack", "no will was sent for node-b"
    assert victim.hears() == ("iot/node-b/ack", b"still there")
    assert victim.disconnects == 0


def test_what_waits_for_a_device_can_not_be_fetched_or_discarded_by_another(farm: Broker, connect: Connect) -> None:
    owner = Client(farm.device_url("node-b"), "node-b", clean=False)
    owner.subscribe("iot/node-b/ack")
    owner.close()
    connect(farm.url("speaker")).publish("iot/node-b/ack", b"for b")
    for clean in (False, True):
        thief = connect(farm.device_url("node-a"), "node-b", clean=clean)
        thief.subscribe("iot/node-b/ack")
    farm.restart()
    assert connect(farm.device_url("node-b"), "node-b", clean=False).hears() == ("iot/node-b/ack", b"for b")
    assert thief.heard.empty()


def test_a_device_has_one_connection_and_replicas_of_a_service_have_one_each(farm: Broker, connect: Connect) -> None:
    first = Client(farm.device_url("node-a"), "first")
    connect(farm.device_url("node-a"), "second")
    wait_for(lambda: first.disconnects > 0, what="the end of the device's first connection")
    first.close()
    one, two = connect(farm.url("gateway"), "gateway-1"), connect(farm.url("gateway"), "gateway-2")
    for replica in (one, two):
        replica.subscribe("$share/edge-ingress-gateway/iot/telemetry/#")
    node = connect(farm.device_url("node-b"))
    for _ in range(4):
        node.publish("iot/telemetry/t/f/b/node-b/x")
    wait_for(lambda: one.heard.qsize() + two.heard.qsize() == 4, what="all messages at one replica or the other")
    assert (one.disconnects, two.disconnects) == (0, 0)


async def test_a_removed_device_is_thrown_out_at_once_and_nobody_else_is(
    farm: Broker, connect: Connect, everything: Client
) -> None:
    removed, other = Client(farm.device_url("node-a")), connect(farm.device_url("node-b"))
    removed.subscribe("iot/node-a/ack")
    password = farm.password("node-a")
    await asyncio.to_thread(farm.remove_user, "node-a")
    wait_for(lambda: removed.disconnects > 0, what="the end of its connection")
    removed.close()
    with pytest.raises(MqttRefused):
        await log_in("127.0.0.1", farm.port, "node-a", password)
    other.publish("iot/telemetry/t/f/b/node-b/x")
    assert everything.hears()[0] == "iot/telemetry/t/f/b/node-b/x"
    assert (other.disconnects, everything.disconnects) == (0, 0)


async def test_a_new_password_ends_what_the_old_one_opened(farm: Broker, connect: Connect) -> None:
    before, password = Client(farm.device_url("node-a")), farm.password("node-a")
    await asyncio.to_thread(farm.add_device, "node-a")
    wait_for(lambda: before.disconnects > 0, what="the end of the old connection")
    before.close()
    with pytest.raises(MqttRefused):
        await log_in("127.0.0.1", farm.port, "node-a", password)
    await log_in("127.0.0.1", farm.port, "node-a", farm.password("node-a"))
    assert connect(farm.device_url("node-a")).disconnects == 0


async def test_trying_a_login_leaves_the_session_of_its_owner_as_it_is(farm: Broker, connect: Connect) -> None:
    owner = Client(farm.device_url("node-a"), clean=False, client_id="node-a")
    owner.subscribe("iot/node-a/ack")
    owner.close()
    connect(farm.url("speaker")).publish("iot/node-a/ack", b"kept")
    await log_in("127.0.0.1", farm.port, "node-a", farm.password("node-a"), keeps_session=True)
    assert connect(farm.device_url("node-a"), "node-a", clean=False).hears() == ("iot/node-a/ack", b"kept")


def test_what_waits_for_a_gateway_survives_changes_of_users_and_restarts(farm: Broker, connect: Connect) -> None:
    """Mosquitto checks every login again when it reads its files, also of clients that are away."""
    gateway = Client(farm.url("gateway"), "gateway-1", clean=False)
    gateway.subscribe("iot/telemetry/#")
    gateway.close()
    node = connect(farm.device_url("node-a"))
    node.publish("iot/telemetry/t/f/b/node-a/x", b"1")
    farm.add_device("node-c")
    node.publish("iot/telemetry/t/f/b/node-a/x", b"2")
    farm.restart()
    farm.remove_user("node-c")
    again = connect(farm.url("gateway"), "gateway-1", clean=False)
    assert [again.hears()[1] for _ in range(2)] == [b"1", b"2"]


def test_a_device_that_floods_the_broker_keeps_nobody_else_out(farm: Broker, connect: Connect) -> None:
    gateway = connect(farm.url("gateway"), "gateway-1")
    gateway.subscribe("iot/telemetry/t/f/b/node-b/#")
    flooder, node = connect(farm.device_url("node-a")), connect(farm.device_url("node-b"))
    flood = [flooder.paho.publish("iot/telemetry/t/f/b/node-a/x", b"x" * 10_000, qos=1) for _ in range(3000)]
    for number in range(20):
        node.publish("iot/telemetry/t/f/b/node-b/x", b"%d" % number)
    assert [gateway.hears()[1] for _ in range(20)] == [b"%d" % number for number in range(20)]
    for message in flood:
        message.wait_for_publish(30)
    assert (node.disconnects, gateway.disconnects) == (0, 0)


async def test_a_change_waits_for_a_broker_that_is_starting_and_never_kills_it(farm: Broker) -> None:
    farm.kill()
    password = secrets.token_urlsafe(16)
    login = MqttUser("node-c", password, device_rights(*PLACE, "node-c"), has_fixed_id=True).login
    change = asyncio.create_task(put_in_force(farm.running, [login]))
    await asyncio.to_thread(farm.start)
    pid = farm.pid
    assert await change
    await log_in("127.0.0.1", farm.port, "node-c", password)
    assert farm.pid == pid


async def test_a_broker_that_does_not_answer_is_told_apart_from_one_that_has_obeyed(farm: Broker) -> None:
    farm.pause()
    with pytest.raises(BrokerNotReloaded):
        await put_in_force(farm.running, drop=["node-a"], seconds_max=0.5)
    farm.resume()
    assert await put_in_force(farm.running, drop=["node-a"])
    with pytest.raises(MqttRefused):
        await log_in("127.0.0.1", farm.port, "node-a", farm.password("node-a"))
    assert not await put_in_force(farm.running, drop=["node-a"]), "nothing is left to be done"


@pytest.mark.parametrize("changes", [1, 2, 3, 5])
def test_no_password_is_written_without_its_rights_whenever_the_writer_is_killed(changes: int, tmp_path: Path) -> None:
    folder = tmp_path / "written"
    passwords = folder / "passwords"
    seen: set[int] = set()

    def has_changed() -> bool:
        if passwords.exists():
            seen.add(passwords.stat().st_mtime_ns)
        return len(seen) >= changes

    script = Path(__file__).with_name("change_users_for_ever.py")
    with subprocess.Popen([sys.executable, script, folder]) as writer:
        wait_for(has_changed, what=f"{changes} changes")
        writer.kill()
    known = {client["username"] for client in read_access(folder)["clients"]}
    assert "always" in known
    set_users(folder, MqttUser("later", "1", ()))
    login_names = {line.split(":")[0] for line in passwords.read_text().splitlines()}
    assert {"always", "later"} <= login_names <= known | {"later", WITNESS_USER}
