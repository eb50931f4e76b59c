from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from farmiq.cloud.ingestion.pace import BURST_SECONDS, Pace
from farmiq.kit.clock import Clock


class HandClock(Clock):
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


def test_after_a_burst_the_edge_waits_and_its_neighbour_does_not() -> None:
    clock = HandClock()
    pace = Pace(10, clock)
    assert [pace.wait_seconds("edge-1") for _ in range(20)] == [0] * 20
    assert pace.wait_seconds("edge-1") == 1
    assert pace.wait_seconds("edge-2") == 0
    clock.seconds += 0.1
    assert [pace.wait_seconds("edge-1") for _ in range(2)] == [0, 1]


@given(gaps=st.lists(st.floats(0, 3), max_size=200), per_second=st.integers(1, 50))
def test_no_edge_gets_more_than_its_pace_and_whoever_waits_as_told_gets_in(gaps: list[float], per_second: int) -> None:
    clock = HandClock()
    pace = Pace(per_second, clock)
    began, let_in = clock.seconds, 0
    for gap in gaps:
        clock.seconds += gap
        wait = pace.wait_seconds("edge-1")
        let_in += wait == 0
        assert let_in <= (clock.seconds - began + BURST_SECONDS) * per_second + 1e-6
        if wait:
            clock.seconds += wait
            assert pace.wait_seconds("edge-1") == 0
            let_in += 1


def test_memory_is_bounded_by_edges_that_are_not_full() -> None:
    clock = HandClock()
    pace = Pace(1, clock, edges_max=3)
    for number in range(50):
        clock.seconds += 1.5
        assert pace.wait_seconds(f"edge-{number}") == 0
    assert len(pace._full_at) <= 3
