"""The arrows of the picture, and that everything written in it is inside it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from farmiq.console.overview import picture
from farmiq.console.overview.figures import Bus, Day, Figures, Fleet, Link, Pictures, Room, Summary, WaitingPicture
from farmiq.console.overview.flow import Hop, hop_of, hops, stations
from farmiq.console.overview.situation import Absence, LinkNow, Outbox, Rates, Situation, link_now

NOW = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
CUT_AT = datetime(2026, 11, 16, 12, 3, 5, tzinfo=UTC)
WAITING = Outbox(3, 90.0, 0)
WELL = Situation(
    now=NOW,
    link=LinkNow("up", NOW),
    outbox=Outbox(events=2, oldest_seconds=0.4, dead=0),
    rates=Rates(edge_samples=120.4, cloud_samples=119.6, sent_events=12.04),
    figures=Figures(
        day=Day(Summary(864_000), Summary(864_000)),
        fleet=Fleet(online=6, unacked_samples=3, oldest_seconds=2.0),
        pictures=Pictures(),
        bus=Bus(waiting=4, dead=0),
        room=Room(10**12, 2 * 10**12),
        pictures_per_second=0.05,
    ),
    edge_room_seconds=19 * 86_400,
)


def hop(key: str, **changes: Any) -> Hop:
    return hop_of(hops(replace(WELL, **changes)), key)


def test_each_arrow_has_its_rate_its_backlog_and_its_oldest() -> None:
    shown = {one.key: (one.kind, one.word, one.rate, one.waiting, one.oldest) for one in hops(WELL)}
    assert shown == {
        "devices": ("good", "up", "120 samples/s", "3 on devices", "oldest ≤ 2.0 s"),
        "cloud": ("good", "up", "12.0 events/s", "2 wait", "oldest 0.4 s"),
        "pictures": ("good", "all sent", "3.0 pictures/min", "0 wait", ""),
        "database": ("good", "up", "120 samples/s", "4 in queues", ""),
    }
    assert all(one.is_moving for one in hops(WELL))


@pytest.mark.parametrize(
    ("link", "kind", "word"),
    [
        (LinkNow("down", CUT_AT), "bad", "down since 12:03:05"),
        (LinkNow("refused", CUT_AT, "HTTP_401"), "bad", "refused since 12:03:05"),
        (LinkNow("stuck", CUT_AT), "warn", "no answer since 12:03:05"),
        (LinkNow("unknown"), "none", "not known"),
    ],
)
def test_a_link_that_carries_nothing_does_not_move(link: LinkNow, kind: str, word: str) -> None:
    found = hop("cloud", link=link)
    assert (found.kind, found.word, found.is_moving) == (kind, word, False)


def test_a_backlog_that_drains_is_busy_and_moves() -> None:
    found = hop("cloud", outbox=Outbox(events=9000, oldest_seconds=5400, dead=0))
    assert (found.kind, found.word, found.waiting, found.oldest) == (
        "busy",
        "catching up",
        "9,000 wait",
        "oldest 1 h 30 min",
    )
    assert found.is_moving


def test_pictures_that_wait_for_the_link_say_so_with_their_age() -> None:
    waiting = Pictures(pending_count=4, entries=[WaitingPicture(NOW - timedelta(minutes=5)), WaitingPicture(NOW)])
    found = hop("pictures", link=LinkNow("down", CUT_AT), figures=replace(WELL.figures, pictures=waiting))
    assert (found.kind, found.word, found.waiting, found.oldest) == (
        "bad",
        "waiting for the link",
        "4 wait",
        "oldest 5 min",
    )
    given_up = hop("pictures", figures=replace(WELL.figures, pictures=Pictures(failed_count=2)))
    assert (given_up.kind, given_up.word) == ("warn", "2 given up")


def test_what_is_away_is_not_drawn_as_if_it_were_there() -> None:
    away = tuple(Absence(name, CUT_AT, "") for name in ("edge-ingress-gateway", "cloud-telemetry-service"))
    assert hop("devices", absences=away).kind == "bad"
    assert hop("database", absences=away).word == "not storing"
    boxes = {box.key: box.kind for box in stations(replace(WELL, absences=away))}
    assert boxes == {"devices": "good", "edge": "bad", "bus": "good", "database": "bad"}


def test_nothing_known_is_drawn_with_dashes() -> None:
    empty = Situation(now=NOW)
    assert {one.kind for one in hops(empty)} == {"none"}
    assert not any(one.is_moving for one in hops(empty))
    assert all("None" not in text for one in hops(empty) for text in (one.rate, one.waiting, one.oldest, one.word))


@pytest.mark.parametrize("draw", [picture.wide, picture.tall])
@pytest.mark.parametrize("now", [WELL, Situation(now=NOW), replace(WELL, link=LinkNow("stuck", CUT_AT - timedelta(9)))])
def test_everything_drawn_is_inside_the_picture(draw: Any, now: Situation) -> None:
    drawn = draw(stations(now), hops(now))
    for text in (text for part in (*drawn.boxes, *drawn.arrows) for text in part.texts):
        width = len(text.text) * 7.2
        left = {"middle": text.x - width / 2, "start": text.x}[text.anchor]
        assert left >= 0, text
        assert left + width <= drawn.width, text
        assert 0 < text.y < drawn.height, text
    for box in drawn.boxes:
        assert box.x + box.width <= drawn.width
        assert box.y + box.height <= drawn.height


def test_a_link_is_down_when_requests_fail_and_stuck_when_nothing_comes_back() -> None:
    def state(link: Link | None, outbox: Outbox = WAITING, *, is_away: bool = False) -> LinkNow:
        return link_now(Figures(link=link), outbox, NOW, is_forwarder_away=is_away)

    before = NOW - timedelta(seconds=60)
    assert state(Link("demo", 0, last_acked_at=NOW)).state == "up"
    assert state(Link("demo", 0, last_acked_at=before)).state == "stuck"
    assert state(Link("demo", 0, last_acked_at=before), Outbox(0, 0.0, 0)).state == "up", "nothing was to be sent"
    assert state(Link("demo", 3, last_acked_at=before, last_error_code="TIMEOUT")) == LinkNow("down", before, "TIMEOUT")
    assert state(Link("demo", 3, last_acked_at=before, last_error_code="HTTP_403")).state == "refused"
    assert state(Link("demo", 0, last_acked_at=NOW + timedelta(days=1))).state == "stuck", "by a clock that was ahead"
    assert state(Link("demo")).state == "up", "a tenant that never sent anything"
    assert state(None).state == "unknown"
    assert state(Link("demo", 0, last_acked_at=NOW), is_away=True).state == "unknown"


@pytest.mark.parametrize("state", ["down", "refused", "stuck"])
def test_pictures_do_not_move_over_a_cut_link(state: Any) -> None:
    found = hop("pictures", link=LinkNow(state, CUT_AT))
    assert (found.kind, found.word, found.is_moving) == ("bad", "cut, and nothing waits", False)


def test_a_link_is_not_up_while_the_clouds_entrance_is_away_unless_something_goes_through() -> None:
    def state(silent_seconds: float, *, is_away: bool) -> str:
        figures = Figures(link=Link("demo", last_acked_at=NOW - timedelta(seconds=silent_seconds)))
        return link_now(figures, Outbox(0, 0.0, 0), NOW, is_forwarder_away=False, is_entrance_away=is_away).state

    assert (state(60, is_away=False), state(60, is_away=True), state(1, is_away=True)) == ("up", "stuck", "up")
