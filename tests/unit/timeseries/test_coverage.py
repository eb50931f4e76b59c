from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from farmiq.timeseries.coverage import Span, contiguous_to, count, missing, normalise, without

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair))), max_size=8)


def members(given_spans: list[Span]) -> set[int]:
    return {seq for first, end in given_spans for seq in range(first, end)}


@given(spans)
def test_normalised_spans_hold_the_same_sequences_and_stand_apart(given_spans: list[Span]) -> None:
    joined = normalise(given_spans)
    assert members(joined) == members(given_spans)
    assert all(left[1] < right[0] for left, right in pairwise(joined))
    assert count(joined) == len(members(joined))


@given(spans, st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_missing_is_what_is_wanted_and_not_covered(given_spans: list[Span], wanted: Span) -> None:
    covered = normalise(given_spans)
    assert members(missing(covered, wanted)) == members([wanted]) - members(covered)


@given(spans, spans)
def test_without_is_set_subtraction(left: list[Span], right: list[Span]) -> None:
    assert members(without(normalise(left), normalise(right))) == members(left) - members(right)


@given(spans)
def test_the_mark_is_the_last_sequence_before_the_first_gap(given_spans: list[Span]) -> None:
    filled = normalise((first + 1, end + 1) for first, end in given_spans)
    mark = contiguous_to(filled)
    assert set(range(1, mark + 1)) <= members(filled)
    assert mark + 1 not in members(filled)
