from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from farmiq.spool.ranges import Range, merged, runs, without

any_range = st.tuples(st.integers(1, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def members(ranges: list[Range]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


@given(st.lists(any_range))
def test_merging_keeps_the_members_and_leaves_gaps_between(ranges: list[Range]) -> None:
    joined = merged(ranges)
    assert members(joined) == members(ranges)
    assert all(left[1] + 1 < right[0] for left, right in pairwise(joined))


@given(any_range, st.lists(any_range))
def test_what_is_left_is_what_nobody_covers(whole: Range, covered: list[Range]) -> None:
    left = without(whole, covered)
    assert members(left) == members([whole]) - members(covered)
    assert left == merged(left)


@given(st.sets(st.integers(0, 50)))
def test_runs_name_the_same_numbers(numbers: set[int]) -> None:
    assert members(runs(numbers)) == numbers
