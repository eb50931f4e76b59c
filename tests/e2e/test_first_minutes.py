"""The first five minutes, as docs/start.md tells them: a farm is started, broken on purpose, healed, and asked what is missing.

The tests run in the order in which they stand here, on one farm, with the real command."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3

from e2e.farm import FARMIQ, Farm, Tier
from farmiq.cli import exits
from farmiq.stack.state import read_state
from support.waiting import wait_for


def told(farm: Farm, *arguments: str) -> Any:
    answer = farm.command(*arguments, "--json")
    assert answer.returncode == exits.OK, answer.stdout + answer.stderr
    return json.loads(answer.stdout)


def heal_and_count(farm: Farm) -> Any:
    """The sum that the command tells, compared with the rows that the cloud's database has."""
    healed = told(farm, "demo", "heal")
    assert healed["is_complete"]
    assert healed["captured"] == healed["stored"] > 0
    assert (healed["lost"], healed["under_way"]) == (0, 0)
    for stream in farm.coverage():
        assert stream.ranges[0][0] == 1
        assert stream.ranges[0][1] > healed["captured"]
        assert stream.lost == 0
        assert stream.rows == sum(end - first for first, end in stream.ranges)
    return healed


def audited(farm: Farm, code: int = exits.OK) -> Any:
    """What the audit tells, and that its sum holds."""
    answer = farm.command("audit", "--json")
    assert answer.returncode == code, answer.stdout[-3000:] + answer.stderr
    verdict = json.loads(answer.stdout)
    assert verdict["balanced"] is (code == exits.OK)
    parts = ("stored", "lost", "in_flight", "dead_lettered", "unexplained")
    assert verdict["captured"] == sum(verdict[part] for part in parts)
    return verdict


@contextmanager
def changed_by_hand(farm: Farm, tier: Tier, statement: str, undo: str) -> Iterator[None]:
    farm.fetch(tier, statement)
    try:
        yield
    finally:
        farm.fetch(tier, undo)


def test_the_page_is_where_it_is_said_to_be_and_no_browser_is_no_error(farm: Farm) -> None:
    farm.wait_until_cloud_has(1)
    opened = farm.command("open", "--no-browser")
    assert opened.returncode == exits.OK, opened.stderr
    assert farm.environment()["CONSOLE_URL"] in opened.stdout
    for command in ("open", "watch", "demo break wan"):
        assert f"farmiq {command}" in farm.up_output


def test_a_log_of_the_start_holds_no_credential(farm: Farm) -> None:
    """It may be a build's, which is kept and read by others."""
    secret = {
        name: value
        for name, value in farm.environment().items()
        if name.endswith(("PASSWORD", "TOKEN", "KEY")) or "@" in value
    }
    assert {"CONSOLE_PASSWORD", "ADMIN_TOKEN", "AMQP_URL"} <= secret.keys()
    assert [name for name, value in secret.items() if value in farm.up_output] == []
    assert farm.command("env", "CONSOLE_PASSWORD").stdout == secret["CONSOLE_PASSWORD"] + "\n"


def test_cut_off_from_the_cloud_the_backlog_grows_and_is_safe_at_the_edge(farm: Farm) -> None:
    cut = told(farm, "demo", "break", "wan", "--for", "3")
    assert cut["routes"] == {"broker": [], "edge-db": [], "wan": ["down"]}
    assert cut["captured"] > cut["stored"]
    assert cut["edge"]["samples"] > 0
    assert cut["edge"]["safe"].startswith("on the edge's disk")
    assert farm.status()["broken_links"] == {"wan": ["down"]}
    assert "✂ wan was broken on purpose" in farm.command("status").stdout
    later = told(farm, "demo", "status")
    assert later["edge"]["samples"] > cut["edge"]["samples"]
    assert later["stored"] == cut["stored"]
    verdict = audited(farm)
    assert verdict["in_flight_at"]["edge_outbox"] >= cut["edge"]["samples"]
    assert verdict["stored"] >= cut["stored"]


