from collections.abc import Sequence
from uuid import UUID

import pytest

from farmiq.backup.drill_ledger import Missing, StreamSum, TierSum, ledger_of, missing_from
from farmiq.backup.verify import differing_rows

STREAM, FIRST, SECOND = UUID(int=1), UUID(int=2), UUID(int=3)


def tier(sessions: set[UUID], pictures: Sequence[tuple[UUID | None, str]], **changes: int) -> TierSum:
    sums = {"uncovered": 0, "not_stored": 0, "rows": 100, "rows_twice": 0, "lost": 0} | changes
    stream = StreamSum(stream_id=STREAM, **sums)
    return TierSum(tier="edge", streams={STREAM: stream}, sessions=sessions, pictures=list(pictures))


BEFORE = ledger_of(
    {STREAM: 100}, [tier({FIRST}, [(FIRST, "aa")]), tier({FIRST, SECOND}, [(FIRST, "aa"), (SECOND, "bb")])]
)


def left(now: TierSum) -> Missing:
    return missing_from(BEFORE, now)


def test_what_any_tier_had_must_be_there_again() -> None:
    whole = [(FIRST, "aa"), (SECOND, "bb")]
    assert left(tier({FIRST, SECOND}, [*whole, (None, "cc")])).is_nothing
    assert left(tier({FIRST}, [*whole])).sessions == [str(SECOND)]
    assert left(tier({FIRST, SECOND}, [(FIRST, "aa")])).pictures == [f"bb of session {SECOND}"]


@pytest.mark.parametrize("what", ["uncovered", "not_stored", "rows_twice"])
def test_a_sequence_that_is_covered_and_in_no_row_is_missing_too(what: str) -> None:
    now = tier({FIRST, SECOND}, [(FIRST, "aa"), (SECOND, "bb")], **{what: 1})
    assert not left(now).is_nothing


def test_what_is_declared_lost_is_not_missing() -> None:
    now = tier({FIRST, SECOND}, [(FIRST, "aa"), (SECOND, "bb")], lost=7)
    assert left(now).is_nothing
    assert left(tier(set(), [], uncovered=2, not_stored=3)).samples == {str(STREAM): 5}


def test_a_picture_that_is_there_twice_is_counted() -> None:
    now = tier({FIRST, SECOND}, [(FIRST, "aa"), (FIRST, "aa"), (SECOND, "bb")])
    assert (left(now).pictures_twice, left(now).is_nothing) == (1, True)


def test_rows_are_compared_table_by_table() -> None:
    assert differing_rows({"a": 1, "b": 2}, {"a": 1, "b": 2}) == []
    assert differing_rows({"a": 1, "b": 2}, {"b": 3, "c": 4}) == [
        "a has 0 rows instead of 1",
        "b has 3 rows instead of 2",
        "c has 4 rows instead of 0",
    ]
