"""What an operator reads first, over many situations."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from farmiq.console.fleet.answers import LimitedDevice, Limits
from farmiq.console.overview.completeness import Completeness
from farmiq.console.overview.figures import (
    Bus,
    Day,
    Figures,
    Fleet,
    IncompleteSession,
    LatestLoss,
    Lost,
    PictureCounts,
    Pictures,
    StationsLost,
    Summary,
    WaitingPicture,
    Weighings,
)
from farmiq.console.overview.sentence import KINDS, moment, sentence
from farmiq.console.overview.situation import Absence, LinkNow, Outbox, Situation

NOW = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
CUT_AT = datetime(2026, 11, 16, 12, 3, 5, tzinfo=UTC)
WHOLE_DAY = Day(Summary(864_000), Summary(864_000))


def at(**changes: Any) -> Situation:
    """A farm on which all is well, but for the changes."""
    well = Situation(
        now=NOW,
        link=LinkNow("up", NOW),
        outbox=Outbox(events=2, oldest_seconds=0.4, dead=0),
        figures=Figures(day=WHOLE_DAY, fleet=Fleet(online=6), pictures=Pictures(), bus=Bus(waiting=0, dead=0)),
        completeness=Completeness(864_000),
        edge_room_seconds=19 * 86_400,
    )
    return replace(well, **changes)


def with_figures(**changes: Any) -> Situation:
    return at(figures=replace(at().figures, **changes))


def test_all_is_well() -> None:
    said = sentence(at())
    assert (said.kind, said.text) == ("good", "Everything that was measured in the last 24 h is stored in the cloud.")
    assert said.advice == ()


def limited(device_id: str, seconds_ago: float = 40.0, reason: str = "not_provisioned") -> LimitedDevice:
    return LimitedDevice(device_id, 4, reason, NOW - timedelta(seconds=seconds_ago))


def test_a_device_whose_messages_are_not_taken_is_not_all_well() -> None:
    said = sentence(with_figures(limits=Limits(limited=[limited("node-1"), limited("node-2", 3_000)])))
    assert (said.kind, said.headline) == (
        "warn",
        "The edge does not take the messages of node-1, which keeps them: it is not registered for the place that it names.",
    )
    assert "Everything" not in said.text
    assert [one.path for one in said.advice] == ["/devices/node-1"]
    said = sentence(with_figures(limits=Limits(limited=[limited("node-1"), limited("node-2", 1.0, "rate")])))
    assert said.headline == "The edge does not take the messages of 2 devices, which keep them."


def test_a_device_that_is_taken_again_is_forgotten_soon() -> None:
    assert sentence(with_figures(limits=Limits(limited=[limited("node-1", 200)]))).kind == "good"


def test_devices_that_are_quiet_are_named_beside_it() -> None:
    said = sentence(with_figures(fleet=Fleet(online=4, quiet=2, never_heard=1)))
    assert said.kind == "good"
    assert said.text.endswith("is stored in the cloud. 2 devices are quiet. 1 device was never heard.")
    assert [advice.path for advice in said.advice] == ["/devices?state=quiet"]


def test_a_link_that_is_down_says_since_when_where_everything_is_and_for_how_long_there_is_room() -> None:
    said = sentence(
        at(link=LinkNow("down", CUT_AT, "NETWORK"), outbox=Outbox(events=1240, oldest_seconds=1600, dead=0))
    )
    assert said.kind == "warn"
    assert said.headline == "The link to the cloud is down since 12:03:05."
    assert said.rest == ("1,240 events wait safely on the edge, room for 19 d.", "Nothing is lost.")
    assert [advice.path for advice in said.advice] == ["/sync"]


def test_the_headline_stays_the_same_while_the_numbers_move() -> None:
    headlines = {
        sentence(at(link=LinkNow("down", CUT_AT), outbox=Outbox(events=events, oldest_seconds=events, dead=0))).headline
        for events in (1, 50, 5000)
    }
    assert len(headlines) == 1


def test_what_is_not_known_is_not_promised() -> None:
    said = sentence(
        at(
            link=LinkNow("down", CUT_AT),
            outbox=Outbox(events=1, oldest_seconds=60, dead=0),
            edge_room_seconds=None,
            figures=replace(at().figures, day=Day()),
            completeness=None,
        )
    )
    assert said.rest == ("1 event waits safely on the edge.",)


def test_a_cloud_that_refuses_is_worse_than_one_that_is_away() -> None:
    said = sentence(at(link=LinkNow("refused", CUT_AT, "HTTP_401")))
    assert said.kind == "bad"
    assert said.headline == "The cloud refuses this edge (HTTP_401) since 12:03:05. That will not pass by itself."


def test_a_link_over_which_nothing_comes_and_nothing_fails() -> None:
    said = sentence(at(link=LinkNow("stuck", CUT_AT), outbox=Outbox(events=9, oldest_seconds=45, dead=0)))
    assert (said.kind, said.headline) == ("warn", "Nothing has arrived in the cloud since 12:03:05.")


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        (
            Lost(37, 1, 1, LatestLoss("node-3", 37, "spool_cap", CUT_AT)),
            "37 samples of node-3 were declared lost, the last at 12:03:05 (spool_cap).",
        ),
        (
            Lost(1, 1, 1, LatestLoss("node-3", 1, "spool_cap", CUT_AT - timedelta(days=1))),
            "1 sample of node-3 was declared lost, the last at 2026-11-15 12:03 (spool_cap).",
        ),
        (
            Lost(1200, 9, 3, LatestLoss("node-3", 37, "spool_cap", CUT_AT)),
            "1,200 samples of 3 devices were declared lost in the last 24 h.",
        ),
    ],
)
def test_losses_are_named_and_nothing_is_called_well_beside_them(lost: Lost, text: str) -> None:
    said = sentence(with_figures(day=Day(Summary(864_000, lost=lost), Summary(864_000))))
    assert (said.kind, said.headline) == ("bad", text)
    assert "Everything" not in said.text
    assert said.advice[0].path == "/losses"


def test_a_loss_that_only_the_cloud_knows_of_is_told_too() -> None:
    """An edge that was set up anew has no ledger of before."""
    lost = Lost(5, 1, 1, LatestLoss("node-3", 5, "spool_cap", CUT_AT))
    assert sentence(with_figures(day=Day(Summary(1), Summary(1, lost=lost)))).kind == "bad"


def test_a_loss_and_a_cut_at_once_are_both_told_the_loss_first() -> None:
    lost = Lost(5, 1, 1, LatestLoss("node-3", 5, "spool_cap", CUT_AT))
    now = with_figures(day=Day(Summary(1, lost=lost), Summary(1)))
    said = sentence(replace(now, link=LinkNow("down", CUT_AT)))
    assert said.headline.startswith("5 samples of node-3")
    assert "The link to the cloud is down since 12:03:05." in said.rest
    assert "Nothing is lost." not in said.text


def test_a_service_that_is_away_is_named_with_what_that_means() -> None:
    said = sentence(at(absences=(Absence("cloud-telemetry-service", CUT_AT, "refused"),)))
    assert said.kind == "warn"
    assert said.headline == "cloud-telemetry-service does not answer since 12:03:05. What arrives waits in RabbitMQ."
    assert said.advice[0].command == "farmiq logs cloud-telemetry-service"


def test_an_edge_that_is_away_is_one_thing_and_not_six() -> None:
    services = ("edge-ingress-gateway", "edge-telemetry-timeseries", "edge-sync-forwarder")
    said = sentence(at(absences=tuple(Absence(name, CUT_AT, "refused") for name in services)))
    assert (said.kind, said.rest) == ("bad", ())
    assert (
        said.headline == "The edge does not answer since 12:03:05. Devices keep what they measure on their own disks."
    )


def test_a_backlog_that_shrinks_is_told_with_how_long_it_takes() -> None:
    outbox = Outbox(events=1240, oldest_seconds=1600, dead=0, drain_seconds=130)
    said = sentence(at(outbox=outbox, completeness=Completeness(860_000, at_edge=4000)))
    assert (said.kind, said.headline) == ("busy", "The cloud is catching up.")
    assert said.rest == ("1,240 events left, about 2 min to go.",)


def test_what_is_still_on_devices_is_said() -> None:
    said = sentence(at(completeness=Completeness(860_000, on_devices=4000)))
    assert (said.kind, said.text) == ("busy", "4,000 samples are still on the devices that measured them.")


def test_gaps_that_nobody_explains_are_never_called_well() -> None:
    said = sentence(at(completeness=Completeness(860_000, unexplained=12)))
    assert said.headline == "12 samples are missing at the edge, and no device holds them."
    said = sentence(at(completeness=Completeness(860_000, at_edge=1)))
    assert said.headline.startswith("1 sample of the last 24 h is at the edge and not in the cloud")
    assert said.kind == "warn"


def test_dead_letters_of_all_three_kinds_are_counted_together() -> None:
    now = with_figures(bus=Bus(waiting=0, dead=2), pictures=Pictures(failed_count=1))
    said = sentence(replace(now, outbox=Outbox(events=0, oldest_seconds=0, dead=1)))
    assert (said.kind, said.headline) == ("warn", "4 messages were given up and wait for a person.")


def test_nothing_measured_is_not_everything_stored() -> None:
    assert sentence(at(completeness=Completeness(0))).headline == "Nothing was measured in the last 24 h."
    assert sentence(at(completeness=None)).kind == "warn"
    assert sentence(Situation(now=NOW, is_asked=False)).kind == "busy"


def test_well_is_said_only_when_nothing_is_lost_missing_late_given_up_or_away() -> None:
    """Every combination of what can be wrong: "Everything ... is stored" stands only where nothing is."""
    lost = Lost(1, 1, 1, LatestLoss("node-3", 1, "spool_cap", CUT_AT))
    choices = product(
        (Day(WHOLE_DAY.edge, WHOLE_DAY.cloud), Day(Summary(1, lost=lost), Summary(1))),
        ("up", "down", "refused", "stuck"),
        (
            Completeness(10),
            Completeness(10, at_edge=5),
            Completeness(10, on_devices=5),
            Completeness(10, unexplained=1),
        ),
        (Outbox(0, 0.0, 0), Outbox(7, 90.0, 0), Outbox(0, 0.0, 3)),
        ((), (Absence("cloud-ingestion", CUT_AT, "refused"),)),
    )
    for day, link, complete, outbox, absences in choices:
        now = replace(
            with_figures(day=day),
            link=LinkNow(link, CUT_AT),  # type: ignore[arg-type]  # product() forgets that these are literals
            completeness=complete,
            outbox=outbox,
            absences=absences,
        )
        said = sentence(now)
        is_well = (
            day.edge is not None and day.edge.lost.samples == 0
            and link == "up" and complete.measured == complete.stored and outbox == Outbox(0, 0.0, 0) and not absences
        )  # fmt: skip
        assert ("Everything" in said.text, said.kind == "good") == (is_well, is_well), said
        assert said.kind in KINDS
        assert ("Nothing is lost." in said.text) <= (day.edge is not None and day.edge.lost.samples == 0)


def test_a_moment_of_another_day_has_its_day() -> None:
    assert moment(NOW, NOW) == "12:30:00"
    assert moment(NOW - timedelta(days=1), NOW) == "2026-11-15 12:30"


def incomplete(number: int, device_id: str = "station-1", **pictures: int) -> IncompleteSession:
    return IncompleteSession(UUID(int=number), device_id, CUT_AT, PictureCounts(**pictures))


def test_not_everything_is_stored_while_a_weigh_session_lacks_pictures() -> None:
    said = sentence(with_figures(weighings=Weighings([incomplete(1, unheard=2, awaited=1), incomplete(2, refused=1)])))
    assert said.kind == "warn"
    assert said.text == (
        "2 weigh sessions at station-1 are incomplete since 12:03:05: 3 pictures are not at the edge, 1 picture was refused."
    )
    assert said.advice[0].path == "/sessions?status=incomplete&range=1y"
    unended = sentence(with_figures(weighings=Weighings([incomplete(1), incomplete(2, "station-2")], next="x")))
    assert unended.headline == "More than 2 weigh sessions are incomplete since 12:03:05: their end never came."


def test_what_a_weigh_station_gave_up_is_as_bad_as_lost_samples() -> None:
    lost = StationsLost(2, 7, 4, 1, CUT_AT, "station-1")
    for day in (Day(Summary(1, stations_lost=lost), Summary(1)), Day(Summary(1), Summary(1, stations_lost=lost))):
        said = sentence(with_figures(day=day))
        assert (said.kind, said.headline) == (
            "bad", "station-1 gave up 7 events and pictures, the last time at 12:03:05.",
        )  # fmt: skip
        cut = sentence(at(figures=replace(at().figures, day=day), link=LinkNow("down", CUT_AT)))
        assert "Nothing is lost." not in cut.text
    several = sentence(with_figures(day=Day(Summary(1, stations_lost=StationsLost(3, 0, 0, 2)), Summary(1))))
    assert several.headline == "2 weigh stations gave up something, and can't say how much."


def test_the_tile_counts_what_stations_gave_up_too() -> None:
    day = Day(Summary(1, stations_lost=StationsLost(2, 7, 4, 1)), Summary(1))
    assert at(figures=replace(at().figures, day=day), completeness=Completeness(1, lost=5)).lost == 12
    assert at(figures=Figures(), completeness=None).lost is None


def test_pictures_that_wait_for_long_are_not_called_stored() -> None:
    waiting = Pictures(pending_count=4, entries=[WaitingPicture(NOW - timedelta(minutes=9))])
    said = sentence(with_figures(pictures=waiting))
    assert (said.kind, said.headline) == ("busy", "4 pictures are at the edge and not in the cloud yet.")
