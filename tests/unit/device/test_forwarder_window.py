from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.node_forwarder.pace import Pace
from farmiq.device.node_forwarder.window import SAMPLES_MAX, SAMPLES_MIN, Window


def send(window: Window, first: int, count: int, at: float) -> int:
    window.sent(first, first + count - 1, at)
    return first + count - 1


def drain(window: Window, lag_seconds: float, batches: int) -> float:
    """Fill the window whenever there is room; each batch is acknowledged `lag_seconds` later. How many seconds it took."""
    window.start_over()
    last, now, on_the_way = 0, 0.0, deque[tuple[float, int]]()
    for _ in range(batches):
        while window.has_room:
            last = send(window, last + 1, 500, now)
            on_the_way.append((now + lag_seconds, last))
        now, acked = on_the_way.popleft()
        window.acknowledged(acked, [], now)
    return now


def test_an_edge_that_answers_at_once_gets_more_and_more() -> None:
    window = Window()
    drain(window, 0.05, 2000)
    assert window.samples == SAMPLES_MAX


def test_an_edge_that_lags_gets_less_but_is_still_caught_up_with() -> None:
    window = Window()
    drain(window, 0.05, 2000)
    drain(window, 5.0, 2000)
    assert window.samples == SAMPLES_MIN
    assert 1000 * 500 / drain(window, 5.0, 1000) >= SAMPLES_MIN / 5.0


def test_nothing_is_sent_to_a_silent_edge_beyond_the_window() -> None:
    window, last = Window(), 0
    while window.has_room:
        last = send(window, last + 1, 500, 0.0)
    assert last == SAMPLES_MIN
    window.acknowledged(250, [], 1.0)
    assert not window.has_room
    window.acknowledged(500, [], 1.0)
    assert window.has_room


def test_what_the_edge_names_above_its_mark_makes_room_too() -> None:
    window, last = Window(), 0
    while window.has_room:
        last = send(window, last + 1, 500, 0.0)
    window.acknowledged(0, [(501, 1500)], 10.0)
    assert window.has_room


def test_starting_over_waits_for_nothing_that_was_sent_before() -> None:
    window, last = Window(), 0
    while window.has_room:
        last = send(window, last + 1, 500, 0.0)
    window.start_over()
    assert window.has_room


@given(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 30), st.booleans()), max_size=60))
def test_the_window_keeps_its_bounds_and_never_counts_below_zero(steps: list[tuple[int, float, bool]]) -> None:
    window, last, now = Window(), 0, 0.0
    for count, seconds, is_acknowledged in steps:
        now += seconds
        if window.has_room:
            last = send(window, last + 1, count, now)
        if is_acknowledged:
            window.acknowledged(last, [], now)
            assert window.has_room
        assert SAMPLES_MIN <= window.samples <= SAMPLES_MAX


def test_the_forecast_follows_the_last_minute() -> None:
    pace = Pace()
    for second in range(200):
        # Ten samples a second until the last minute, then twenty; the backlog gets less by a hundred a second.
        captured = 10 * second if second < 139 else 1390 + 20 * (second - 139)
        pace.look(float(second), captured, 30_000 - 100 * second)
    assert pace.captured_per_second == 20.0
    assert pace.drain_seconds() == (30_000 - 19_900) / 100
    assert pace.runway_seconds(room_bytes=80_000, bytes_per_sample=40) == 100.0


def test_there_is_no_forecast_without_a_trend() -> None:
    pace = Pace()
    pace.look(0.0, 100, 50)
    assert pace.drain_seconds() is None
    assert pace.runway_seconds(1000, 40) is None
    pace.look(1.0, 100, 60)
    assert pace.drain_seconds() is None
    pace.look(2.0, 100, 0)
    assert pace.drain_seconds() == 0.0
