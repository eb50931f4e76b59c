from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from farmiq.cli.errors import CommandFailed
from farmiq.cli.up import DEATHS_MAX, STEADY_SECONDS, Patience, is_steady, log_end, not_healthy
from farmiq.stack.state import ChildState, Health, StackState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def service(
    state: Health = "healthy",
    *,
    restarts: int = 0,
    last_exit: str | None = None,
    port: int | None = 5103,
    age_seconds: float = 60,
    log: str = "gateway.log",
) -> ChildState:
    return ChildState(
        name="edge-ingress-gateway",
        kind="service",
        state=state,
        since=NOW - timedelta(seconds=age_seconds),
        log=log,
        restarts=restarts,
        last_exit=last_exit,
        port=port,
    )


def running(*children: ChildState) -> StackState:
    return StackState(home="home", phase="running", children=list(children))


def test_progress_is_passed_on_while_there_is_hope() -> None:
    seen: list[StackState] = []
    patience = Patience(seen.append)
    states = [running(service("starting")), running(service("backoff", restarts=1, last_exit="signal SIGKILL"))]
    for state in states:
        patience(state)
    assert seen == states


def test_a_child_that_refuses_its_settings_is_given_up_at_once(tmp_path: Path) -> None:
    log = tmp_path / "gateway.log"
    log.write_text('{"message":"settings_refused","reason":"MQTT_URL is missing"}\n')
    patience = Patience(lambda _: None)
    patience(running(service("starting", log=str(log))))
    with pytest.raises(CommandFailed) as failed:
        patience(running(service("backoff", restarts=1, last_exit="exit code 78", log=str(log))))
    assert str(failed.value) == "edge-ingress-gateway did not become healthy"
    assert "settings_refused" in failed.value.why
    assert "MQTT_URL is missing" in failed.value.why
    assert failed.value.fix.startswith("farmiq logs edge-ingress-gateway")


def test_a_child_that_dies_again_and_again_is_given_up() -> None:
    patience = Patience(lambda _: None)
    patience(running(service("healthy", restarts=7)))
    patience(running(service("backoff", restarts=7 + DEATHS_MAX - 1, last_exit="exit code 1")))
    with pytest.raises(CommandFailed):
        patience(running(service("backoff", restarts=7 + DEATHS_MAX, last_exit="exit code 1")))


def test_deaths_of_long_ago_do_not_count() -> None:
    patience = Patience(lambda _: None)
    patience(running(service("starting", restarts=50, last_exit="exit code 78")))
    assert patience.deaths_of(service(restarts=50)) == 0


def test_a_service_without_a_port_must_have_lived_a_while() -> None:
    patience = Patience(lambda _: None)
    young, old = STEADY_SECONDS / 2, STEADY_SECONDS * 2
    assert not is_steady(running(service(port=None, age_seconds=young)), patience, NOW)
    assert is_steady(running(service(port=None, age_seconds=old)), patience, NOW)
    assert is_steady(running(service(port=5103, age_seconds=young)), patience, NOW)


def test_a_service_that_died_must_have_lived_a_while_since() -> None:
    patience = Patience(lambda _: None)
    patience(running(service("starting")))
    assert not is_steady(running(service(restarts=1, age_seconds=0)), patience, NOW)
    assert is_steady(running(service(restarts=1, age_seconds=STEADY_SECONDS)), patience, NOW)


def test_the_reason_stands_beside_each_name() -> None:
    failed = not_healthy([service("backoff", last_exit="signal SIGKILL", log="/nowhere/gateway.log")])
    assert "edge-ingress-gateway is backoff: it ended with signal SIGKILL" in failed.why
    assert "(it is empty)" in failed.why


def test_only_the_end_of_a_log_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert log_end(str(log), 2) == "  line 98\n  line 99"