def test_a_value_that_is_sent_meanwhile_is_accepted_and_not_in_the_cloud_yet(farm: Farm) -> None:
    assert farm.command("device", "add", "pump-7", "--kind", "sensor").returncode == exits.OK
    sent = farm.command("send", "--device", "pump-7", "--wait", "1", "--unit", "C", "temp=4.2")
    assert sent.returncode == exits.OK, sent.stderr
    assert "the edge accepted it" in sent.stdout
    assert "safe: on the edge's disk, not in the cloud yet" in sent.stdout
    assert farm.fetch("cloud", "SELECT 1 FROM telemetry_raw WHERE device_id = 'pump-7'") == []


def test_the_forwarder_killed_in_the_outage_runs_again_by_itself(farm: Farm) -> None:
    before = farm.child("edge-sync-forwarder")
    killed = told(farm, "demo", "kill", "sync-forwarder")
    assert (killed["name"], killed["killed_pid"]) == ("edge-sync-forwarder", before.pid)
    assert killed["runs_again_as"] not in (None, before.pid)
    assert farm.child("edge-sync-forwarder").restarts > before.restarts


def test_healed_everything_arrives_and_nothing_is_lost(farm: Farm) -> None:
    heal_and_count(farm)
    (row,) = farm.fetch("cloud", "SELECT metric_value, unit FROM telemetry_raw WHERE device_id = 'pump-7'")
    assert (row["metric_value"], row["unit"]) == (4.2, "C")
    devices = {device["device_id"]: device for device in audited(farm)["devices"]}
    assert (devices["pump-7"]["captured"], devices["pump-7"]["stored"]) == (1, 1)
    assert devices["node-1"]["stored"] > 0
    told_people = farm.command("audit").stdout
    assert "Balanced: 2 devices, " in told_people


def test_without_a_broker_the_node_keeps_everything_also_when_the_relay_is_killed(farm: Farm) -> None:
    cut = told(farm, "demo", "break", "broker", "--for", "2")
    assert cut["routes"]["broker"] == ["down"]
    refused = farm.command("send", "--device", "pump-7", "temp=4.3")
    assert refused.returncode == exits.FAILED
    assert "nothing was accepted" in refused.stderr
    told(farm, "demo", "kill", "relay")
    status = told(farm, "demo", "status")
    assert status["routes"] == cut["routes"], "a cut stays a cut"
    assert status["devices"]["samples"] > cut["devices"]["samples"] > 0
    assert "on the node's spool, room for" in status["devices"]["safe"]
    assert audited(farm)["in_flight_at"]["node_spool"] >= cut["devices"]["samples"]
    heal_and_count(farm)


def test_without_its_database_the_edge_acknowledges_nothing_and_nothing_is_lost(farm: Farm) -> None:
    cut = told(farm, "demo", "break", "edge-db", "--for", "3")
    assert cut["routes"]["edge-db"] == ["down"]
    assert cut["edge"]["samples"] is None
    assert cut["devices"]["samples"] > 0
    refused = farm.command("audit")
    assert refused.returncode == exits.FAILED
    assert "the audit could not be finished" in refused.stderr
    heal_and_count(farm)
    wait_for(lambda: read_state(farm.home).is_healthy, 60, "every service to be healthy again")


