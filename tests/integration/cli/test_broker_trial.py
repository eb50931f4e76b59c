"""`farmiq doctor` tries the broker as a hostile device would: at brokers with and without rules for subscriptions."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL

import asyncpg
import pytest

from farmiq.cli.broker_trial import TrialFailed, checks_of, refusals_check, trial_checks, try_broker
from farmiq.cli.checks import Verdict
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.broker_logins import hash_password
from farmiq.kit.mqtt import MqttClient
from farmiq.stack.device_logins import BrokerOfHome, apply_register
from farmiq.stack.mosquitto import MqttRefused, log_in
from support.device_farm import FARMIQ, DeviceFarm, farm
from support.foreign_broker import ForeignBroker, foreign_broker
from support.waiting import run_apart, wait_for

__all__ = ["farm"]  # fixtures

GATEWAY = "edge-ingress-gateway"
DEVICE = "trial-1"
LEFT = f"{devices.TRIAL_KIND}-left"
SENDER = "sender"
OWN_TOPICS = (f"topic write iot/telemetry/demo/farm-1/barn-1/{DEVICE}/+", f"topic read iot/{DEVICE}/ack")
RULES = {GATEWAY: ("topic read iot/#", "topic write iot/+/ack"), SENDER: ("topic write iot/#",), DEVICE: OWN_TOPICS}


def verdicts(broker: ForeignBroker) -> list[Verdict]:
    return [check.verdict for check in checks_of(try_broker(broker.url(DEVICE)))]


def test_an_access_file_lets_a_device_join_the_share_group(run_folder: Path, tmp_path: Path) -> None:
    with foreign_broker(tmp_path / "broker", run_folder, RULES, "acl_file") as broker:
        group, subscriptions, publishing = checks_of(try_broker(broker.url(DEVICE)))
    assert (group.verdict, subscriptions.verdict, publishing.verdict) == (Verdict.FAILED, Verdict.WARNING, Verdict.OK)
    assert "takes part of everybody's messages" in group.found
    assert "left at once" in group.found
    assert group.fix.endswith("#a-broker-of-your-own")


def test_the_dynamic_security_plugin_denies_everything(run_folder: Path, tmp_path: Path) -> None:
    with foreign_broker(tmp_path / "broker", run_folder, RULES, "dynamic-security") as broker:
        assert verdicts(broker) == [Verdict.OK, Verdict.OK, Verdict.OK]


def test_a_broker_without_rules_fails_in_each_way(run_folder: Path, tmp_path: Path) -> None:
    open_rules = {**RULES, DEVICE: ("topic readwrite #",)}
    with foreign_broker(tmp_path / "broker", run_folder, open_rules, "acl_file") as broker:
        assert verdicts(broker) == [Verdict.FAILED, Verdict.FAILED, Verdict.FAILED]


def test_a_login_that_the_broker_refuses_is_said(run_folder: Path, tmp_path: Path) -> None:
    with foreign_broker(tmp_path / "broker", run_folder, RULES, "acl_file") as broker:
        wrong = broker.url(DEVICE).replace(DEVICE, SENDER)
        with pytest.raises(TrialFailed, match="refused the login"):
            try_broker(wrong)


async def test_the_trial_leaves_the_gateway_its_messages(run_folder: Path, tmp_path: Path) -> None:
    with foreign_broker(tmp_path / "broker", run_folder, RULES, "acl_file") as broker:
        gateway = MqttClient(
            broker.url(GATEWAY), client_id=GATEWAY, subscriptions=[f"$share/{GATEWAY}/iot/telemetry/#"]
        )
        sender = MqttClient(broker.url(SENDER), client_id=SENDER, clean_session=True)
        await gateway.start()
        await sender.start()
        await gateway.wait_connected()
        await sender.wait_connected()
        trial = asyncio.create_task(asyncio.to_thread(try_broker, broker.url(DEVICE)))
        sent = await _send_until_done(sender, trial)
        await sender.publish("iot/telemetry/end", b"")
        received = await _receive_until_end(gateway)
        await gateway.stop()
        await sender.stop()
    assert trial.result().joined
    # One may come between joining and leaving, of those that are sent one by one. A member that stays takes every second one.
    assert len(sent) > 20
    assert len(sent) - len(received) <= 1
    assert set(received) <= set(sent)


def test_at_the_farms_own_broker_a_login_is_made_and_taken_out_again(farm: DeviceFarm) -> None:
    # One that was killed in the middle has left its login.
    password = run_apart(lambda: _leave_trial_behind(farm))
    found = list(trial_checks({"FARMIQ_HOME": str(farm.home.path)}))
    assert [check.name.removeprefix("broker: ") for check in found] == [
        "share group", "subscriptions", "publishing", "refusals",
    ]  # fmt: skip
    assert found[3].verdict is Verdict.OK
    assert found[2].verdict is Verdict.OK
    assert run_apart(lambda: _trials(farm)) == 0
    with pytest.raises(MqttRefused):
        run_apart(lambda: log_in("127.0.0.1", farm.broker.port, LEFT, password))


def test_what_the_broker_refused_lately_is_summed_up() -> None:
    check = refusals_check([("node-1", "publish_denied", 7), ("", "login_refused", 2)])
    assert check.verdict is Verdict.WARNING
    assert "node-1: publish_denied 7 times; unknown clients: login_refused 2 times" in check.found


def test_a_trial_that_is_interrupted_takes_its_login_out(farm: DeviceFarm) -> None:
    environ = {"PATH": os.environ["PATH"], "FARMIQ_HOME": str(farm.home.path)}
    with subprocess.Popen([FARMIQ, "doctor"], env=environ, stdout=DEVNULL, stderr=DEVNULL) as doctor:
        wait_for(lambda: run_apart(lambda: _trials(farm)) == 1, what="the login of the trial")
        doctor.send_signal(signal.SIGINT)
        doctor.wait(timeout=60)
    assert run_apart(lambda: _trials(farm)) == 0


def test_a_broker_that_is_not_ours_is_tried_with_the_login_of_the_environment(run_folder: Path, tmp_path: Path) -> None:
    with foreign_broker(tmp_path / "broker", run_folder, RULES, "acl_file") as broker:
        home = {"FARMIQ_HOME": str(tmp_path), "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
        (missing,) = trial_checks(home | {"MQTT_URL": broker.url(GATEWAY)})
        assert missing.verdict is Verdict.WARNING
        assert "DOCTOR_MQTT_URL" in missing.fix
        group, *_ = trial_checks(home | {"DOCTOR_MQTT_URL": broker.url(DEVICE)})
        assert group.verdict is Verdict.FAILED
        (away,) = trial_checks({"DOCTOR_MQTT_URL": f"mqtt://{DEVICE}:secret-word@127.0.0.1:1"})
        assert away.found.startswith("not tried: ")
        assert "secret-word" not in away.found


async def _leave_trial_behind(farm: DeviceFarm) -> str:
    connection = await asyncpg.connect(farm.edge.database_url)
    await devices.add_trial(connection, LEFT, hash_password("left behind"))
    assert isinstance(farm.edge.broker, BrokerOfHome)
    await apply_register(connection, farm.edge.broker)
    await connection.close()
    await log_in("127.0.0.1", farm.broker.port, LEFT, "left behind")
    return "left behind"


async def _trials(farm: DeviceFarm) -> int:
    connection = await asyncpg.connect(farm.edge.database_url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM devices WHERE kind = $1", devices.TRIAL_KIND))
    finally:
        await connection.close()


async def _send_until_done(sender: MqttClient, trial: "asyncio.Task[object]") -> list[bytes]:
    sent: list[bytes] = []
    while not trial.done():
        sent.append(str(len(sent)).encode())
        await sender.publish("iot/telemetry/x", sent[-1])
    return sent


async def _receive_until_end(gateway: MqttClient) -> Sequence[bytes]:
    received: list[bytes] = []
    while True:
        messages = await gateway.next_batch(100, 0.0)
        gateway.acknowledge(messages)
        for message in messages:
            if message.topic.endswith("/end"):
                return received
            if message.topic.endswith("/x"):
                received.append(message.payload)
