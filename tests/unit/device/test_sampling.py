from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.node_agent.drivers.simulated import SimulatedBarn
from farmiq.device.node_agent.sampler import next_due
from farmiq.device.node_agent.time_quality import SYNCHRONISED, UNKNOWN, time_quality


@given(late_seconds=st.floats(0, 1000), interval_seconds=st.floats(0.01, 60))
def test_the_next_sample_is_due_ahead_on_the_grid_and_less_than_two_steps_away(
    late_seconds: float, interval_seconds: float
) -> None:
    due_at, now = 500.0, 500.0 + late_seconds
    following = next_due(due_at, now, interval_seconds)
    steps = (following - due_at) / interval_seconds
    assert abs(steps - round(steps)) < 1e-6
    assert now - 1e-6 <= following <= now + interval_seconds + 1e-6


def test_a_sample_in_time_is_followed_by_the_next_point_of_the_grid() -> None:
    assert next_due(500.0, 500.01, 1.0) == 501.0
    assert next_due(500.0, 503.7, 1.0) == 504.0


def test_the_same_seed_measures_the_same_barn_and_afternoons_are_warmer_than_nights() -> None:
    night, afternoon = datetime(2025, 7, 1, 3, tzinfo=UTC), datetime(2025, 7, 1, 15, tzinfo=UTC)
    barn, same, other = SimulatedBarn("node-1"), SimulatedBarn("node-1"), SimulatedBarn("node-2")
    first = barn.read(night)
    assert first == same.read(night) != other.read(night)
    assert [channel for channel, _ in first] == list(range(len(barn.channels)))
    assert barn.read(afternoon)[0][1] > first[0][1] + 4


def test_the_time_quality_follows_the_mark_of_the_time_service(tmp_path: Path) -> None:
    mark = tmp_path / "synchronized"
    assert time_quality(mark) == UNKNOWN
    mark.touch()
    assert time_quality(mark) == SYNCHRONISED
