import random

from hypothesis import given
from hypothesis import strategies as st

from farmiq.kit.retry import Backoff


@given(base=st.floats(0.01, 10), cap=st.floats(0.01, 1000), seed=st.integers(), tries=st.integers(1, 200))
def test_every_pause_is_between_half_of_its_ceiling_and_the_ceiling(
    base: float, cap: float, seed: int, tries: int
) -> None:
    backoff = Backoff(base, cap, random.Random(seed))

    for failure in range(tries):
        ceiling = min(base * 2.0**failure, cap)
        assert ceiling / 2 <= backoff.next_seconds() <= ceiling
    assert backoff.failures == tries


def test_a_success_starts_again_at_the_bottom() -> None:
    backoff = Backoff(1.0, 300.0, random.Random(1))
    for _ in range(2000):  # longer than an exponent could grow
        backoff.next_seconds()
    backoff.reset()

    assert backoff.next_seconds() <= 1.0


def test_a_fleet_does_not_return_in_step() -> None:
    pauses = {round(Backoff(10.0, 300.0, random.Random(seed)).next_seconds(), 3) for seed in range(100)}

    assert len(pauses) > 90