def test_one_value_from_a_pipe_is_found_in_the_cloud(farm: Farm) -> None:
    sent = subprocess.run(
        [FARMIQ, "send", "--device", "pump-7", "--json"],
        env={"FARMIQ_HOME": str(farm.home.path)},
        input='{"temp": 4.4}',
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert sent.returncode == exits.OK, sent.stderr
    (one,) = json.loads(sent.stdout)
    assert one["result"] == "stored"
    assert one["stored_seconds"] is not None
    (row,) = farm.fetch("cloud", "SELECT device_id, metric_value FROM telemetry_raw WHERE id = $1", one["event_id"])
    assert (row["device_id"], row["metric_value"]) == ("pump-7", 4.4)
    again = told(farm, "send", "--device", "pump-7", "--event-id", one["event_id"], "temp=4.4")
    assert again[0]["result"] == "duplicate"
    assert len(farm.fetch("cloud", "SELECT 1 FROM telemetry_raw WHERE id = $1", one["event_id"])) == 1


def test_watch_tells_the_same_a_line_a_second(farm: Farm) -> None:
    answer = farm.command("watch", "--for", "3", "--json")
    assert answer.returncode == exits.OK, answer.stderr
    looks = [json.loads(line) for line in answer.stdout.splitlines()]
    assert len(looks) >= 2
    assert looks[-1]["captured"] > looks[0]["captured"]
    assert looks[-1]["rates"]["captured_per_second"] > 0
    assert all(names == [] for names in looks[-1]["routes"].values())
    assert (looks[-1]["lost"], looks[-1]["dead_letters"]) == (0, {"edge": 0, "cloud": 0})
    line = farm.command("watch", "--for", "0").stdout
    assert "captured" in line
    assert "lost 0" in line


def test_a_row_deleted_from_the_cloud_by_hand_does_not_balance(farm: Farm) -> None:
    keep = "CREATE TABLE kept AS SELECT * FROM telemetry_raw WHERE device_id = 'node-1' AND seq IN (5, 6)"
    farm.fetch("cloud", keep)
    delete = "DELETE FROM telemetry_raw WHERE device_id = 'node-1' AND seq IN (5, 6)"
    with changed_by_hand(farm, "cloud", delete, "INSERT INTO telemetry_raw SELECT * FROM kept"):
        told_people = farm.command("audit")
        assert told_people.returncode == exits.UNBALANCED
        assert "Does not balance: " in told_people.stdout
        assert "✗ node-1 at the cloud: 2, sequences 5 to 6 of stream " in told_people.stdout
        assert "last seen: " in told_people.stdout


def test_a_row_stored_twice_at_the_edge_does_not_balance(farm: Farm) -> None:
    insert = """INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value,
                                           stream_id, seq, sensor)
                SELECT '00000000-0000-0000-0000-000000000001', tenant_id, farm_id, barn_id, device_id, occurred_at,
                       metric_type, metric_value, stream_id, seq, sensor
                  FROM telemetry_raw WHERE device_id = 'node-1' AND seq = 5"""
    undo = "DELETE FROM telemetry_raw WHERE id = '00000000-0000-0000-0000-000000000001'"
    with changed_by_hand(farm, "edge", insert, undo):
        verdict = audited(farm, exits.UNBALANCED)
        assert [(one["kind"], one["tier"], one["count"]) for one in verdict["findings"]] == [
            ("stored_twice", "edge", 1)
        ]
        assert verdict["stored_twice"] == 1


def test_coverage_cut_at_either_tier_does_not_balance(farm: Farm) -> None:
    """What the outbox has delivered and the cloud has not any more; and what the cloud has and the edge forgot."""
    change = "UPDATE streams SET received = received {} '{{[{},{})}}' WHERE device_id = 'node-1'"
    cuts: list[tuple[Tier, int, int]] = [("cloud", 5, 9), ("edge", 11, 15)]
    for tier, first, end in cuts:
        farm.fetch(tier, change.format("-", first, end))
    try:
        findings = audited(farm, exits.UNBALANCED)["findings"]
    finally:
        for tier, first, end in cuts:
            farm.fetch(tier, change.format("+", first, end))
    ranges = {(one["kind"], one["tier"], one["first_seq"], one["last_seq"]) for one in findings}
    assert {
        ("lost_after_edge", None, 5, 8),
        ("not_covered", "cloud", 5, 8),
        ("edge_lacks", None, 11, 14),
        ("not_covered", "edge", 11, 14),
    } <= ranges


def test_a_picture_with_another_checksum_or_without_its_object_does_not_balance(farm: Farm) -> None:
    in_both = wait_for(
        lambda: farm.fetch(
            "cloud", "SELECT id, sha256, bucket, object_key FROM media_objects WHERE state = 'stored' LIMIT 1"
        ),
        120,
        "a picture in the cloud",
    )
    picture = in_both[0]
    change = "UPDATE media_objects SET sha256 = $2 WHERE id = $1"
    farm.fetch("cloud", change, picture["id"], "0" * 64)
    try:
        found = {one["kind"]: one for one in audited(farm, exits.UNBALANCED)["findings"]}
        assert found["picture_differs"]["subject"] == str(picture["id"])
    finally:
        farm.fetch("cloud", change, picture["id"], picture["sha256"])
    variables = farm.environment()
    store = boto3.client(
        "s3",
        endpoint_url=variables["CLOUD_S3_ENDPOINT"],
        aws_access_key_id=variables["CLOUD_S3_ACCESS_KEY"],
        aws_secret_access_key=variables["CLOUD_S3_SECRET_KEY"],
        region_name="us-east-1",
    )
    place = {"Bucket": picture["bucket"], "Key": picture["object_key"]}
    body = store.get_object(**place)["Body"].read()
    store.delete_object(**place)
    found = {one["kind"]: one for one in audited(farm, exits.UNBALANCED)["findings"]}
    assert (found["picture_object"]["tier"], found["picture_object"]["subject"]) == ("cloud", picture["object_key"])
    store.put_object(**place, Body=body)
    audited(farm)


def test_a_session_with_another_weight_in_the_cloud_does_not_balance(farm: Farm) -> None:
    ended = "SELECT id, final_weight_kg FROM weight_sessions WHERE status = 'finalized' AND final_weight_kg > 0 LIMIT 1"
    session = wait_for(lambda: farm.fetch("cloud", ended), 120, "a weigh session in the cloud")[0]
    audited(farm)
    change = "UPDATE weight_sessions SET final_weight_kg = $2 WHERE id = $1"
    farm.fetch("cloud", change, session["id"], session["final_weight_kg"] + 1)
    try:
        found = {one["kind"]: one for one in audited(farm, exits.UNBALANCED)["findings"]}
        assert found["session_differs"]["subject"] == str(session["id"])
        assert "final weight " in found["session_differs"]["what"]
    finally:
        farm.fetch("cloud", change, session["id"], session["final_weight_kg"])
    audited(farm)


def test_a_recorded_weight_that_is_another_in_the_cloud_does_not_balance(farm: Farm) -> None:
    recorded = "SELECT event_id FROM recorded_weights WHERE session_id IS NOT NULL LIMIT 1"
    event_id = wait_for(lambda: farm.fetch("cloud", recorded), 120, "a weight in the cloud")[0]["event_id"]
    change = f"UPDATE recorded_weights SET weight_kg = -weight_kg WHERE event_id = '{event_id}'"  # noqa: S608 - ours
    with changed_by_hand(farm, "cloud", change, change):
        found = {one["kind"]: one for one in audited(farm, exits.UNBALANCED)["findings"]}
        assert found["record_differs"]["subject"] == str(event_id)


def test_a_running_farm_has_the_same_content_at_both_tiers_until_a_row_is_changed(farm: Farm) -> None:
    change = (
        "UPDATE telemetry_raw SET metric_value = -metric_value WHERE device_id = 'node-1' AND seq BETWEEN 20 AND 22"
    )
    assert next(one for one in audited(farm)["devices"] if one["device_id"] == "node-1")["content_alike"] > 22
    with changed_by_hand(farm, "cloud", change, change):
        deep = json.loads(farm.command("audit", "--deep", "--json").stdout)
        assert [(one["kind"], one["tier"], one["first_seq"], one["last_seq"]) for one in deep["findings"]] == [
            ("rows_changed", "cloud", 20, 22),
            ("aggregates_changed", "cloud", None, None),
        ]
    assert farm.command("audit", "--deep").returncode == exits.OK


def test_of_one_device_that_has_not_measured_yet_it_is_said_so(farm: Farm) -> None:
    assert farm.command("device", "add", "pump-8", "--kind", "sensor").returncode == exits.OK
    told_people = farm.command("audit", "--device", "pump-8")
    assert told_people.returncode == exits.OK, told_people.stderr
    assert "The edge knows pump-8, and nothing was measured by it yet." in told_people.stdout
    silent = farm.command("audit", "--device", "pump-7", "--since", "1s")
    assert silent.returncode == exits.OK, silent.stderr
    assert farm.command("audit", "--device", "pump-9").returncode == exits.USAGE
