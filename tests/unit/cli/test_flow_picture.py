import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

from rich.console import Console

from farmiq.cli.flow import Flow, Node, Outbox, Stream
from farmiq.cli.flow_picture import View, as_data, as_line, as_picture, as_short_line, sentence, view_of
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
        as_short_line(cut, 3.2) == "    3 s  60 wait at the edge, oldest 12 s · safe: on the edge's disk, 2.0 GB free"
    )
    assert as_short_line(view(), 3.2) == "    3 s  nothing waits"
    behind = view(edge=450, cloud=450)
    assert as_short_line(behind, 0) == "    0 s  40 wait at devices · safe: on the node's spool, room for 10 d 00 h"
    assert "at the edge: not known" in as_line(without_edge(), NOW)


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
