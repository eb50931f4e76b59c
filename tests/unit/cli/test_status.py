from datetime import UTC, datetime

import pytest

from farmiq.cli import exits, status
from farmiq.cli.hops import Hop
from farmiq.stack.state import ChildState, Health, Phase, StackState


def stack(phase: Phase, state: Health = "healthy") -> StackState:
    child = ChildState(name="postgres", kind="server", state=state, since=datetime(2026, 1, 1, tzinfo=UTC), log="")
    return StackState(home="home", phase=phase, children=[child])


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (stack("running"), exits.OK),
        (stack("running", "backoff"), exits.FAILED),
        (stack("starting"), exits.FAILED),
        (stack("stopped", "stopped"), exits.NOT_RUNNING),
        (stack("failed", "stopped"), exits.NOT_RUNNING),
    ],
)
def test_the_exit_code_tells_whether_all_is_well(state: StackState, code: int) -> None:
    assert status.exit_code(state) == code


def test_json_has_the_children_and_the_hops() -> None:
    told = status.as_data(
        stack("running"), [Hop("cloud-ingestion", {"accepted": 3}), Hop("x", problem="does not listen")]
    )
    assert told["is_healthy"] is True
    assert told["children"][0]["name"] == "postgres"
    assert told["children"][0]["since"] == "2026-01-01T00:00:00Z"
    assert told["hops"] == [
        {"name": "cloud-ingestion", "counts": {"accepted": 3}, "problem": None},
        {"name": "x", "counts": {}, "problem": "does not listen"},
    ]
