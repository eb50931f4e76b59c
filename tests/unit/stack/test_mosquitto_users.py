import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from farmiq.contracts import topics
from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, Right, device_rights, may_publish, may_read
from farmiq.stack.mosquitto_users import (
    WITNESS_USER,
    MqttUser,
    access_file,
    change_files,
    change_passwords,
    devices_in,
    gateway_rights,
    password_file,
    read_access,
    set_users,
)


def hashes(folder: Path) -> dict[str, str]:
    lines = password_file(folder).read_text().splitlines()
    return {name: text for name, _, text in (line.partition(":") for line in lines) if name != WITNESS_USER}


def roles(folder: Path) -> dict[str, list[Any]]:
    return {role["rolename"]: role["acls"] for role in read_access(folder)["roles"]}


def test_a_user_is_added_beside_the_others(tmp_path: Path) -> None:
    set_users(tmp_path, MqttUser("a", "1", may_publish("a/#")))
    set_users(tmp_path, MqttUser("b", "2", may_read("b/#"), has_fixed_id=True))
    assert list(hashes(tmp_path)) == ["a", "b"]
    access = json.loads(access_file(tmp_path).read_text())
    assert access["defaultACLAccess"] == {
        "publishClientSend": False,
        "publishClientReceive": False,
        "subscribe": False,
        "unsubscribe": True,
    }
    assert access["clients"] == [
        {"username": "a", "roles": [{"rolename": "a"}]},
        {"username": "b", "clientid": "b", "roles": [{"rolename": "b"}]},
    ]
    assert roles(tmp_path) == {
        "a": [{"acltype": "publishClientSend", "topic": "a/#", "allow": True}],
        "b": [
            {"acltype": "subscribePattern", "topic": "b/#", "allow": True},
            {"acltype": "publishClientReceive", "topic": "b/#", "allow": True},
        ],
    }
    assert devices_in(tmp_path) == {"b"}


def test_a_user_is_replaced_and_the_others_keep_their_passwords(tmp_path: Path) -> None:
    set_users(tmp_path, MqttUser("a", "1", ()), MqttUser("b", "2", may_read("b")))
    before = hashes(tmp_path)
    set_users(tmp_path, MqttUser("b", "3", may_publish("c")))
    after = hashes(tmp_path)
    assert after["a"] == before["a"]
    assert after["b"] != before["b"]
    assert [entry["topic"] for entry in roles(tmp_path)["b"]] == ["c"]


def test_the_password_file_holds_a_salted_hash_and_neither_file_the_password(tmp_path: Path) -> None:
    set_users(tmp_path, MqttUser("a", "a long password", ()), MqttUser("b", "a long password", ()))
    texts = list(hashes(tmp_path).values())
    assert texts[0] != texts[1]
    assert "a long password" not in password_file(tmp_path).read_text() + access_file(tmp_path).read_text()
    _, kind, iterations, salt, digest = texts[0].split("$")
    expected = hashlib.pbkdf2_hmac("sha512", b"a long password", base64.b64decode(salt), int(iterations))
    assert (kind, base64.b64decode(digest)) == ("7", expected)


def test_only_the_owner_can_read_either_file(tmp_path: Path) -> None:
    set_users(tmp_path, MqttUser("a", "1", ()))
    assert {path.stat().st_mode & 0o777 for path in (password_file(tmp_path), access_file(tmp_path))} == {0o600}


@pytest.mark.parametrize("name", ["a\nb:$7$1$a$b", "a:b", ""])
def test_a_name_that_would_write_lines_of_its_own_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        set_users(tmp_path, MqttUser(name, "1", ()))
    assert not password_file(tmp_path).exists()


@pytest.mark.parametrize("kind", ["node", "sensor", "weigh-station"])
def test_a_device_may_publish_on_its_own_topics_and_read_its_own_acks(kind: str) -> None:
    expected = [
        Right("publishClientSend", "iot/telemetry/t/f/b/d/+"),
        Right("publishClientSend", "iot/event/t/f/b/d/+"),
        Right("publishClientSend", "iot/status/t/f/b/d"),
        Right("subscribePattern", "iot/d/ack"),
        Right("publishClientReceive", "iot/d/ack"),
    ]
    if kind == "weigh-station":
        expected.append(Right("publishClientSend", "iot/weighvision/t/f/b/d/session/+/+"))
    assert list(device_rights("t", "f", "b", "d", kind)) == expected


def test_some_are_put_and_others_dropped_in_one_step(tmp_path: Path) -> None:
    set_users(tmp_path, MqttUser("a", "1", ()), MqttUser("b", "2", ()))
    change_files(tmp_path, put=[MqttLogin("c", "$7$x", may_read("c"))], drop=["a", "unknown"])
    assert (list(hashes(tmp_path)), list(roles(tmp_path))) == (["b", "c"], ["b", "c"])


def test_the_witness_has_another_password_whenever_anybody_else_has(tmp_path: Path) -> None:
    login = MqttLogin("c", "$7$x", ())
    first = change_passwords(tmp_path, put=[login])
    again = change_passwords(tmp_path, put=[login], drop=["unknown"])
    other = change_passwords(tmp_path, put=[MqttLogin("c", "$7$y", ())])
    assert (first.is_new, again.is_new, other.is_new) == (True, False, True)
    assert first.password == again.password != other.password


def test_nobody_has_a_password_who_has_no_rights(tmp_path: Path) -> None:
    """The access file of 0.1.0 was another one, and the plugin's may have been cut short by a power cut."""
    set_users(tmp_path, MqttUser("device", "1", (), has_fixed_id=True))
    access_file(tmp_path).write_text('{"clients": [')
    set_users(tmp_path, MqttUser("service", "2", ()))
    assert (list(hashes(tmp_path)), list(roles(tmp_path))) == (["service"], ["service"])


def test_no_text_form_of_a_user_shows_a_password() -> None:
    assert "secret" not in repr(MqttUser("a", "secret", ())) + repr(MqttLogin("a", "secret", ()))


def test_the_gateway_shares_what_devices_publish_and_publishes_acks() -> None:
    rights = gateway_rights()
    assert [right.topic for right in rights if right.kind == "publishClientSend"] == ["iot/+/ack"]
    filters = {right.topic for right in rights if right.kind == "subscribePattern"}
    assert filters == {*topics.shared("edge-ingress-gateway"), "iot/#"}
