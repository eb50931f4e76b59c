from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import pytest

from farmiq.console.fleet.answers import (
    Loss,
    Losses,
    LossSum,
    LossSummary,
    StationLoss,
    StationLosses,
    StationSum,
    StationSummary,
)
from farmiq.console.fleet.causes import NODE_CAUSES, STATION_CAUSES
from farmiq.console.fleet.ledger import (
    REASON_CHARS_MAX,
    Entry,
    LedgerQuestion,
    Ledgers,
    Month,
    ledger_sentence,
    months_of,
    next_page,
)
from farmiq.console.fleet.ledger import entries_of as all_entries
from farmiq.contracts.station import LossReason
from farmiq.contracts.telemetry import NO_LONGER_AT_EDGE
from farmiq.edge.telemetry_timeseries.intake import SPOOL_GONE
from farmiq.kit.http_server import ApiError
from farmiq.spool import Cause
from farmiq.timeseries.paging import BeforeLoss, position_of
from farmiq.timeseries.station_losses import UNREADABLE

DISCARDED = "discarded"
"""What a person gives up: no device says it."""
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def loss(number: int, at: datetime = NOW, recorded: datetime = NOW, reason: str = "cap_reached") -> Loss:
    return Loss(UUID(int=number), "node-1", UUID(int=99), 1, 10, 10, reason, at, recorded)


def station(number: int, reason: str = "too_old", at: datetime = NOW, recorded: datetime = NOW) -> StationLoss:
    return StationLoss(UUID(int=number), "station-1", reason, 2, 1, True, at, recorded)


def entries_of(
    edge: Any = None, cloud: Any = None, edge_stations: Any = None, cloud_stations: Any = None
) -> list[Entry]:
    return all_entries(Ledgers(edge, cloud, edge_stations, cloud_stations))


def test_a_loss_that_both_tiers_know_is_one_entry_with_both_times() -> None:
    later = NOW + timedelta(minutes=1)
    found = entries_of(Losses([loss(1), loss(2)]), Losses([loss(2, recorded=later), loss(3)]), None)
    assert [(entry.event_id.int, entry.at_edge, entry.in_cloud) for entry in found] == [
        (3, None, NOW), (2, NOW, later), (1, NOW, None),
    ]  # fmt: skip
    assert found[0].cause == NODE_CAUSES["cap_reached"]


def test_the_newest_stands_first_and_stations_stand_between_the_nodes() -> None:
    told = station(5, at=NOW - timedelta(hours=1))
    found = entries_of(Losses([loss(1, NOW - timedelta(hours=2)), loss(2, NOW)]), None, StationLosses([told]))
    assert [entry.kind for entry in found] == ["node", "station", "node"]
    assert (found[1].count, found[1].pictures, found[1].cause) == (2, 1, STATION_CAUSES["too_old"])


def test_a_loss_of_a_station_that_both_tiers_know_is_one_entry_and_the_edge_knows_it_without_the_cloud() -> None:
    later = NOW + timedelta(minutes=1)
    (entry,) = entries_of(None, None, StationLosses([station(1)]), StationLosses([station(1, recorded=later)]))
    assert (entry.at_edge, entry.in_cloud) == (NOW, later)
    (entry,) = entries_of(edge_stations=StationLosses([station(1)]))
    assert (entry.at_edge, entry.in_cloud) == (NOW, None)


def test_an_endless_reason_is_cut() -> None:
    (entry,) = entries_of(None, None, None, StationLosses([station(1, "<script>" * 1000)]))
    assert len(entry.reason) == REASON_CHARS_MAX


def test_every_cause_that_a_node_or_a_station_knows_has_words() -> None:
    assert set(NODE_CAUSES) == {cause.value for cause in Cause} | {SPOOL_GONE, NO_LONGER_AT_EDGE, DISCARDED}
    assert set(STATION_CAUSES) == {*get_args(LossReason), UNREADABLE, DISCARDED}


def test_the_next_page_begins_behind_the_last_entry_that_is_shown() -> None:
    found = entries_of(Losses([loss(number) for number in range(1, 6)]), None, None)
    assert next_page(found, 5) is None
    after = next_page(found, 2)
    assert after is not None
    assert position_of(after, BeforeLoss) == (NOW, UUID(int=4))


def test_months_add_up_the_causes_newest_first() -> None:
    october, november = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
    sums = [LossSum("a", october, 1, 10), LossSum("b", october, 2, 20), LossSum("a", november, 3, 30)]
    stations = StationSummary(4, 9, 5, NOW, [StationSum(october, 4, 9, 5)])
    months = months_of(LossSummary(6, 60, NOW, NOW, sums, stations), None)
    assert months == [Month(november, 3, 30), Month(october, 7, 30, 9)]
    assert months_of(None, None) == []


def test_months_know_what_either_tier_knows() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    edge = LossSummary(
        3, 30, NOW, NOW, [LossSum("a", at, 3, 30)], StationSummary(1, 2, 0, NOW, [StationSum(at, 1, 2, 0)])
    )
    cloud = LossSummary(3, 35, NOW, NOW, [LossSum("a", at, 2, 20), LossSum("b", at, 1, 5)])
    assert months_of(edge, cloud) == months_of(cloud, edge) == [Month(at, 5, 35, 2)]


def test_the_sentence_says_since_when_nothing_was_lost_or_what_was() -> None:
    since, month = NOW - timedelta(days=312), datetime(2026, 11, 1, tzinfo=UTC)
    clean = LossSummary(0, 0, None, since)
    assert ledger_sentence(clean, None, NOW) == ("good", "No loss recorded since 2026-01-08 12:00 UTC (312 d).")
    lost = LossSummary(2, 150, NOW - timedelta(hours=2), since, [LossSum("a", month, 2, 150)])
    assert ledger_sentence(clean, lost, NOW) == (
        "warn", "150 samples were given up in 2 losses; the last one 2 h ago.",
    )  # fmt: skip
    assert "not known" in ledger_sentence(None, None, NOW)[1]
    assert ledger_sentence(LossSummary(0, 0), None, NOW)[0] == "good"


def test_what_stations_gave_up_is_in_the_same_total() -> None:
    month = datetime(2026, 11, 1, tzinfo=UTC)
    stations = StationSummary(1, 3, 2, NOW - timedelta(hours=1), [StationSum(month, 1, 3, 2)])
    only = LossSummary(0, 0, None, NOW, [], stations)
    assert ledger_sentence(only, None, NOW) == (
        "warn", "3 events and pictures of weigh stations were given up in 1 loss; the last one 60 min ago.",
    )  # fmt: skip
    both = LossSummary(2, 140, NOW - timedelta(hours=2), NOW, [LossSum("a", month, 2, 150)], stations)
    assert ledger_sentence(both, None, NOW)[1] == (
        "150 samples and 3 events and pictures of weigh stations were given up in 3 losses; the last one 60 min ago."
        " 10 of these samples came after all, or were declared twice."
    )


def test_a_question_about_a_name_that_nothing_can_have_is_not_asked() -> None:
    assert LedgerQuestion.of("node-1", None, None, None).is_possible
    assert not LedgerQuestion.of("<b>", None, None, None).is_possible
    assert not LedgerQuestion.of(None, "a b", None, None).is_possible
    with pytest.raises(ApiError):
        LedgerQuestion.of(None, None, datetime(2026, 1, 1), None)  # noqa: DTZ001 - a time without a zone is what is refused
