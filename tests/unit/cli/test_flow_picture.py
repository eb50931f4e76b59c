import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from farmiq.cli.flow import Flow, Hold, Node, Outbox, Stream
from farmiq.cli.flow_picture import View, as_data, as_line, as_picture, as_short_line, reason, sentence, view_of
from farmiq.cli.flow_sums import Rates
from farmiq.stack.relay.faults import HEALTHY, Faults, RouteFaults, Timeout, both_ways
from farmiq.stack.relay.protocol import RouteState

NOW = datetime(2026, 11, 16, 12, 0, 12, tzinfo=UTC)
STREAM = "stream-a"
FREE = 2_000_000_000


def route(name: str, faults: RouteFaults = HEALTHY) -> RouteState:
    return RouteState(
        name=name,
        ports=[1],
        faults=faults,
        connections=0,
        accepted=0,
        turned_away=0,
        upstream_bytes=0,
        downstream_bytes=0,
    )


def has(count: int) -> dict[str, Stream]:
    return {STREAM: Stream("node-1", count, count, count, 0)}


def view(captured: int = 490, edge: int = 490, cloud: int = 490, **parts: object) -> View:
    node = Node(STREAM, captured, captured - edge, None, 864_000.0, 0)
    flow = Flow(
        0.0, node, edge=has(edge), cloud=has(cloud), outbox=Outbox(0, 0, 0, 0.0), dead_in_cloud=0, edge_free_bytes=FREE,
        routes=(route("broker"), route("wan")),
    )  # fmt: skip
    return view_of(replace(flow, **parts), Rates(5.0, 5.0, 5.0), 37)  # type: ignore[arg-type]  # named by each test


CUT = RouteFaults(down=True, since=NOW - timedelta(seconds=12))


def test_the_sentence_says_whether_anything_is_missing() -> None:
    assert sentence(view(), NOW) == "Everything captured is in the cloud; nothing is lost."
    assert sentence(view(cloud=485), NOW) == "Everything is on its way to the cloud; nothing is lost."
    late = view(cloud=400, outbox=Outbox(9, 0, 0, 60.0))
    assert sentence(late, NOW) == "90 samples wait; nothing is lost."
    cut = view(cloud=430, routes=(route("wan", CUT),))
    assert sentence(cut, NOW) == "60 samples wait; nothing is lost. wan is cut since 12 s."
    assert sentence(replace(view(), total=None), NOW) == "The cloud does not say what it has."
    lost = view(cloud=490, edge=490)
    lossy = replace(lost, total=replace(lost.total, stored=480, lost=10))  # type: ignore[type-var]  # there is a total
    assert sentence(lossy, NOW) == "Everything captured is in the cloud; 10 declared lost."


def test_a_fault_that_is_no_cut_is_named() -> None:
    half_open = both_ways(Faults(timeout=Timeout()))
    assert "broker suffers from timeout." in sentence(view(routes=(route("broker", half_open),)), NOW)


def test_a_line_says_what_waits_where_and_how_safe() -> None:
    cut = view(cloud=430, outbox=Outbox(12, 0, 0, 12.0), routes=(route("wan", CUT),))
    assert as_line(cut, NOW) == (
        "12:00:12  captured 490 · stored 430 · 60 wait at the edge, oldest 12 s · safe: on the edge's disk, 2.0 GB free · "
        "wan is cut since 12 s · lost 0 · duplicates removed 37 · dead letters 0 edge, 0 cloud"
    )
    assert (
        as_short_line(cut, 3.2, NOW)
        == "    3 s  60 wait at the edge, oldest 12 s · safe: on the edge's disk, 2.0 GB free"
    )
    assert as_short_line(view(), 3.2, NOW) == "    3 s  nothing waits"
    behind = view(edge=450, cloud=450)
    assert (
        as_short_line(behind, 0, NOW) == "    0 s  40 wait at devices · safe: on the node's spool, room for 10 d 00 h"
    )
    assert "at the edge: not known" in as_line(without_edge(), NOW)


@pytest.mark.parametrize(
    ("hold", "outbox", "text"),
    [
        (Hold(), Outbox(12, 0, 0, 12.0), ""),
        (
            Hold(failures=7, error="TIMEOUT", next_try_at=NOW + timedelta(seconds=41)),
            Outbox(12, 0, 0, 12.0),
            "no response from the cloud in time, 7 times in a row, next try in 41 s",
        ),
        (
            Hold(failures=1, error="HTTP_500: the cloud failed", next_try_at=NOW),
            Outbox(1, 0, 0, 12.0),
            "HTTP_500: the cloud failed, next try now",
        ),
        (
            Hold(in_flight_since=NOW - timedelta(seconds=42), lease_expires_at=NOW + timedelta(seconds=78)),
            Outbox(0, 12, 0, 42.0),
            "12 events have been in a request for 42 s, their lease ends in 1 m 18 s",
        ),
        (Hold(in_flight_since=NOW - timedelta(seconds=1)), Outbox(0, 12, 0, 1.0), ""),
        (Hold(failures=7, error="TIMEOUT"), Outbox(0, 0, 0, 0.0), ""),
    ],
)
def test_what_waits_at_the_edge_waits_for_a_reason_that_is_shown_everywhere(
    hold: Hold, outbox: Outbox, text: str
) -> None:
    shown = view(cloud=430, hold=hold, outbox=outbox)
    assert reason(shown, NOW) == text
    assert (f"why: {text}" in as_line(shown, NOW)) == bool(text)
    assert (f"why: {text}" in as_short_line(shown, 3.0, NOW)) == bool(text)
    assert (f"waits because: {text}" in drawn(shown)) == bool(text)
    assert as_data(shown, NOW)["edge"]["why"] == (text or None)


def without_edge() -> View:
    """The edge's database is cut: nobody there knows anything."""
    node = Node(STREAM, 490, 40, 4.0, None, 0)
    flow = Flow(0.0, node, cloud=has(450), routes=(route("edge-db", CUT),), problems={"edge": "answered 503"})
    return view_of(flow, Rates(), 0)


def test_a_hop_that_does_not_answer_is_shown_as_not_known() -> None:
    cut = without_edge()
    line = as_line(cut, NOW)
    assert "40 wait at devices, oldest 4 s" in line
    assert "dead letters ? edge, ? cloud" in line
    assert "edge: answered 503" in drawn(cut)


def test_the_picture_has_every_hop_and_marks_the_cut_with_more_than_a_colour() -> None:
    cut = view(cloud=430, outbox=Outbox(12, 0, 0, 12.0), routes=(route("wan", CUT),))
    picture = drawn(cut)
    assert "devices → edge" in picture
    assert "edge → cloud  ✂ wan" in picture
    assert "60 wait" in picture
    assert "430 of 490 captured" in picture
    assert "safe: on the edge's disk" in picture


def drawn(shown: View) -> str:
    page = Console(file=StringIO(), width=160, color_system=None)
    page.print(as_picture(shown, "farmiq watch", NOW))
    assert isinstance(page.file, StringIO)
    return page.file.getvalue()


def test_as_data_it_is_json_with_everything_in_it() -> None:
    told = json.loads(json.dumps(as_data(view(cloud=430, routes=(route("wan", CUT),)), NOW)))
    assert (told["captured"], told["stored"], told["lost"], told["duplicates_removed"]) == (490, 430, 0, 37)
    assert told["edge"]["samples"] == 60
    assert told["routes"] == {"wan": ["down"]}
    assert told["rates"]["captured_per_second"] == 5.0
