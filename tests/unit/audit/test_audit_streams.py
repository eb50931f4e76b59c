"""One stream: every sequence is in one place, and every way of not being in a good one has a name."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit.streams import (
    BusRoom,
    NodeAccount,
    Packs,
    Place,
    StreamBalance,
    StreamReading,
    TierCoverage,
    balance_stream,
)
from farmiq.timeseries.coverage import Span, count, normalise

STREAM = UUID(int=1)
NODE = NodeAccount(captured_seq=100, acked_seq=80, held=[(41, 101)])
# 1 to 60 are in the cloud, 61 to 80 in the outbox, 81 to 100 on the node.
READING = StreamReading(
    STREAM,
    node=NODE,
    edge=TierCoverage([(1, 81)]),
    packs=Packs(waiting=[(61, 81)]),
    cloud=TierCoverage([(1, 61)]),
)


class Case(Struct, frozen=True):
    reading: StreamReading
    stored: int
    lost: int = 0
    in_flight: dict[Place, int] = {}
    dead: int = 0
    missing: dict[str, list[Span]] = {}
    disagreements: dict[str, list[Span]] = {}
    captured: int = 100
    bus_messages: int = 0


EDGE_HALF: dict[Place, int] = {"edge_outbox": 20}
ON_THE_WAY: dict[Place, int] = {"edge_outbox": 20, "node_spool": 20}

CASES = {
    "everything is on its way": Case(READING, 60, in_flight=ON_THE_WAY),
    "everything has arrived": Case(
        replace(
            READING,
            node=NodeAccount(100, 100, [(41, 101)]),
            edge=TierCoverage([(1, 101)]),
            packs=Packs(),
            cloud=TierCoverage([(1, 101)]),
        ),
        100,
    ),
    "the node gave some up, and the cloud knows": Case(
        replace(
            READING,
            node=NodeAccount(100, 80, [(41, 101)], lost=[(21, 31)]),
            edge=TierCoverage([(1, 21), (31, 81)], [(21, 31)]),
            cloud=TierCoverage([(1, 21), (31, 61)], [(21, 31)]),
        ),
        50,
        lost=10,
        in_flight=ON_THE_WAY,
    ),
    "a loss that only the node has told of yet": Case(
        replace(READING, node=NodeAccount(100, 80, [(91, 101)], lost=[(81, 91)])),
        60,
        lost=10,
        in_flight={"edge_outbox": 20, "node_spool": 10},
    ),
    "what was declared lost and turned up is not lost": Case(
        replace(READING, cloud=TierCoverage([(1, 61)], [(61, 71)])), 60, in_flight=ON_THE_WAY
    ),
    "the live lane runs ahead of the replay": Case(
        replace(READING, edge=TierCoverage([(1, 81), (96, 101)]), packs=Packs(waiting=[(61, 81), (96, 101)])),
        60,
        in_flight={"edge_outbox": 25, "node_spool": 15},
    ),
    "taken by the cloud's entrance and still on the bus": Case(
        replace(READING, packs=Packs(waiting=[(71, 81)], recent=[(55, 66), (66, 71)])),
        60,
        in_flight={"edge_outbox": 10, "cloud_bus": 10, "node_spool": 20},
        bus_messages=3,
    ),
    "more than the one message on the bus can hold": Case(
        StreamReading(
            STREAM,
            edge=TierCoverage([(1, 161)]),
            packs=Packs(recent=[(61, 81), (81, 121), (121, 161)]),
            cloud=TierCoverage([(1, 61)]),
        ),
        60,
        in_flight={"cloud_bus": 40},
        missing={"lost_after_edge": [(61, 121)]},
        captured=160,
        bus_messages=1,
    ),
    "a hole that is older than every message on the bus (promise-cloud 4)": Case(
        StreamReading(
            STREAM,
            edge=TierCoverage([(1, 1_000_001)]),
            packs=Packs(recent=[(999_501, 1_000_001)]),
            cloud=TierCoverage([(1, 100_001), (104_001, 1_000_001)]),
        ),
        996_000,
        missing={"lost_after_edge": [(100_001, 104_001)]},
        captured=1_000_000,
        bus_messages=1,
    ),
    "what a person discarded in the cloud is declared there": Case(
        replace(READING, packs=Packs(waiting=[(71, 81)]), cloud=TierCoverage([(1, 61)], [(61, 71)])),
        60,
        lost=10,
        in_flight={"edge_outbox": 10, "node_spool": 20},
    ),
    "a loss that the cloud was never told of": Case(
        replace(
            READING,
            node=NodeAccount(100, 80, [(41, 101)], lost=[(21, 31)]),
            edge=TierCoverage([(1, 21), (31, 81)], [(21, 31)]),
            cloud=TierCoverage([(1, 21), (31, 61)]),
        ),
        50,
        lost=10,
        in_flight=ON_THE_WAY,
        disagreements={"loss_not_in_cloud": [(21, 31)]},
    ),
    "a loss that the edge took over and has no record of": Case(
        replace(READING, node=NodeAccount(100, 80, [(91, 101)], lost=[(81, 91)], lost_acked=[(81, 91)])),
        60,
        lost=10,
        in_flight={"edge_outbox": 20, "node_spool": 10},
        disagreements={"loss_not_at_edge": [(81, 91)]},
    ),
    "a loss of which the outbox has to tell": Case(
        replace(
            READING,
            edge=TierCoverage([(1, 21), (31, 81)], [(21, 31)]),
            packs=Packs(waiting=[(61, 81)], has_losses=True),
            cloud=TierCoverage([(1, 21), (31, 61)]),
        ),
        50,
        lost=10,
        in_flight=ON_THE_WAY,
    ),
    "taken by the cloud's entrance and nowhere": Case(
        replace(READING, packs=Packs(waiting=[(71, 81)])),
        60,
        in_flight={"edge_outbox": 10, "node_spool": 20},
        missing={"lost_after_edge": [(61, 71)]},
    ),
    "given up by the outbox": Case(
        replace(READING, packs=Packs(waiting=[(71, 81)], dead=[(61, 71)])),
        60,
        in_flight={"edge_outbox": 10, "node_spool": 20},
        dead=10,
    ),
    "the spool has a hole": Case(
        replace(READING, node=NodeAccount(100, 80, [(41, 86), (91, 101)])),
        60,
        in_flight={"edge_outbox": 20, "node_spool": 15},
        missing={"not_in_spool": [(86, 91)]},
    ),
    "acknowledged, deleted by the node, and not at the edge": Case(
        replace(READING, edge=TierCoverage([(1, 21), (31, 81)]), cloud=TierCoverage([(1, 21), (31, 61)])),
        50,
        in_flight=ON_THE_WAY,
        missing={"acked_and_gone": [(21, 31)]},
    ),
    "acknowledged, still held by the node, and not at the edge": Case(
        replace(READING, edge=TierCoverage([(1, 71)]), packs=Packs(waiting=[(61, 71)])),
        60,
        in_flight={"edge_outbox": 10, "node_spool": 20},
        missing={"acked_and_held": [(71, 81)]},
    ),
    "a device elsewhere holds what it was not told is safe": Case(
        replace(READING, node=NodeAccount(100, 80)), 60, in_flight={"edge_outbox": 20, "device": 20}
    ),
    "a device elsewhere was told that something is safe which is not": Case(
        replace(READING, node=NodeAccount(100, 90)),
        60,
        in_flight={"edge_outbox": 20, "device": 10},
        missing={"acked_and_gone": [(81, 91)]},
    ),
    "nobody says that he has what is missing": Case(
        replace(READING, node=None, edge=TierCoverage([(1, 21), (31, 81)]), cloud=TierCoverage([(1, 21), (31, 61)])),
        50,
        in_flight=EDGE_HALF,
        missing={"nowhere": [(21, 31)]},
        captured=80,
    ),
    "the cloud has what the edge has forgotten": Case(
        replace(READING, edge=TierCoverage([(1, 41)]), packs=Packs(), node=NodeAccount(60, 60, [(51, 61)])),
        60,
        disagreements={"edge_lacks": [(41, 61)]},
        captured=60,
    ),
    "the edge has forgotten it, and the node will send it again": Case(
        replace(READING, edge=TierCoverage([(1, 41)]), packs=Packs(), node=NodeAccount(60, 40, [(41, 61)])),
        60,
        captured=60,
    ),
    "the edge has more than the node ever wrote": Case(
        replace(READING, node=NodeAccount(70, 60, [(41, 71)])),
        60,
        in_flight=EDGE_HALF,
        disagreements={"edge_ahead": [(71, 81)]},
        captured=80,
    ),
    "the cloud is told of aggregates only": Case(
        replace(READING, cloud=TierCoverage(), packs=Packs(), is_raw_sent=False), 80, in_flight={"node_spool": 20}
    ),
    "nothing was ever captured": Case(StreamReading(STREAM), 0, captured=0),
}


def adds_up(balance: StreamBalance) -> bool:
    missing = sum(count(part.spans) for part in balance.missing)
    parts = balance.stored + balance.lost + sum(balance.in_flight.values()) + count(balance.dead) + missing
    return balance.captured == parts


@pytest.mark.parametrize("name", CASES)
def test_each_sequence_is_somewhere_and_what_is_wrong_has_its_name(name: str) -> None:
    case = CASES[name]
    found = balance_stream(case.reading, BusRoom(case.bus_messages))
    assert adds_up(found)
    assert (found.captured, found.stored, found.lost, count(found.dead)) == (
        case.captured,
        case.stored,
        case.lost,
        case.dead,
    )
    assert found.in_flight == case.in_flight
    assert {part.kind: part.spans for part in found.missing} == case.missing
    assert {part.kind: part.spans for part in found.disagreements} == case.disagreements


PLACES = ("cloud", "bus", "outbox", "dead", "node", "declared", "gone")


@given(st.lists(st.sampled_from(PLACES), max_size=60))
def test_wherever_each_sample_is_the_audit_finds_just_that(places: list[str]) -> None:
    """A farm in which each sequence stands at one of these places, as the tiers would tell it."""

    def spans(*where: str) -> list[Span]:
        return normalise((seq, seq + 1) for seq, place in enumerate(places, 1) if place in where)

    reading = StreamReading(
        STREAM,
        NodeAccount(len(places), 0, spans("node"), lost=spans("declared")),
        TierCoverage(spans("cloud", "bus", "outbox", "dead")),
        Packs(
            spans("outbox"), spans("dead"), [(seq, seq + 1) for first, end in spans("bus") for seq in range(first, end)]
        ),
        TierCoverage(spans("cloud")),
    )
    found = balance_stream(reading, BusRoom(places.count("bus")))
    assert adds_up(found)
    assert found.captured == len(places)
    assert (found.stored, found.lost) == (places.count("cloud"), places.count("declared"))
    in_flight = {
        "cloud_bus": places.count("bus"),
        "edge_outbox": places.count("outbox"),
        "node_spool": places.count("node"),
    }
    assert found.in_flight == {place: samples for place, samples in in_flight.items() if samples}
    assert found.dead == spans("dead")
    assert {part.kind: part.spans for part in found.missing} == (
        {"not_in_spool": spans("gone")} if "gone" in places else {}
    )
    assert found.disagreements == []


some_spans = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 8)).map(lambda pair: (pair[0], sum(pair))), max_size=5
).map(normalise)


@given(*[some_spans] * 8, st.integers(0, 60), st.integers(0, 60), st.booleans(), st.booleans())
def test_whatever_the_tiers_say_the_sum_holds(
    held: list[Span],
    node_lost: list[Span],
    edge: list[Span],
    edge_lost: list[Span],
    waiting: list[Span],
    dead: list[Span],
    cloud: list[Span],
    cloud_lost: list[Span],
    captured: int,
    acked: int,
    has_node: bool,
    is_here: bool,
) -> None:
    node = NodeAccount(captured, acked, held if is_here else None, node_lost) if has_node else None
    reading = StreamReading(
        STREAM, node, TierCoverage(edge, edge_lost), Packs(waiting, dead), TierCoverage(cloud, cloud_lost)
    )
    assert adds_up(balance_stream(reading, BusRoom(0)))
