from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.outbox.event import Lease
from farmiq.outbox.verdicts import Failure, RetryPolicy, acked, backoff_seconds, failed, released

POLICY = RetryPolicy()
REFUSED = Failure("HTTP_500", "the cloud failed")


def lease(attempt_count: int = 0) -> Lease:
    return Lease(id=UUID(int=1), claim_token=7, attempt_count=attempt_count, tenant_id="demo")


@pytest.mark.parametrize(
    ("attempt_count", "seconds"), [(1, 2), (2, 4), (3, 8), (8, 256), (9, 300), (10, 300), (5000, 300)]
)
def test_the_wait_doubles_up_to_the_cap(attempt_count: int, seconds: float) -> None:
    assert backoff_seconds(attempt_count, POLICY, jitter=0.0) == seconds


def test_jitter_comes_on_top_but_not_over_the_cap() -> None:
    assert backoff_seconds(1, POLICY, jitter=0.75) == 2.75
    assert backoff_seconds(9, POLICY, jitter=0.75) == 300


@given(
    attempt_count=st.integers(0, 2**31),
    jitter=st.floats(0, 1),
    cap=st.floats(0.1, 1e6),
    base=st.floats(0.001, 100),
)
def test_the_wait_is_never_nothing_and_never_over_the_cap(
    attempt_count: int, jitter: float, cap: float, base: float
) -> None:
    policy = RetryPolicy(backoff_base_seconds=base, backoff_cap_seconds=cap)
    wait = backoff_seconds(attempt_count, policy, jitter)
    assert 0 < wait <= cap
    assert wait <= backoff_seconds(attempt_count + 1, policy, jitter)


def test_a_failure_costs_an_attempt_and_waits() -> None:
    outcome = failed(lease(3), REFUSED, POLICY, jitter=0.5)
    assert (outcome.status, outcome.attempt_count, outcome.delay_seconds) == ("pending", 4, 16.5)
    assert outcome.failure == REFUSED


def test_the_last_attempt_ends_in_the_dlq() -> None:
    assert failed(lease(8), REFUSED, POLICY, jitter=0.0).status == "pending"
    outcome = failed(lease(9), REFUSED, POLICY, jitter=0.0)
    assert (outcome.status, outcome.attempt_count) == ("dlq", 10)


def test_a_release_costs_no_attempt_and_does_not_wait() -> None:
    outcome = released(lease(9), Failure("NETWORK_ERROR", "no route"))
    assert (outcome.status, outcome.attempt_count, outcome.delay_seconds) == ("pending", 9, 0.0)


def test_an_ack_leaves_the_attempts_as_they_were() -> None:
    outcome = acked(lease(4))
    assert (outcome.status, outcome.attempt_count, outcome.failure) == ("acked", 4, None)
