import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import typer
from msgspec.structs import replace

from farmiq.audit.balance import Balance
from farmiq.audit.device_hours import Hour
from farmiq.audit.devices import DeviceBalance
from farmiq.audit.findings import found
from farmiq.cli import exits
from farmiq.cli.audit_progress import Lines
from farmiq.cli.audit_report import finding_lines, notes, sentence, tell, telling_first, uneven_hours

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
DEVICE = DeviceBalance(
    tenant_id="demo",
    device_id="node-1",
    captured=1_234_567,
    stored=1_234_560,
    lost=0,
    in_flight={"edge_outbox": 7},
    dead_lettered=0,
    missing=0,
    at_edge=1_234_567,
    single=0,
    stored_twice=0,
    rows_counted={"edge": 1_234_567, "cloud": 1_234_560},
    hours=[Hour(AT, 60, 60, 60, 0, 0), Hour(AT + timedelta(hours=1), 60, 60, 53, 0, 7)],
    findings=[],
)
GOOD = Balance(
    balanced=True,
    captured=1_234_567,
    stored=1_234_560,
    lost=0,
    in_flight=7,
    in_flight_at={"edge_outbox": 7},
    dead_lettered=0,
    unexplained=0,
    duplicates_removed=3,
    stored_twice=0,
    asked_at=AT,
    since=AT,
    until=AT,
    devices=[DEVICE],
    weighings=[],
    findings=[],
    events_waiting={},
    elsewhere=[],
    notes=[],
)
GAP = found("lost_after_edge", "demo", "node-1/s", 12, device_id="node-1", stream_id=UUID(int=5), span=(100, 112))
BAD = replace(GOOD, balanced=False, unexplained=12, dead_lettered=2, findings=[GAP])


def test_the_first_sentence_is_the_sum() -> None:
    assert sentence(GOOD) == (
        "Balanced: 1 device, 1,234,567 captured = 1,234,560 stored in the cloud + 0 declared lost + 7 in flight (edge outbox 7)."
    )
    assert sentence(BAD).startswith("Does not balance: 1 device, ")
    assert sentence(BAD).endswith(" + 2 dead letters + 12 unexplained.")


def test_a_finding_says_which_sequences_where_they_were_seen_and_what_helps() -> None:
    first, what, seen, fix = finding_lines(GAP)
    assert first == f"✗ node-1: 12, sequences 100 to 111 of stream {UUID(int=5)}"
    assert what.strip() == GAP.what
    assert seen == "  last seen: in the edge's database, and taken by cloud-ingestion"
    assert fix == (
        "  do this: farmiq dlq ls --service cloud-telemetry-service; "
        "if nothing is there, farmiq cloud resend --since TIME --yes"
    )


def test_people_see_the_hours_that_are_not_all_in_the_cloud(capsys: pytest.CaptureFixture[str]) -> None:
    assert [hour.in_flight for _, hour in uneven_hours(GOOD)] == [7]
    tell(GOOD, as_json=False)
    told = capsys.readouterr().out
    assert "node-1  2026-11-01 13:00  captured 60, at the edge 60, in the cloud 53, lost 0, on the way 7" in told
    assert "Duplicates removed since the services started: 3. Stored twice: 0." in told


def test_an_hour_with_something_that_nothing_explains_stands_first(capsys: pytest.CaptureFixture[str]) -> None:
    torn = replace(DEVICE, hours=[Hour(AT, 60, 60, 48, 0, 0, 12), *DEVICE.hours[1:]])
    with pytest.raises(typer.Exit):
        tell(replace(BAD, devices=[torn]), as_json=False)
    first = capsys.readouterr().out.partition("Hours of which")[2].splitlines()[1]
    assert first.endswith("12:00  captured 60, at the edge 60, in the cloud 48, lost 0, on the way 0, unexplained 12")


@pytest.mark.parametrize("as_json", [True, False])
def test_the_exit_code_says_whether_it_balances(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    tell(GOOD, as_json=as_json)
    with pytest.raises(typer.Exit) as ended:
        tell(BAD, as_json=as_json)
    assert ended.value.exit_code == exits.UNBALANCED
    assert "lost_after_edge" in capsys.readouterr().out or not as_json


def test_json_has_the_keys_that_programs_read(capsys: pytest.CaptureFixture[str]) -> None:
    tell(GOOD, as_json=True)
    told = json.loads(capsys.readouterr().out)
    wanted = {"balanced": True, "captured": 1_234_567, "stored": 1_234_560, "lost": 0, "in_flight": 7}
    assert wanted.items() <= told.items()
    assert told["duplicates_removed"] == 3
    assert [device["device_id"] for device in told["devices"]] == ["node-1"]
    assert len(told["devices"][0]["hours"]) == 2


def test_what_was_not_looked_at_is_said() -> None:
    blind = replace(DEVICE, rows_counted={"edge": None, "cloud": None}, said_at=AT)
    said = notes(
        replace(GOOD, devices=[blind], elsewhere=["node-9"], events_waiting={"media.stored": 2}, notes=["more"])
    )
    assert "0 of the rows that were counted" in said[0]
    assert any("--deep counts every row" in note for note in said)
    assert any("what they said last, at the earliest 2026-11-01 12:00:00 UTC" in note for note in said)
    assert any("1 more devices, of which this edge has no record" in note and "node-9" in note for note in said)
    assert any("2 media.stored" in note for note in said)
    assert said[-1] == "more"


def test_devices_that_do_not_balance_stand_first() -> None:
    done = replace(DEVICE, device_id="a", stored=DEVICE.captured)
    wrong = replace(DEVICE, device_id="z", findings=[GAP])
    assert [one.device_id for one in telling_first([done, DEVICE, wrong])] == ["z", "node-1", "a"]


def test_progress_is_said_only_when_it_takes_long() -> None:
    said: list[str] = []
    times = iter([0.0, 1.0, 6.0, 7.0])
    lines = Lines(said.append, lambda: next(times))
    for devices in (20, 40, 60):
        lines("cloud-telemetry-service", devices)
    assert said == ["cloud-telemetry-service: 40 devices\n"]
