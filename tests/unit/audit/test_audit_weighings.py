"""Weigh sessions and pictures of the edge, and what the cloud has of them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from farmiq.audit.streams import BusRoom
from farmiq.audit.weighings import (
    CloudSession,
    EdgeSession,
    ExpectedPictures,
    Picture,
    Station,
    WeighingBalance,
    WeighingReading,
    balance_weighings,
    uneven_days,
)
from farmiq.kit.day_digests import DayDigest

DAY = datetime(2026, 11, 1, tzinfo=UTC)
SESSION, PICTURE = UUID(int=1), UUID(int=2)


def in_cloud(status: str, final_weight_kg: float | None = None, image_count: int | None = None) -> CloudSession:
    return CloudSession(SESSION, status, final_weight_kg, image_count, "station-1")


READING = WeighingReading(
    tenant_id="demo",
    edge_session_days=[
        DayDigest("station-1", DAY, "finalized", 3, "17"),
        DayDigest("station-1", DAY, "created", 1, "5"),
    ],
    edge_picture_days=[
        DayDigest("station-1", DAY, "stored", 6, "99"),
        DayDigest("station-1", DAY, "presigned", 2, "1"),
        DayDigest("station-1", DAY, "missing", 1, "2"),
    ],
    sessions=[EdgeSession(SESSION, "station-1", "finalized", told_revision=1)],
    cloud_sessions={SESSION: in_cloud("finalized")},
    pictures=[Picture(PICTURE, "stored", "aa", "station-1")],
    cloud_pictures={PICTURE: Picture(PICTURE, "stored", "aa")},
)


def judged(bus_messages: int = 0, **parts: Any) -> tuple[list[str], WeighingBalance]:
    found = balance_weighings(replace(READING, **parts), BusRoom(bus_messages))
    return [finding.kind for finding in found.findings], found


def test_what_both_tiers_have_balances_and_is_counted() -> None:
    kinds, found = judged(incomplete=1, stations=[Station("station-1", 4), Station("station-2", 0)])
    assert kinds == []
    assert (found.sessions, found.sessions_finalized, found.sessions_incomplete, found.sessions_in_cloud) == (
        4,
        3,
        1,
        4,
    )
    assert (found.pictures, found.pictures_in_cloud, found.pictures_awaited, found.pictures_missing) == (6, 6, 2, 1)
    assert found.station_events_waiting == 4


def test_a_session_that_the_cloud_does_not_have_is_on_its_way_or_missing() -> None:
    kinds, found = judged(cloud_sessions={})
    assert (kinds, found.sessions_in_cloud, found.sessions_in_flight) == (["session_missing"], 3, 0)
    here, nobody = frozenset({SESSION}), frozenset[UUID]()
    for messages, recent, waiting in ((1, here, nobody), (0, nobody, here)):
        kinds, found = judged(messages, cloud_sessions={}, waiting_sessions=waiting, recent_sessions=recent)
        assert (kinds, found.sessions_in_cloud, found.sessions_in_flight) == ([], 3, 1)


def test_a_session_that_ended_otherwise_is_on_its_way_until_the_cloud_was_told() -> None:
    there = {SESSION: in_cloud("created")}
    assert judged(cloud_sessions=there)[0] == ["session_differs"]
    untold = [EdgeSession(SESSION, "station-1", "finalized", told_revision=0)]
    kinds, found = judged(cloud_sessions=there, sessions=untold)
    assert (kinds, found.sessions_in_cloud, found.sessions_in_flight) == ([], 4, 1)


ENDED = EdgeSession(SESSION, "station-1", "finalized", 1, True, 41.5, ExpectedPictures(2))


@pytest.mark.parametrize(
    ("there", "what"),
    [
        (in_cloud("finalized", 41.5, 2), None),
        (in_cloud("finalized", 41.50000001, 2), None),
        (in_cloud("finalized", 40.0, 2), "final weight 41.5 kg at the edge, 40 kg in the cloud"),
        (in_cloud("finalized", None, 2), "final weight 41.5 kg at the edge, none in the cloud"),
        (in_cloud("finalized", 41.5, 3), "pictures 2 at the edge, 3 in the cloud"),
        (in_cloud("cancelled"), "status finalized at the edge, cancelled in the cloud"),
    ],
)
def test_a_session_with_another_weight_or_number_of_pictures_differs(there: CloudSession, what: str | None) -> None:
    _, found = judged(sessions=[ENDED], cloud_sessions={SESSION: there})
    assert [finding.kind for finding in found.findings] == ([] if what is None else ["session_differs"])
    assert all(finding.what.endswith(f"; {what}") for finding in found.findings)


def test_a_session_whose_new_end_is_on_its_way_does_not_differ() -> None:
    there = {SESSION: in_cloud("finalized", 40.0, 2)}
    waiting = judged(sessions=[ENDED], cloud_sessions=there, waiting_sessions=frozenset({SESSION}))
    untold = judged(sessions=[replace(ENDED, is_told=False)], cloud_sessions=there)
    on_bus = judged(1, sessions=[ENDED], cloud_sessions=there, recent_sessions=frozenset({SESSION}))
    assert judged(1, sessions=[ENDED], cloud_sessions=there)[0] == ["session_differs"]
    for kinds, found in (waiting, untold, on_bus):
        assert (kinds, found.sessions_in_cloud, found.sessions_in_flight) == ([], 4, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"device_id": "station-2"},
        {"batch_id": "batch-8"},
        {"start_at": DAY},
        {"end_at": DAY},
        {"initial_weight_kg": 40.0},
        {"inference_result_id": UUID(int=3)},
    ],
)
def test_whatever_a_session_says_otherwise_in_the_cloud_is_named(change: dict[str, Any]) -> None:
    """promise-cloud 4: only the end of a session was compared."""
    there = replace(in_cloud("finalized", 41.5, 2), **change)
    kinds, found = judged(sessions=[ENDED], cloud_sessions={SESSION: there})
    assert kinds == ["session_differs"]
    assert str(next(iter(change.values()))).removesuffix(".0") in found.findings[0].what


def test_an_end_that_nobody_will_tell_of_differs() -> None:
    there = {SESSION: in_cloud("finalized", 40.0, 2)}
    kinds, _ = judged(sessions=[replace(ENDED, is_told=False, is_settled=True)], cloud_sessions=there)
    assert kinds == ["session_differs"]


def test_a_session_that_only_the_cloud_has_is_named() -> None:
    lost = CloudSession(UUID(int=8), "finalized", device_id="station-1", first_event_at=DAY)
    _, found = judged(forgotten=[lost])
    assert [(one.kind, one.subject, one.device_id, one.tier) for one in found.findings] == [
        ("session_forgotten", str(lost.id), "station-1", None)
    ]


@pytest.mark.parametrize(
    ("transfer", "kind"),
    [("pending", None), ("sending", None), ("failed", "picture_failed"), ("sent", "picture_missing")],
)
def test_a_picture_that_the_cloud_does_not_have(transfer: str, kind: str | None) -> None:
    for there in ({}, {PICTURE: Picture(PICTURE, "missing", "aa")}):
        kinds, found = judged(cloud_pictures=there, transfers={PICTURE: transfer})
        assert kinds == ([] if kind is None else [kind])
        assert (found.pictures_in_cloud, found.pictures_in_flight) == (5, 1 if kind is None else 0)


def test_a_picture_with_another_checksum_is_found() -> None:
    kinds, found = judged(cloud_pictures={PICTURE: Picture(PICTURE, "stored", "bb")})
    assert kinds == ["picture_differs"]
    assert (found.findings[0].subject, found.findings[0].device_id) == (str(PICTURE), "station-1")


def test_a_picture_that_left_without_its_notes_is_compared_by_what_left() -> None:
    pictures = [Picture(PICTURE, "stored", "aa", "station-1", sent_sha256="bb")]
    assert judged(pictures=pictures, cloud_pictures={PICTURE: Picture(PICTURE, "stored", "bb")})[0] == []
    assert judged(pictures=pictures)[0] == ["picture_differs"]


def test_only_days_on_which_the_edge_has_something_else_are_looked_at() -> None:
    edge = [
        DayDigest("a", DAY, "stored", 2, "7"),
        DayDigest("a", DAY + timedelta(days=1), "stored", 2, "8"),
        DayDigest("a", DAY + timedelta(days=1), "presigned", 1, "1"),
        DayDigest("b", DAY + timedelta(days=2), "stored", 1, "3"),
    ]
    cloud = [
        DayDigest("a", DAY, "stored", 2, "7"),
        DayDigest("a", DAY + timedelta(days=1), "stored", 2, "8"),
        DayDigest("b", DAY + timedelta(days=2), "stored", 1, "4"),
        DayDigest("c", DAY + timedelta(days=3), "stored", 9, "9"),
    ]
    assert uneven_days(edge, cloud, state="stored") == {DAY + timedelta(days=2)}
    both = {DAY + timedelta(days=1), DAY + timedelta(days=2)}
    assert uneven_days(edge, cloud) == both
    assert uneven_days(edge, cloud, own={"c": DAY + timedelta(days=3, hours=9)}) == {*both, DAY + timedelta(days=3)}
    assert uneven_days(edge, cloud, own={"c": DAY + timedelta(days=4)}) == both


@pytest.mark.parametrize("change", [{"captured_at": DAY}, {"session_id": UUID(int=8)}, {"session_id": None}])
def test_a_picture_of_another_time_or_session_is_found(change: dict[str, Any]) -> None:
    """promise-cloud 4: only checksums were compared."""
    here = Picture(PICTURE, "stored", "aa", "station-1", captured_at=DAY - timedelta(hours=1), session_id=SESSION)
    assert judged(pictures=[here], cloud_pictures={PICTURE: here})[0] == []
    assert judged(pictures=[here], cloud_pictures={PICTURE: replace(here, **change)})[0] == ["picture_differs"]


def test_a_picture_that_a_person_gave_to_its_session_is_in_the_list_of_the_session() -> None:
    here = Picture(PICTURE, "stored", "aa", "station-1", session_id=SESSION, is_attached=True)
    there = replace(here, session_id=None, is_attached=False)
    assert judged(pictures=[here], cloud_pictures={PICTURE: there})[0] == []
    assert judged(pictures=[replace(here, is_attached=False)], cloud_pictures={PICTURE: there})[0] == [
        "picture_differs"
    ]


def test_a_picture_that_only_the_cloud_has_is_named() -> None:
    forgotten = Picture(UUID(int=77), "stored", "cc", "station-1", captured_at=DAY)
    _, found = judged(forgotten_pictures=[forgotten])
    assert [(one.kind, one.subject) for one in found.findings] == [("picture_forgotten", str(forgotten.media_id))]
