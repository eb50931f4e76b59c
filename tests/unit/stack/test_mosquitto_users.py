import base64
import hashlib
from pathlib import Path

import pytest

from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, device_rules
from farmiq.stack.mosquitto_users import (
    MqttUser,
    change_logins,
    gateway_rules,
    password_file,
    rules_file,
    set_users,
)


def test_a_user_is_added_beside_the_others(tmp_path: Path) -> None:
    set_users(tmp_path, MqttUser("a", "1", ("topic read a/#",)))
    set_users(tmp_path, MqttUser("b", "2", ("topic read b/#", "topic write b/#")))
    assert [line.split(":")[0] for line in password_file(tmp_path).read_text().splitlines()] == ["a", "b"]
    assert rules_file(tmp_path).read_text() == "user a\ntopic read a/#\n\nuser b\ntopic read b/#\ntopic write b/#\n"


def test_a_user_is_replaced_and_the_others_keep_their_passwords(tmp_path: Path) -> None:
    set_users(tmp_path, MqttUser("a", "1", ()), MqttUser("b", "2", ("topic read b/#",)))
    before = password_file(tmp_path).read_text().splitlines()
    set_users(tmp_path, MqttUser("b", "3", ("topic read c/#",)))
    after = password_file(tmp_path).read_text().splitlines()
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert rules_file(tmp_path).read_text() == "user a\n\nuser b\ntopic read c/#\n"


def test_the_file_holds_a_salted_hash_and_never_the_password(tmp_path: Path) -> None:
    set_users(tmp_path, MqttUser("a", "a long password", ()), MqttUser("b", "a long password", ()))
    hashes = [line.split(":")[1] for line in password_file(tmp_path).read_text().splitlines()]
    assert hashes[0] != hashes[1]
    assert "a long password" not in password_file(tmp_path).read_text()
    _, kind, iterations, salt, digest = hashes[0].split("$")
    expected = hashlib.pbkdf2_hmac("sha512", b"a long password", base64.b64decode(salt), int(iterations))
    assert (kind, base64.b64decode(digest)) == ("7", expected)


def test_only_the_owner_can_read_either_file(tmp_path: Path) -> None:
    set_users(tmp_path, MqttUser("a", "1", ()))
    assert {path.stat().st_mode & 0o777 for path in (password_file(tmp_path), rules_file(tmp_path))} == {0o600}


@pytest.mark.parametrize(
    "user",
    [
        MqttUser("a\nuser b\ntopic readwrite #", "1", ()),
        MqttUser("a:b", "1", ()),
        MqttUser("", "1", ()),
        MqttUser("a", "1", ("topic read a\ntopic readwrite #",)),
    ],
)
def test_a_name_or_rule_that_would_write_lines_of_its_own_is_refused(tmp_path: Path, user: MqttUser) -> None:
    with pytest.raises(ValueError, match="not a name"):
        set_users(tmp_path, user)
    assert not password_file(tmp_path).exists()


@pytest.mark.parametrize("kind", ["node", "sensor", "weigh-station"])
def test_a_device_may_write_its_own_topics_and_read_its_own_acks(kind: str) -> None:
    expected = [
        "topic write iot/telemetry/t/f/b/d/+",
        "topic write iot/event/t/f/b/d/+",
        "topic write iot/status/t/f/b/d",
        "topic read iot/d/ack",
    ]
    if kind == "weigh-station":
        expected.append("topic write iot/weighvision/t/f/b/d/session/+/+")
    assert list(device_rules("t", "f", "b", "d", kind)) == expected


def test_some_are_put_and_others_dropped_in_one_step_and_the_answer_says_whether_anything_changed(
    tmp_path: Path,
) -> None:
    set_users(tmp_path, MqttUser("a", "1", ()), MqttUser("b", "2", ()))
    new = MqttLogin("c", "$7$x", ("topic read c",))
    assert change_logins(tmp_path, put=[new], drop=["a", "unknown"])
    assert [line.split(":")[0] for line in password_file(tmp_path).read_text().splitlines()] == ["b", "c"]
    assert rules_file(tmp_path).read_text() == "user b\n\nuser c\ntopic read c\n"
    assert not change_logins(tmp_path, put=[new], drop=["a"])


def test_rules_that_were_edited_by_hand_are_read_as_the_broker_reads_them(tmp_path: Path) -> None:
    rules_file(tmp_path).write_text("\n\n# ours\n\nuser a\n\n topic read a\n\n\n\nuser b\ntopic read b\n")
    set_users(tmp_path, MqttUser("c", "1", ()))
    assert rules_file(tmp_path).read_text() == "user a\ntopic read a\n\nuser b\ntopic read b\n\nuser c\n"


def test_no_text_form_of_a_user_shows_a_password() -> None:
    assert "secret" not in repr(MqttUser("a", "secret", ())) + repr(MqttLogin("a", "secret", ()))


def test_the_gateway_reads_all_and_writes_acks() -> None:
    assert gateway_rules() == ("topic read iot/#", "topic write iot/+/ack")
