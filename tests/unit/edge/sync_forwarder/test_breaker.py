from hypothesis import given
from hypothesis import strategies as st

from farmiq.edge.sync_forwarder.breaker import RETRY_AFTER_SECONDS_MAX, Breaker, pause_seconds


def test_the_pause_doubles_up_to_the_cap() -> None:
    assert [pause_seconds(failures, None, 60, 0.0) for failures in (1, 2, 3, 6, 1000)] == [2, 4, 8, 60, 60]


def test_retry_after_makes_the_pause_longer_and_never_shorter() -> None:
    assert pause_seconds(1, 120.0, 60, 0.0) == 120
    assert pause_seconds(5, 1.0, 60, 0.0) == 32


@given(failures=st.integers(0, 10**6), asked=st.none() | st.floats(0, 1e12), jitter=st.floats(0, 1))
def test_no_answer_silences_a_farm_for_longer_than_an_hour(failures: int, asked: float | None, jitter: float) -> None:
    assert 0 < pause_seconds(failures, asked, 60, jitter) <= RETRY_AFTER_SECONDS_MAX + 1


def test_only_a_breaker_without_failures_is_closed() -> None:
    assert Breaker().is_closed
    assert not Breaker(consecutive_failures=1).is_closed
    assert not Breaker(consecutive_failures=1, is_paused=True).is_closed
