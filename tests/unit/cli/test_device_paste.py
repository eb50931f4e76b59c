import json
import stat
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


def test_a_sensors_password_is_in_a_private_file_and_on_no_command_line(tmp_path: Path) -> None:
    program = tmp_path / "mosquitto_rr"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > ../arguments\ncp "$XDG_CONFIG_HOME/mosquitto_rr" ../options\n')
    program.chmod(0o755)
    with pytest.raises(subprocess.CalledProcessError) as failed:  # nobody acknowledged anything
        shell(f'PATH="$PWD:$PATH"\n{commands(issued("sensor"))}', tmp_path)
    assert "not acknowledged: " in failed.value.stderr
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:4] == ["-t", "iot/telemetry/t/f/b/pump-7/temperature", "-e", "iot/pump-7/ack"]
    assert PASSWORD not in "\n".join(arguments)
    options = (tmp_path / "options").read_text().splitlines()
    assert options[:5] == ["-h 127.0.0.1", "-p 1883", "-i pump-7", "-u pump-7", f"-P {PASSWORD}"]
    assert stat.S_IMODE((tmp_path / "pump-7" / "mosquitto_rr").stat().st_mode) == 0o600
    (kept,) = (tmp_path / "pump-7" / "unsent").iterdir()
    body = decode(MqttEnvelope, kept.read_bytes(), max_bytes=10_000)
    assert (str(body.event_id), body.tenant_id, body.device_id) == (kept.stem, "t", "pump-7")
    assert body.event_type == "telemetry.reading"


def test_a_broker_of_others_gets_its_own_address_and_its_keeper_the_two_entries() -> None:
    given = issued("sensor", THERE)
    shown = commands(given).splitlines()
    assert {"-h broker.example", "-p 8883", "--tls-use-os-certs"} <= set(shown)
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
