from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from farmiq.cloud.dead_letters.filters import Filter, matches
from farmiq.cloud.dead_letters.letters import Letter
from farmiq.cloud.dead_letters.summary import Groups

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
LETTER = Letter(
    message_id="m-1",
    reason="schema",
    detail="payload.metric_value",
    failed_at=AT,
    attempts=1,
    replays=0,
    exchange="farmiq.telemetry.exchange",
    routing_key="telemetry.ingested",
    event_type="telemetry.ingested",
    event_id="e-1",
    tenant_id="demo",
    trace_id=None,
    body_bytes=5,
)


@pytest.mark.parametrize(
    ("wanted", "is_meant"),
    [
        ({}, True),
        ({"reason": "schema"}, True),
        ({"reason": "schem"}, False),
        ({"event_type": "telemetry.ingested"}, True),
        ({"event_type": "telemetry.*"}, True),
        ({"event_type": "media.*"}, False),
        ({"tenant_id": "demo"}, True),
        ({"tenant_id": "other"}, False),
        ({"ids": ("x", "m-1")}, True),
        ({"ids": ("e-1",)}, True),
        ({"ids": ("x",)}, False),
        ({"since": AT, "until": AT + HOUR}, True),
        ({"since": AT + HOUR}, False),
        ({"until": AT}, False),
        ({"reason": "schema", "tenant_id": "other"}, False),
    ],
)
def test_every_part_of_a_filter_has_to_fit(wanted: dict[str, Any], is_meant: bool) -> None:
    assert matches(Filter(**wanted), LETTER) == is_meant


def test_letters_of_one_device_are_told_apart() -> None:
    own = msgspec.structs.replace(LETTER, device_id="node-1")
    assert [matches(Filter(device_id="node-1"), letter) for letter in (own, LETTER)] == [True, False]


def test_a_letter_without_a_time_is_in_no_range() -> None:
    timeless = msgspec.structs.replace(LETTER, failed_at=None)

    assert matches(Filter(), timeless)
    assert not matches(Filter(since=AT - HOUR), timeless)
    assert not matches(Filter(until=AT + HOUR), timeless)


def test_letters_are_counted_by_reason_and_type_with_the_largest_group_first() -> None:
    groups = Groups()
    for letter in (
        LETTER,
        msgspec.structs.replace(LETTER, reason="refused", failed_at=AT + HOUR),
        msgspec.structs.replace(LETTER, reason="refused", failed_at=AT),
        msgspec.structs.replace(LETTER, reason="refused", failed_at=None),
    ):
        groups.add(letter)

    first, second = groups.largest_first()
    assert (first.reason, first.count, first.first_failed_at, first.last_failed_at) == ("refused", 3, AT, AT + HOUR)
    assert (second.reason, second.count) == ("schema", 1)


def test_more_kinds_than_anybody_reads_are_counted_together() -> None:
    groups = Groups()
    for number in range(Groups.GROUPS_MAX + 50):
        groups.add(msgspec.structs.replace(LETTER, event_type=f"kind.{number}"))

    counted = groups.largest_first()
    assert len(counted) == Groups.GROUPS_MAX + 1
    assert (counted[0].event_type, counted[0].count) == ("*", 50)
