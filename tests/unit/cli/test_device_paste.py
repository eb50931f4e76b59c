import json
import shlex
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from farmiq.cli.device_paste import as_data, as_text
from farmiq.contracts.decoding import decode
from farmiq.contracts.envelope import MqttEnvelope
from farmiq.contracts.services import service_named
from farmiq.edge.ingress_gateway.broker_logins import BrokerAddress, login_of, mqtt_url
from farmiq.edge.ingress_gateway.devices import Device
from farmiq.edge.ingress_gateway.issuing import Issued
from farmiq.edge.ingress_gateway.paste import commands

HERE = BrokerAddress("127.0.0.1", 1883, is_kept=True)
THERE = BrokerAddress("broker.example", 8883, is_tls=True)
# None of ours looks like this; whatever it is, a shell must take it for one word.
PASSWORD = 'it\'s $HOME `id` "x" \\ &'
TOKEN = "a token"


def issued(kind: str, broker: BrokerAddress = HERE) -> Issued:
    device = Device("pump-7", "t", "f", "b", kind, datetime.now(UTC), datetime.now(UTC), None)
    return Issued(device, PASSWORD, TOKEN, login_of(device, "$7$hash"), broker)


def shell(script: str, folder: Path) -> str:
    environ = {"PATH": "/usr/bin:/bin"}
    return subprocess.run(
        ["/bin/sh", "-c", script], env=environ, cwd=folder, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("kind", ["node", "weigh-station", "something-new"])
def test_a_shell_reads_the_environment_as_it_was_meant(kind: str, tmp_path: Path) -> None:
    exported = "\n".join(line for line in commands(issued(kind)).splitlines() if not line.startswith("farmiq run "))
    lines = shell(f"{exported}\nenv -0", tmp_path).split("\0")
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert variables["MQTT_URL"] == mqtt_url("pump-7", PASSWORD, "127.0.0.1", 1883)
    assert [variables[name] for name in ("TENANT_ID", "FARM_ID", "BARN_ID", "DEVICE_ID")] == ["t", "f", "b", "pump-7"]
    if kind == "node":
        assert variables["NODE_FORWARDER_SPOOL_DIR"] == f"{tmp_path}/pump-7/spool"
        assert "HTTP_TOKEN" not in variables, "a node has no use for it"
    else:
        assert (variables["STATION_ID"], variables["HTTP_TOKEN"]) == ("pump-7", TOKEN)
    if kind == "weigh-station":
        assert variables["WEIGHVISION_QUEUE_DIR"] == f"{tmp_path}/pump-7/queue"
        assert variables["EDGE_MEDIA_STORE_URL"] == "http://127.0.0.1:5106"
        elsewhere = shell(f"EDGE_MEDIA_STORE_URL=https://edge.example\n{exported}\nenv", tmp_path)
        assert "EDGE_MEDIA_STORE_URL=https://edge.example\n" in elsewhere, "what the shell knows counts"


def test_a_shell_reads_the_reading_of_a_sensor_as_an_envelope_with_a_new_id_and_the_time(tmp_path: Path) -> None:
    script = commands(issued("sensor")).replace("mosquitto_pub", "printf '%s\\0'", 1)
    first, second = (shell(script, tmp_path).rstrip("\0").split("\0") for _ in range(2))
    assert first[:-1] == second[:-1]
    words = dict(zip(first[::2], first[1::2], strict=True))
    assert (words["-h"], words["-p"], words["-i"], words["-u"], words["-P"]) == (
        "127.0.0.1",
        "1883",
        "pump-7",
        "pump-7",
        PASSWORD,
    )
    assert words["-t"] == "iot/telemetry/t/f/b/pump-7/temperature"
    bodies = [decode(MqttEnvelope, text[-1].encode(), max_bytes=10_000) for text in (first, second)]
    assert bodies[0].event_id != bodies[1].event_id
    assert {(body.tenant_id, body.device_id, body.event_type) for body in bodies} == {
        ("t", "pump-7", "telemetry.reading")
    }
    assert abs((datetime.now(UTC) - bodies[0].ts).total_seconds()) < 3600


def test_a_broker_of_others_gets_its_own_address_and_its_keeper_the_two_entries() -> None:
    given = issued("sensor", THERE)
    assert shlex.split(commands(given))[1:6] == ["-h", "broker.example", "-p", "8883", "--tls-use-os-certs"]
    data = as_data(given)
    assert data["broker_password_line"] == "pump-7:$7$hash"
    assert data["broker_rule_lines"][:2] == ["user pump-7", "topic write iot/telemetry/t/f/b/pump-7/+"]
    assert "pump-7:$7$hash" in as_text(given)
    assert "broker_password_line" not in as_data(issued("sensor"))


def test_the_json_is_the_contract_and_the_text_shows_each_secret() -> None:
    data = json.loads(json.dumps(as_data(issued("node"))))
    assert (data["device_id"], data["mqtt_username"], data["mqtt_password"]) == ("pump-7", "pump-7", PASSWORD)
    assert data["http_token"] == TOKEN
    shown = as_text(issued("node"))
    assert "farmiq run node-agent node-forwarder" in shown
    assert all(f"  {secret}\n" in shown + "\n" for secret in (PASSWORD, TOKEN))


def test_no_text_form_of_what_was_issued_shows_a_secret() -> None:
    assert not [secret for secret in (PASSWORD, TOKEN, "$7$hash") if secret in repr(issued("node"))]


def test_every_service_that_is_pasted_can_be_run() -> None:
    for kind in ("node", "weigh-station"):
        (line,) = [line for line in commands(issued(kind)).splitlines() if line.startswith("farmiq run ")]
        assert [service_named(name).name for name in line.split()[2:]] == line.split()[2:]
