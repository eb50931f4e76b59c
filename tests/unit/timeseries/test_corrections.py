"""The correction of stored samples, made once more from their two times."""

import random
from uuid import UUID

import msgspec
import pytest

from farmiq.contracts.telemetry import TimeSegment
from farmiq.timeseries.samples import correction_between
from support.telemetry import START_US, batch_of

STREAM = UUID("00000000-0000-7000-8000-0000000000dd")


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_made_of_rows_has_the_times_that_they_have(seed: int) -> None:
    chance = random.Random(seed)
    last = chance.randint(1, 700)
    times = sorted(chance.randrange(10**10) for _ in range(last))
    firsts = sorted({1, *(chance.randint(1, last) for _ in range(chance.randint(0, 3)))})
    segments = [
        TimeSegment(first, times[first - 1], START_US + chance.randrange(10**9), chance.randrange(-200_000, 200_000))
        for first in firsts
    ]
    batch = msgspec.structs.replace(batch_of(STREAM, 1, last), t=times, time_correction=segments)
    made = correction_between(1, batch.t, batch.occurred_us)
    again = msgspec.structs.replace(batch, time_correction=made).occurred_us
    assert max(abs(one - other) for one, other in zip(batch.occurred_us, again, strict=True)) <= 1
    assert len(made) <= 30 * len(segments)


def test_a_clock_that_was_wrong_by_one_amount_takes_one_segment() -> None:
    assert correction_between(7, [10, 20, 30], [1010, 1020, 1030]) == [TimeSegment(7, 10, 1000, 0)]
