from hypothesis import given
from hypothesis import strategies as st

from farmiq.edge.sync_forwarder.pictures.bandwidth import Bandwidth


def test_an_idle_lane_may_send_a_seconds_worth_at_once_and_then_keeps_to_the_rate() -> None:
    bandwidth = Bandwidth(1000, now=0.0)
    assert bandwidth.wait_seconds(1000, 0.0) == 0.0
    assert bandwidth.wait_seconds(500, 0.0) == 0.5
    assert bandwidth.wait_seconds(500, 0.0) == 1.0
    assert bandwidth.wait_seconds(500, 1.5) == 0.0


def test_no_limit_is_no_wait() -> None:
    assert Bandwidth(0, now=0.0).wait_seconds(10**12, 0.0) == 0.0


@given(
    st.integers(1, 10**6),
    st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 100)), min_size=1, max_size=50),
)
def test_whatever_is_asked_for_no_more_than_rate_and_burst_has_been_sent_at_any_time(
    rate: int, asked: list[tuple[int, float]]
) -> None:
    bandwidth, now, taken = Bandwidth(rate, now=0.0), 0.0, 0
    for size, pause in asked:
        now += pause
        sent_at = now + bandwidth.wait_seconds(size, now)
        taken += size
        # What was taken is paid for at the latest when it is sent.
        assert taken <= rate * (sent_at + 1) * (1 + 1e-9) + 1
