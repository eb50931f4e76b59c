import io
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from farmiq.cli.errors import BadSetting, BadUsage, CommandFailed, NotRunning
from farmiq.cli.send import as_data, as_text
from farmiq.cli.send_login import CloudApi, login_for
from farmiq.cli.send_reading import Sent, _require_taken
from farmiq.cli.send_values import VALUES_MAX, read_values
from farmiq.contracts.ack import DeviceAck, PutOff

ID = UUID("01a1e503-2592-736e-8bdf-908786be3d7f")
PASTED = {
    "MQTT_URL": "mqtt://pump-7:secret@127.0.0.1:1883", "TENANT_ID": "demo", "FARM_ID": "farm-1", "BARN_ID": "barn-1",
}  # fmt: skip


def test_values_come_from_arguments_or_from_the_input() -> None:
    assert [(one.metric, one.value) for one in read_values(["temp=4.2", "hum=60"], "", None)] == [
        ("temp", 4.2),
        ("hum", 60),
    ]
    piped = read_values([], "C", ID, io.StringIO('{"temp": 4.2}\n'))
    assert [(one.event_id, one.metric, one.value, one.unit) for one in piped] == [(ID, "temp", 4.2, "C")]
    first, second = read_values(["a=1", "b=2"], "", None)
    assert first.event_id != second.event_id


@pytest.mark.parametrize(
    "words",
    [["temp"], ["temp=warm"], ["temp=nan"], ["temp=inf"], ["batch=1"], ["a/b=1"], ["=1"], ["t=1"] * (VALUES_MAX + 1)],
)
def test_what_the_edge_would_refuse_is_not_sent(words: list[str]) -> None:
    with pytest.raises(BadUsage):
        read_values(words, "", None)


@pytest.mark.parametrize("text", ["", "4.2", "[1]", "{}", '{"temp": "4.2"}', '{"temp": true}', '{"temp": NaN}'])
def test_an_input_without_values_is_refused(text: str) -> None:
    with pytest.raises(BadUsage):
        read_values([], "", None, io.StringIO(text))


def test_the_same_value_sent_once_more_is_the_same_message() -> None:
    first, again = (read_values(["temp=4.2"], "C", ID)[0] for _ in range(2))
    assert first == again
    assert first.taken_at == again.taken_at
    with pytest.raises(BadUsage, match="not one of ours"):
        read_values(["temp=4.2"], "", UUID(int=7))


def test_a_unit_belongs_to_one_value() -> None:
    with pytest.raises(BadUsage, match="belong to one value"):
        read_values(["a=1", "b=2"], "C", None)


def test_a_login_that_was_pasted_into_the_shell_is_used() -> None:
    login, cloud = login_for("pump-7", PASTED)
    assert (login.device_id, login.tenant_id, login.mqtt_url) == ("pump-7", "demo", PASTED["MQTT_URL"])
    assert cloud is None
    known = PASTED | {"CLOUD_TELEMETRY_SERVICE_URL": "http://cloud", "ADMIN_TOKEN": "t"}
    assert login_for("pump-7", known)[1] == CloudApi("http://cloud", "t")
    with pytest.raises(BadSetting, match="FARM_ID, BARN_ID must be set"):
        login_for("pump-7", {name: value for name, value in PASTED.items() if name not in ("FARM_ID", "BARN_ID")})


def test_a_login_of_somebody_else_is_not(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        login_for("pump-8", PASTED | {"FARMIQ_HOME": str(tmp_path)})


def test_a_name_that_no_device_can_have_is_refused() -> None:
    with pytest.raises(BadUsage):
        login_for("../node-1", {})


def test_what_happened_is_told_in_one_line() -> None:
    stored = Sent(ID, "temp", 4.2, "stored", 0.05, 0.31)
    assert as_text("pump-7", stored) == (
        "pump-7: temp = 4.2 · the edge accepted it after 0.05 s · stored in the cloud after 0.31 s"
    )
    waiting = Sent(ID, "temp", 4.2, "duplicate", 0.05)
    assert as_text("pump-7", waiting) == (
        "pump-7: temp = 4.2 · the edge had it already after 0.05 s · safe: on the edge's disk, not in the cloud yet"
    )
    assert as_data(waiting)["stored_seconds"] is None
    assert as_data(stored)["event_id"] == str(ID)


def test_errors_are_of_the_kind_that_says_what_to_do() -> None:
    with pytest.raises(CommandFailed) as refused:
        read_values(["temp"], "", None)
    assert "farmiq send --device" in refused.value.fix


def test_a_value_that_the_edge_puts_off_is_no_question_of_time() -> None:
    def told(event_id: UUID) -> DeviceAck:
        put_off = [PutOff(event_id=event_id, code="not_provisioned")]
        return DeviceAck(epoch=UUID(int=1), ts=datetime(2026, 11, 19, tzinfo=UTC), put_off=put_off)

    _require_taken(told(UUID(int=2)), {ID})
    with pytest.raises(CommandFailed, match="not_provisioned") as failed:
        _require_taken(told(ID), {ID})
    assert f"--event-id {ID}" in failed.value.fix
