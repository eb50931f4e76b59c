from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import msgspec
import pytest

from farmiq.console.fleet.answers import Loss, Losses, LossSum, LossSummary, StationLoss, StationLosses
from farmiq.console.fleet.causes import NODE_CAUSES, STATION_CAUSES
from farmiq.console.fleet.ledger import (
    REASON_CHARS_MAX,
    LedgerQuestion,
    entries_of,
    ledger_sentence,
    months_of,
    next_page,
)
from farmiq.contracts.station import LossReason
from farmiq.kit.http_server import ApiError
from farmiq.spool import Cause
from farmiq.timeseries.paging import BeforeLoss, position_of

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def loss(number: int, at: datetime = NOW, recorded: datetime = NOW, reason: str = "cap_reached") -> Loss:
    return Loss(UUID(int=number), "node-1", UUID(int=99), 1, 10, 10, reason, at, recorded)


def station(number: int, payload: Any, at: datetime = NOW) -> StationLoss:
    return StationLoss(UUID(int=number), at, NOW, msgspec.Raw(msgspec.json.encode(payload)), "station-1")


def test_a_loss_that_both_tiers_know_is_one_entry_with_both_times() -> None:
    later = NOW + timedelta(minutes=1)
    found = entries_of(Losses([loss(1), loss(2)]), Losses([loss(2, recorded=later), loss(3)]), None)
    assert [(entry.event_id.int, entry.at_edge, entry.in_cloud) for entry in found] == [
        (3, None, NOW), (2, NOW, later), (1, NOW, None),
    ]  # fmt: skip
    assert found[0].cause == NODE_CAUSES["cap_reached"]


def test_the_newest_stands_first_and_stations_stand_between_the_nodes() -> None:
    told = {"reason": "too_old", "count": 2, "pictures": 1}
    found = entries_of(
        Losses([loss(1, NOW - timedelta(hours=2)), loss(2, NOW)]),
        None,
        StationLosses([station(5, told, NOW - timedelta(hours=1))]),
    )
    assert [entry.kind for entry in found] == ["node", "station", "node"]
    assert (found[1].count, found[1].pictures, found[1].cause) == (2, 1, STATION_CAUSES["too_old"])


@pytest.mark.parametrize("payload", [[], {"reason": 5}, "x", {"count": "many", "reason": "too_old"}, None])
def test_an_event_that_only_looks_like_a_loss_is_shown_and_spoils_no_other(payload: object) -> None:
    found = entries_of(None, None, StationLosses([station(1, payload), station(2, {"reason": "too_old"})]))
    assert sorted((entry.reason, entry.is_count_exact) for entry in found) == [
        ("not readable", False),
        ("too_old", True),
    ]


def test_an_endless_reason_is_cut() -> None:
    (entry,) = entries_of(None, None, StationLosses([station(1, {"reason": "<script>" * 1000})]))
    assert len(entry.reason) == REASON_CHARS_MAX


def test_every_cause_that_a_node_or_a_station_knows_has_words() -> None:
    assert set(NODE_CAUSES) == {cause.value for cause in Cause}
    assert set(STATION_CAUSES) == set(get_args(LossReason))


def test_the_next_page_begins_behind_the_last_entry_that_is_shown() -> None:
    found = entries_of(Losses([loss(number) for number in range(1, 6)]), None, None)
    assert next_page(found, 5) is None
    after = next_page(found, 2)
    assert after is not None
    assert position_of(after, BeforeLoss) == (NOW, UUID(int=4))


def test_months_add_up_the_causes_newest_first() -> None:
    october, november = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
    sums = [LossSum("a", october, 1, 10), LossSum("b", october, 2, 20), LossSum("a", november, 3, 30)]
    months = months_of(LossSummary(6, 60, NOW, NOW, sums))
    assert [(month.at, month.records, month.samples) for month in months] == [(november, 3, 30), (october, 3, 30)]
    assert months_of(None) == []


def test_the_sentence_says_since_when_nothing_was_lost_or_what_was() -> None:
    since = NOW - timedelta(days=312)
    clean = LossSummary(0, 0, None, since)
    assert ledger_sentence(clean, None, 0, NOW) == ("good", "No loss recorded since 2026-01-08 12:00 UTC (312 d).")
    assert ledger_sentence(clean, LossSummary(0, 0, None, None), 2, NOW)[0] == "warn"
    lost = LossSummary(2, 150, NOW - timedelta(hours=2), since)
    assert ledger_sentence(clean, lost, 0, NOW) == (
        "warn", "150 samples were given up in 2 losses; the last one 2 h ago.",
    )  # fmt: skip
    assert "not known" in ledger_sentence(None, None, 0, NOW)[1]
    assert ledger_sentence(LossSummary(0, 0), None, 0, NOW)[0] == "good"


def test_a_question_about_a_name_that_nothing_can_have_is_not_asked() -> None:
    assert LedgerQuestion.of("node-1", None, None, None).is_possible
    assert not LedgerQuestion.of("<b>", None, None, None).is_possible
    assert not LedgerQuestion.of(None, "a b", None, None).is_possible
    with pytest.raises(ApiError):
        LedgerQuestion.of(None, None, datetime(2026, 1, 1), None)  # noqa: DTZ001 - a time without a zone is what is refused
