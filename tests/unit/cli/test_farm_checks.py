from datetime import UTC, datetime
from pathlib import Path

from farmiq.cli import farm_checks
from farmiq.cli.checks import Verdict
from farmiq.stack.processes import Process
from farmiq.stack.state import ChildState, Health, Phase, StackState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STRAY = Process(pid=7, started_ticks=1, command="/usr/sbin/mosquitto")


def child(state: Health = "healthy", restarts: int = 0, problem: str | None = None) -> ChildState:
    return ChildState(
        name="mosquitto", kind="server", state=state, since=NOW, log="", pid=7, port=1883, restarts=restarts,
        last_exit="signal SIGKILL" if restarts else None, problem=problem,
    )  # fmt: skip


def stack(phase: Phase = "running", *children: ChildState, problem: str | None = None) -> StackState:
    return StackState(home="home", phase=phase, supervisor_pid=1, problem=problem, children=list(children))


def test_a_supervisor_that_was_killed_is_a_failure_and_one_that_was_stopped_is_not() -> None:
    assert farm_checks.check_supervisor(stack("running")).verdict is Verdict.OK
    assert farm_checks.check_supervisor(stack("stopped")).verdict is Verdict.OK
    killed = farm_checks.check_supervisor(stack("stopped", problem="the supervisor was killed"))
    assert (killed.verdict, killed.fix) == (Verdict.FAILED, "farmiq down, then farmiq up")


def test_each_child_of_a_running_farm_is_checked() -> None:
    assert farm_checks.check_children(stack("stopped", child("unhealthy"))) == []
    healthy, restarted, ill = farm_checks.check_children(
        stack("running", child(), child(restarts=2), child("unhealthy", problem="refused"))
    )
    assert healthy.verdict is Verdict.OK
    assert restarted.verdict is Verdict.WARNING
    assert "restarted 2 times, last after signal SIGKILL" in restarted.found
    assert (ill.verdict, ill.found) == (Verdict.FAILED, "unhealthy: refused")
    assert ill.fix == "farmiq logs mosquitto"


def test_processes_without_a_supervisor_are_leftovers() -> None:
    assert farm_checks.check_leftovers(stack("running"), [STRAY]).verdict is Verdict.OK
    assert farm_checks.check_leftovers(stack("stopped"), []).verdict is Verdict.OK
    left = farm_checks.check_leftovers(stack("stopped"), [STRAY])
    assert (left.verdict, left.fix) == (Verdict.FAILED, "farmiq down")
    assert "7 (mosquitto)" in left.found


def test_a_remembered_port_that_somebody_took_is_named() -> None:
    ports = {"postgres": 5432, "mosquitto": 1883}
    assert farm_checks.check_ports(stack("stopped"), {}, lambda _: False).verdict is Verdict.OK
    assert farm_checks.check_ports(stack("running"), ports, lambda _: False).verdict is Verdict.OK
    assert farm_checks.check_ports(stack("stopped"), ports, lambda _: True).verdict is Verdict.OK
    taken = farm_checks.check_ports(stack("stopped"), ports, lambda port: port != 1883)
    assert taken.verdict is Verdict.WARNING
    assert "1883 (mosquitto)" in taken.found
    assert "5432" not in taken.found


def test_ports_are_remembered_in_a_file_that_may_not_be_there_yet(tmp_path: Path) -> None:
    assert farm_checks.remembered_ports(tmp_path / "ports.json") == {}
    (tmp_path / "ports.json").write_text('{"postgres": 5432}')
    assert farm_checks.remembered_ports(tmp_path / "ports.json") == {"postgres": 5432}


def test_test_messages_that_vanish_are_a_failure_with_the_page_that_helps() -> None:
    assert farm_checks.check_canary(None).verdict is Verdict.OK
    lost = farm_checks.check_canary("9 of the last 20 rounds of test messages were not acknowledged (event)")
    assert lost.verdict is Verdict.FAILED
    assert lost.fix.endswith("runbook.md#farmiqcanarylost")
