"""A hostile device with a good login, at the real broker: it takes nobody's messages and nobody's place, also when it is away,
revoked, or was let in by an older release."""

import asyncio
import json
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from farmiq.contracts import topics
from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, device_rights, hash_password
from farmiq.stack import broker_sessions
from farmiq.stack.broker_sessions import SessionsNotReadable, keep_sessions_of
from farmiq.stack.mosquitto import MqttRefused, log_in, put_in_force
from farmiq.stack.mosquitto_users import (
    GATEWAY_GROUP,
    access_file,
    change_files,
    change_passwords,
    gateway_rights,
    read_access,
)
from support.mosquitto import EVERYTHING, Broker
from support.paho_client import Client, Connect, connect

__all__ = ["connect"]  # fixtures

GATEWAY = "edge-ingress-gateway"
SHARED = topics.shared(GATEWAY_GROUP)
OWN = "iot/telemetry/t/f/b/node-a/temperature"
MESSAGES = 40


@pytest.fixture
def farm(mosquitto: Broker) -> Broker:
    mosquitto.add_user(GATEWAY, gateway_rights())
    mosquitto.add_device("node-a")
    mosquitto.add_device("thief", place=("another-tenant", "f", "b"))
    return mosquitto


@pytest.fixture
def gateway(farm: Broker, connect: Connect) -> Client:
    client = connect(farm.url(GATEWAY), GATEWAY, clean=False)
    assert [client.subscribe(topic_filter) for topic_filter in SHARED] == [True] * len(SHARED)
    return client


def publish_all(farm: Broker, connect: Connect) -> None:
    node = connect(farm.device_url("node-a"))
    for number in range(MESSAGES):
        node.publish(OWN, b"%d" % number)


