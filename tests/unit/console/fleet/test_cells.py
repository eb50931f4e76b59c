"""Where everything is: what the node, the edge and the cloud say, joined into one field of the grid."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.console.fleet.answers import Coverage, DeadLetter, DeadLetters, Device, Hour, Marks, Status
from farmiq.console.fleet.cells import (
    Cell,
    Outbox,
    Row,
    Sums,
    Tier,
    dead_times,
    hours_between,
    node_of,
    row_of,
    sentence_of,
    sums_of,
    tiers_of,
)

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURS = [NOON - 2 * HOUR, NOON - HOUR, NOON]
STREAM = UUID(int=7)
NOTHING_WAITS = Outbox(0)
SOME_WAIT = Outbox(12)


def device(**changed: Any) -> Device:
    given_: dict[str, Any] = {
        "device_id": "node-1",
        "tenant_id": "demo",
        "farm_id": "farm-1",
        "barn_id": "barn-1",
        "state": "online",
        "fresh": True,
        "last_rx_at": NOON + timedelta(minutes=30),
        "last_sample_ts": NOON + timedelta(minutes=30),
    }
    return Device(**(given_ | changed))


def holding(*, captured: int, highest: int, missing: int = 0, unacked: int | None = None, **changed: Any) -> Device:
    """A node that says how much it has captured, of which the edge has some."""
    marks = Marks(STREAM, highest - missing, highest, missing, 0, captured)
    status = Status(stream_id=STREAM, last_captured_seq=captured, unacked_count=unacked)
    return device(marks=marks, status=status, status_at=NOON + timedelta(minutes=40), **changed)


def only(edge: Tier | None, cloud: Tier | None, who: Device | None = None, outbox: Outbox = NOTHING_WAITS) -> Cell:
    """The cell of the newest hour."""
    row = row_of(
        who or device(),
        HOURS,
        "1h",
        None if edge is None else {NOON: edge},
        None if cloud is None else {NOON: cloud},
        outbox,
    )
    return row.cells[-1]


def test_what_both_tiers_have_is_stored() -> None:
    cell = only(Tier(3600), Tier(3600))
    assert (cell.state, cell.in_cloud, cell.in_edge, cell.places) == ("stored", 3600, 0, ())
    assert cell.words == "3,600 stored in the cloud"


@pytest.mark.parametrize(
    ("outbox", "places"),
    [
        (SOME_WAIT, ("outbox",)),
        (NOTHING_WAITS, ("bus",)),
        (Outbox(None), ("edge",)),
        (Outbox(0, (NOON + timedelta(minutes=5),)), ("dead_letters",)),
        (Outbox(3, (NOON + timedelta(minutes=5),)), ("dead_letters", "outbox")),
        (Outbox(None, (NOON,)), ("dead_letters", "edge")),
        (Outbox(3, (NOON - timedelta(seconds=1), NOON + HOUR)), ("outbox",)),
    ],
)
def test_what_the_cloud_lacks_is_in_flight_and_it_is_told_where(outbox: Outbox, places: tuple[str, ...]) -> None:
    cell = only(Tier(3600), Tier(3500), outbox=outbox)
    assert (cell.state, cell.in_cloud, cell.in_edge, cell.places) == ("in_flight", 3500, 100, places)
    assert cell.number == 100


def test_a_gap_of_the_stream_that_a_node_is_writing_is_on_its_disk() -> None:
    cell = only(Tier(3000, 0, 600), Tier(3000), holding(captured=9000, highest=9000, missing=600, unacked=600))
    assert (cell.state, cell.on_node, cell.unexplained, cell.places) == ("in_flight", 600, 0, ("node",))


def test_a_gap_that_no_node_claims_is_unexplained() -> None:
    cell = only(Tier(3000, 0, 600), Tier(3000))
    assert (cell.state, cell.unexplained, cell.number) == ("unexplained", 600, 600)
    assert "600 unexplained" in cell.words


def test_a_node_that_says_it_holds_nothing_explains_no_gap() -> None:
    cell = only(Tier(3000, 0, 600), Tier(3000), holding(captured=9000, highest=9000, missing=600, unacked=0))
    assert (cell.state, cell.unexplained) == ("unexplained", 600)


def test_its_word_does_not_count_against_what_came_after_it() -> None:
    """A gap that opened since the node spoke: the samples after it overtook those that are on their way."""
    newer = holding(captured=9000, highest=9500, missing=10, unacked=0, last_sample_ts=NOON + timedelta(minutes=41))
    assert only(Tier(3000, 0, 10), Tier(3000), newer).state == "in_flight"


def test_of_more_gaps_than_the_node_holds_the_newest_are_its_own() -> None:
    who = holding(captured=9000, highest=9000, missing=500, unacked=500)
    edge = {HOURS[0]: Tier(10, 0, 300), NOON: Tier(10, 0, 400)}
    cells = row_of(who, HOURS, "1h", edge, {}, NOTHING_WAITS).cells
    assert [(cell.on_node, cell.unexplained) for cell in cells] == [(100, 200), (0, 0), (400, 0)]


def test_what_a_node_has_captured_beyond_the_edge_lies_between_the_newest_sample_and_its_word() -> None:
    who = holding(captured=9400, highest=9000, last_sample_ts=NOON - timedelta(minutes=40))
    cells = row_of(who, HOURS, "1h", {NOON: Tier(5)}, {NOON: Tier(5)}, NOTHING_WAITS).cells
    assert sum(cell.on_node for cell in cells) == 400
    assert [cell.on_node for cell in cells] == [0, 200, 200]
    assert [cell.state for cell in cells] == ["nothing", "in_flight", "in_flight"]


def test_a_declared_loss_is_lost_whichever_tier_was_told() -> None:
    for edge, cloud in ((Tier(5, 9), Tier(5)), (Tier(5), Tier(5, 9)), (Tier(5, 9), Tier(5, 9))):
        cell = only(edge, cloud)
        assert (cell.state, cell.lost, cell.unexplained) == ("lost", 9, 0)


def test_the_worst_of_an_hour_is_what_it_shows_and_the_words_have_all() -> None:
    who = holding(captured=10, highest=10, missing=2, unacked=2)
    cell = only(Tier(100, 5, 3), Tier(90, 5), who, SOME_WAIT)
    assert cell.state == "unexplained"
    assert cell.words == (
        "1 unexplained, 5 declared lost, 2 on the node's own disk, "
        "10 in the edge database, in the outbox for the cloud, 90 stored in the cloud"
    )


def test_with_the_cloud_away_nothing_is_called_complete() -> None:
    cell = only(Tier(3600), None)
    assert (cell.state, cell.in_cloud, cell.in_edge) == ("unknown", None, 3600)
    assert "not known" in cell.words
    assert only(Tier(3600, 0, 4), None).state == "unexplained", "a hole in the edge is one whatever the cloud says"
    assert only(Tier(0), None).state == "unknown"


def test_with_the_edge_away_the_cloud_answers_for_what_has_successors_there() -> None:
    cloud = {HOURS[0]: Tier(3600), HOURS[1]: Tier(3599, 0, 1), NOON: Tier(1800)}
    cells = row_of(device(), HOURS, "1h", None, cloud, NOTHING_WAITS).cells
    assert [cell.state for cell in cells] == ["stored", "unknown", "unknown"]
    assert [cell.in_cloud for cell in cells] == [3600, 3599, 1800]


def test_with_both_away_nothing_is_known() -> None:
    cell = only(None, None)
    assert (cell.state, cell.in_cloud, cell.number, cell.words) == (
        "unknown",
        None,
        None,
        "what the cloud has is not known",
    )


def test_an_edge_that_was_restored_may_know_less_than_the_cloud() -> None:
    assert only(Tier(1000, 0, 500), Tier(1500)).state == "stored", "the cloud has what the edge misses"
    assert only(Tier(1000, 0, 500), Tier(1400)).unexplained == 100


def test_of_an_hour_that_the_edge_knows_nothing_of_the_cloud_tells() -> None:
    cell = only(Tier(), Tier(3500, 0, 100))
    assert (cell.state, cell.unexplained) == ("unexplained", 100)


def test_gaps_of_the_cloud_that_the_edge_holds_are_not_counted_twice() -> None:
    cell = only(Tier(3600), Tier(3000, 0, 900), outbox=SOME_WAIT)
    assert (cell.state, cell.in_edge, cell.unexplained) == ("in_flight", 600, 0)


def test_an_hour_after_the_device_was_heard_last_is_silent_and_one_before_is_empty() -> None:
    who = device(last_rx_at=NOON - timedelta(minutes=90), state="quiet")
    cells = row_of(who, HOURS, "1h", {}, {}, NOTHING_WAITS).cells
    assert [cell.state for cell in cells] == ["nothing", "silent", "silent"]
    never = device(last_rx_at=None, state="never_heard")
    assert {cell.state for cell in row_of(never, HOURS, "1h", {}, {}, NOTHING_WAITS).cells} == {"nothing"}


def test_what_has_no_time_counts_unless_the_node_holds_it() -> None:
    who = holding(captured=100, highest=100, missing=30, unacked=30)
    assert row_of(who, HOURS, "1h", {}, {}, NOTHING_WAITS, undated=50).undated == 20
    assert row_of(device(), HOURS, "1h", {}, {}, NOTHING_WAITS, undated=50).undated == 50


def test_days_are_as_long_as_days() -> None:
    days = hours_between(NOON.replace(hour=0) - timedelta(days=2), NOON, timedelta(days=1))
    assert len(days) == 3
    outbox = Outbox(1, (days[0] + timedelta(hours=23),))
    cells = row_of(device(), days, "1d", {days[0]: Tier(10)}, {days[0]: Tier(9)}, outbox).cells
    assert cells[0].places == ("dead_letters", "outbox")


def test_a_range_has_each_hour_that_has_begun() -> None:
    assert hours_between(NOON, NOON + timedelta(minutes=1), HOUR) == [NOON]
    assert hours_between(NOON, NOON + 2 * HOUR, HOUR) == [NOON, NOON + HOUR]
    assert hours_between(NOON, NOON, HOUR) == []


counts = st.integers(0, 10_000)
tiers = st.one_of(st.none(), st.builds(Tier, counts, counts, counts))


@given(tiers, tiers, counts, counts)
def test_no_answer_makes_a_hole_look_complete(edge: Tier | None, cloud: Tier | None, missing: int, tail: int) -> None:
    who = holding(captured=50_000 + tail, highest=50_000, missing=missing, unacked=None)
    cell = only(edge, cloud, who)
    assert min(cell.in_edge, cell.on_node, cell.lost, cell.unexplained) >= 0
    if cell.state == "stored":
        assert edge is not None or cloud is not None
        assert (cell.in_edge, cell.on_node, cell.lost, cell.unexplained) == (0, 0, 0, 0)
        assert cloud is not None
        assert cell.in_cloud == cloud.stored > 0
    if edge is not None and cloud is not None:
        covered = cell.on_node + cell.unexplained + max(0, cloud.stored - edge.stored)
        assert covered >= edge.missing, "every gap of the edge is held by somebody, in the cloud, or unexplained"
        assert (cell.in_cloud or 0) + cell.in_edge == max(edge.stored, cloud.stored)


def test_answers_are_taken_apart_by_device_and_hour() -> None:
    told = Coverage([Hour("a", NOON, 1, 2, 3), Hour("b", NOON, 4), Hour("a", HOURS[0], 5)])
    assert tiers_of(told) == {"a": {NOON: Tier(1, 2, 3), HOURS[0]: Tier(5)}, "b": {NOON: Tier(4)}}
    assert tiers_of(None) is None
    letters = [DeadLetter(uuid4(), "x", "a", NOON), DeadLetter(uuid4(), "x", "a", HOURS[0]), DeadLetter(uuid4(), "x")]
    assert dead_times(DeadLetters(letters)) == {"a": (NOON, HOURS[0])}
    assert dead_times(None) == {}


def test_a_device_without_a_word_of_its_own_holds_nothing_that_is_known() -> None:
    assert node_of(device()).held_gaps == 0
    silent = device(marks=Marks(STREAM, 5, 10, 5, 0, None), status=Status())
    assert (node_of(silent).held_gaps, node_of(silent).tail) == (0, 0)


@pytest.mark.parametrize(
    ("sums", "kind", "words"),
    [
        (Sums(100, 0, 0, 0, 0, 0), "good", "is stored in the cloud: 100 samples"),
        (Sums(100, 5, 7, 0, 0, 0), "busy", "12 samples are on their way (7 on their nodes and 5 in the edge)"),
        (Sums(100, 5, 0, 3, 0, 0), "busy", "3 are declared lost"),
        (Sums(100, 0, 0, 3, 0, 0), "warn", "Nothing is missing without a reason"),
        (Sums(100, 5, 7, 3, 2, 4), "bad", "2 samples are missing and nobody has explained why"),
        (Sums(100, 5, 7, 3, 0, 4), "warn", "For 4 fields it is not known"),
        (Sums(0, 0, 0, 0, 0, 4), "warn", "not known just now"),
    ],
)
def test_one_sentence_answers_whether_anything_is_missing(sums: Sums, kind: str, words: str) -> None:
    told = sentence_of(sums)
    assert told[0] == kind
    assert words in told[1]


def test_sums_are_over_all_cells_and_what_has_no_time_is_unexplained() -> None:
    cells = [
        Cell(NOON, "in_flight", 10, 2, 3, 4),
        Cell(NOON, "unknown", None, 5),
        Cell(NOON, "unexplained", 1, 0, 0, 0, 6),
    ]
    assert sums_of([Row(device(), cells, 7)]) == Sums(11, 7, 3, 4, 13, 1)
