from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.timeseries.paging import (
    AfterBucket,
    AfterGap,
    AfterLoss,
    AfterReading,
    AfterSeries,
    AfterStream,
    BadCursor,
    cursor,
    position_of,
)

KINDS = (AfterReading, AfterBucket, AfterSeries, AfterStream, AfterGap, AfterLoss)
NOW = datetime(2026, 11, 16, 1, 2, 3, 456_789, tzinfo=UTC)


@pytest.mark.parametrize(
    "position",
    [
        AfterReading(NOW, uuid4()),
        AfterBucket(NOW, "", "°C_/+"),
        AfterSeries("node-1", "temperature", "", "%"),
        AfterStream("node-1", uuid4()),
        AfterGap(0),
        AfterLoss(2**61, uuid4()),
    ],
)
def test_a_position_comes_back_as_it_was(position: tuple[object, ...]) -> None:
    assert position_of(cursor(position), type(position)) == position
    assert cursor(position).isascii()


@given(st.text() | st.binary().map(lambda raw: urlsafe_b64encode(raw).decode()))
def test_whatever_else_is_handed_back_is_refused_by_name(text: str) -> None:
    for kind in KINDS:
        try:
            assert isinstance(position_of(text, kind), kind)
        except BadCursor:
            continue


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (("2026-11-16T00:00:00", str(uuid4())), AfterReading),
        (("2026-11-16T00:00:00+01:00", str(uuid4())), AfterReading),
        (("a\x00", "b", "c", "d"), AfterSeries),
        (("x" * 65, "b", "c", "d"), AfterSeries),
        ((-1,), AfterGap),
        ((2**63,), AfterGap),
        ((), AfterGap),
    ],
)
def test_a_position_that_the_database_could_not_read_is_refused(
    given: tuple[object, ...], kind: type[tuple[object, ...]]
) -> None:
    with pytest.raises(BadCursor):
        position_of(cursor(given), kind)