def assert_all_reach(gateway: Client) -> None:
    assert [gateway.hears()[1] for _ in range(MESSAGES)] == [b"%d" % number for number in range(MESSAGES)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_device_that_joins_the_gateways_group_is_denied_and_takes_nothing(
    farm: Broker, gateway: Client, connect: Connect, clean: bool
) -> None:
    thief = connect(farm.device_url("thief"), "thief", clean=clean)
    assert not [one for one in (*SHARED, *topics.GATEWAY_FILTERS, "#") if thief.subscribe(one)]
    publish_all(farm, connect)
    assert_all_reach(gateway)
    assert thief.heard.empty()


def allow_everything(farm: Broker, name: str) -> None:
    """As in 0.1.0: whoever is let in may subscribe to anything."""
    login = MqttLogin(name, hash_password(farm.password(name)), EVERYTHING, has_fixed_id=True)
    farm.put(login)


def leave_a_session(farm: Broker, connect: Connect, name: str) -> None:
    """A member of the gateway's group that is away: half of all messages would wait for it for ever."""
    allow_everything(farm, name)
    thief = connect(farm.device_url(name), name, clean=False)
    assert [thief.subscribe(one) for one in (*SHARED, "iot/#")] == [True] * (len(SHARED) + 1)
    thief.close()


def test_revoking_ends_the_session_that_a_device_has_left(farm: Broker, gateway: Client, connect: Connect) -> None:
    leave_a_session(farm, connect, "thief")
    publish_all(farm, connect)
    taken = MESSAGES - gateway_count(gateway)
    assert taken > 0, "the session takes messages while it is there: the attack works here"
    farm.remove_user("thief")
    publish_all(farm, connect)
    assert_all_reach(gateway)
    assert "thief" not in {client["username"] for client in read_access(farm.server.folder)["clients"]}


def gateway_count(gateway: Client) -> int:
    """How many have come when the last of the publisher's own is answered by a message that nobody shares."""
    gateway.subscribe("iot/end/ack")
    gateway.publish("iot/end/ack", b"end")
    count = 0
    while gateway.hears()[0] != "iot/end/ack":
        count += 1
    return count


def test_a_device_that_comes_back_after_it_was_revoked_has_nothing_left_of_its_session(
    farm: Broker, gateway: Client, connect: Connect
) -> None:
    leave_a_session(farm, connect, "thief")
    farm.remove_user("thief")
    farm.add_device("thief", place=("another-tenant", "f", "b"))
    returned = connect(farm.device_url("thief"), "thief", clean=False)
    publish_all(farm, connect)
    assert_all_reach(gateway)
    assert returned.heard.empty()


@pytest.mark.parametrize("claimed", [GATEWAY, "farmiq-control", "", "node-a"])
async def test_no_login_of_a_device_opens_the_services_listener_under_another_id(
    farm: Broker, gateway: Client, connect: Connect, claimed: str
) -> None:
    assert await connect_code(farm, farm.services_port, "thief", claimed) == 5
    assert await connect_code(farm, farm.port, "thief", claimed) == 0, (
        "there its id is its own name, whatever it claims"
    )
    await asyncio.to_thread(publish_all, farm, connect)
    assert_all_reach(gateway)
    assert gateway.disconnects == 0


async def connect_code(farm: Broker, port: int, user: str, client_id: str) -> int:
    """The broker's answer to a login: 0, or 5 for not authorised."""
    texts = [text.encode() for text in (client_id, user, farm.password(user))]
    body = b"\x00\x04MQTT\x04\xc2\x00\x0a" + b"".join(len(text).to_bytes(2, "big") + text for text in texts)
    assert len(body) < 128
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(bytes([0x10, len(body)]) + body)
    answer = await reader.readexactly(4)
    writer.close()
    return answer[3]


def test_a_new_device_costs_no_shared_message(farm: Broker, gateway: Client, connect: Connect) -> None:
    """A restart of the broker would: it forgets shared subscriptions, and drops what comes before they are made again."""
    pid = farm.pid
    node = connect(farm.device_url("node-a"))
    for number in range(MESSAGES):
        if number % 10 == 5:
            farm.add_device(f"newcomer-{number}")
        node.publish(OWN, b"%d" % number)
    assert_all_reach(gateway)
    assert (farm.pid, gateway.disconnects, node.disconnects) == (pid, 0, 0)


def test_rights_survive_a_kill_of_the_broker(farm: Broker, connect: Connect) -> None:
    farm.add_device("newcomer")
    farm.remove_user("thief")
    farm.kill()
    farm.start()
    newcomer = connect(farm.device_url("newcomer"))
    assert (newcomer.subscribe("iot/newcomer/ack"), newcomer.subscribe(SHARED[0])) == (True, False)


def cut_before_rights(farm: Broker, login: MqttLogin) -> None:
    """Killed right at the beginning: nothing was done."""


def cut_after_rights(farm: Broker, login: MqttLogin) -> None:
    """The plugin knows the device, whose password nobody has written yet."""
    change_files(farm.server.folder, [login])
    farm.restart()
    change_passwords(farm.server.folder, drop=[login.name])


def cut_before_the_signal(farm: Broker, login: MqttLogin) -> None:
    """The password is in the file, and the broker has not read it."""
    change_passwords(farm.server.folder, [login])


@pytest.mark.parametrize("cut", [cut_before_rights, cut_after_rights, cut_before_the_signal])
async def test_a_change_that_was_cut_short_is_completed_by_doing_it_again(
    farm: Broker, cut: Callable[[Broker, MqttLogin], None]
) -> None:
    password = secrets.token_urlsafe(16)
    login = MqttLogin("node-c", hash_password(password), device_rights("t", "f", "b", "node-c"), has_fixed_id=True)
    await asyncio.to_thread(cut, farm, login)
    await put_in_force(farm.running, [login])
    await log_in("127.0.0.1", farm.port, "node-c", password)
    assert not await put_in_force(farm.running, [login]), "nothing is left to be done"


async def test_a_revocation_that_was_cut_short_after_the_password_still_ends_the_session(
    farm: Broker, gateway: Client, connect: Connect
) -> None:
    await asyncio.to_thread(leave_a_session, farm, connect, "thief")
    change_passwords(farm.server.folder, drop=["thief"])
    assert await put_in_force(farm.running, live={"node-a"})
    await asyncio.to_thread(publish_all, farm, connect)
    assert_all_reach(gateway)
    with pytest.raises(MqttRefused):
        await log_in("127.0.0.1", farm.port, "thief", farm.password("thief"))


async def test_ten_thousand_devices_come_by_the_file_and_one_more_by_an_order(
    mosquitto: Broker, connect: Connect
) -> None:
    mosquitto.stop()
    password_hash = hash_password("the same for all")
    names = [f"device-{number:05}" for number in range(10_000)]
    change_files(
        mosquitto.server.folder,
        [MqttLogin(name, password_hash, device_rights("t", "f", "b", name), has_fixed_id=True) for name in names],
    )
    await asyncio.to_thread(mosquitto.start)
    await asyncio.to_thread(mosquitto.add_device, "one-more")
    for name, url in (
        (names[0], mosquitto.server.device_url(names[0], "the same for all").replace("%20", " ")),
        ("one-more", mosquitto.device_url("one-more")),
    ):
        device = connect(url)
        assert (device.subscribe(f"iot/{name}/ack"), device.subscribe(SHARED[0])) == (True, False)
    assert not await put_in_force(mosquitto.running)


def test_what_an_older_release_granted_ends_at_the_first_start_and_what_waits_for_the_gateway_stays(
    farm: Broker, connect: Connect
) -> None:
    gateway = Client(farm.url(GATEWAY), GATEWAY, clean=False)
    gateway.subscribe("iot/telemetry/#")
    gateway.close()
    for name in ("thief", "node-a"):
        leave_a_session(farm, connect, name)
    # 0.1.0 let a device's login in on the services' listener under any id.
    elsewhere = Client(farm.add_user("intruder"), "an id that nobody knows", clean=False)
    elsewhere.subscribe("iot/#")
    elsewhere.close()
    publish_all(farm, connect)
    farm.stop()
    sessions = farm.server.folder / "data" / "mosquitto.db"
    assert b"an id that nobody knows" in sessions.read_bytes()

    keep_sessions_of({GATEWAY}, sessions)
    farm.start()

    thief = connect(farm.url("intruder"), "an id that nobody knows", clean=False)
    node = connect(farm.device_url("node-a"), "node-a", clean=False)
    again = connect(farm.url(GATEWAY), GATEWAY, clean=False)
    assert_all_reach(again)
    again.subscribe("iot/end/ack")
    again.publish("iot/end/ack", b"end")
    assert again.hears() == ("iot/end/ack", b"end"), "its subscription and its queue are as they were"
    assert (thief.heard.empty(), node.heard.empty()) == (True, True)


@pytest.mark.parametrize("settings", ["acl_file rules\n", None])
def test_the_first_start_drops_what_0_1_0_granted_and_later_ones_leave_sessions_alone(
    farm: Broker, connect: Connect, settings: str | None
) -> None:
    leave_a_session(farm, connect, "thief")
    farm.stop()
    folder = farm.server.folder
    sessions, conf, rules = folder / "data" / "mosquitto.db", folder / "mosquitto.conf", folder / "rules"
    conf.unlink()
    if settings is not None:
        conf.write_text(settings)
        rules.write_text("user thief\ntopic read #\n")
    assert b"thief" in sessions.read_bytes()
    farm.start()
    assert not rules.exists()
    farm.stop()
    assert b"thief" not in sessions.read_bytes()
    farm.start()
    leave_a_session(farm, connect, "thief")
    farm.restart()
    farm.stop()
    assert b"thief" in sessions.read_bytes()


@pytest.mark.parametrize("content", [b"", b"something else", broker_sessions._HEADER + b"\0\0\0\6\0\0\0\30short"])
def test_sessions_in_another_form_are_left_alone_and_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mosquitto.db"
    path.write_bytes(content)
    with pytest.raises(SessionsNotReadable, match=r"mosquitto\.db can't be read"):
        keep_sessions_of({GATEWAY}, path)
    assert path.read_bytes() == content


def test_a_broker_that_was_never_started_has_no_sessions(tmp_path: Path) -> None:
    keep_sessions_of({GATEWAY}, tmp_path / "mosquitto.db")
    assert list(tmp_path.iterdir()) == []


def test_the_plugins_file_is_what_the_broker_would_start_with(farm: Broker) -> None:
    farm.add_device("newcomer")
    known = {
        client["username"]: client for client in json.loads(access_file(farm.server.folder).read_text())["clients"]
    }
    assert known["newcomer"]["clientid"] == "newcomer"
    assert "clientid" not in known[GATEWAY]
