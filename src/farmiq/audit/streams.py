"""One stream: each of its sequences is in one place. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct

from farmiq.timeseries.coverage import Span, count, normalise, shared, without

Place = Literal["node_spool", "device", "edge_outbox", "cloud_bus", "moving"]
PLACES: Final[dict[Place, str]] = {
    "node_spool": "node spool",
    "device": "on the device, as it said last",
    "edge_outbox": "edge outbox",
    "cloud_bus": "cloud bus",
    "moving": "moved while this was asked",
}


class NodeAccount(Struct, frozen=True):
    """A stream as its device has it. `held` is None where only the device's own word, of `said_at`, is known."""

    captured_seq: int
    acked_seq: int
    held: list[Span] | None = None
    lost: list[Span] = []
    lost_acked: list[Span] = []
    """Those of them that the edge has acknowledged."""
    said_at: datetime | None = None


class Packs(Struct, frozen=True):
    """What the edge's outbox holds of a stream. `recent`: packs, one by one and in the order of their sequences, which the cloud
    acknowledged so lately that they can still be on its bus."""

    waiting: list[Span] = []
    dead: list[Span] = []
    recent: list[Span] = []
    has_losses: bool = False
    """Declared losses of the stream are in the outbox, or have just left it."""


class BusRoom:
    """How many messages the cloud's bus holds. Nobody can look into them, so each explains one event at most, and only one that
    was acknowledged within the age of the oldest message; of all devices and tenants together."""

    def __init__(self, messages: int) -> None:
        self.messages = messages

    def take(self, events: int) -> int:
        """How many of these events there is room for."""
        taken = min(events, self.messages)
        self.messages -= taken
        return taken


class TierCoverage(Struct, frozen=True):
    received: list[Span] = []
    lost: list[Span] = []


class StreamReading(Struct, frozen=True):
    """What each tier said. `is_raw_sent` is false where the cloud is told of aggregates only: then samples end at the edge."""

    stream_id: UUID
    node: NodeAccount | None = None
    edge: TierCoverage = TierCoverage()
    packs: Packs = Packs()
    cloud: TierCoverage = TierCoverage()
    is_raw_sent: bool = True


class Part(Struct, frozen=True):
    """Sequences that are in no good place, by the kind of `findings.WORDS`."""

    kind: str
    spans: list[Span]


class StreamBalance(Struct, frozen=True):
    """captured = stored + lost + in flight + dead-lettered + missing. `disagreements` are stored, and all the same not right."""

    captured: int
    stored: int
    lost: int
    in_flight: dict[Place, int]
    dead: list[Span]
    missing: list[Part]
    disagreements: list[Part]
    discarded: int = 0
    """Of what is lost: the edge has them, and the cloud has declared that it gave them up."""

    @property
    def at_edge(self) -> int:
        """In the edge's database, and not yet in the cloud's."""
        return (
            count(self.dead)
            + self.discarded
            + sum(self.in_flight.get(place, 0) for place in ("edge_outbox", "cloud_bus", "moving"))
        )


def balance_stream(reading: StreamReading, bus: BusRoom) -> StreamBalance:
    edge, cloud, node = reading.edge, reading.cloud, reading.node
    stored = cloud.received if reading.is_raw_sent else edge.received
    received = normalise([*edge.received, *stored])
    declared = without(normalise([*edge.lost, *cloud.lost, *(node.lost if node else ())]), received)
    end = max((span[1] for span in (*received, *declared)), default=1)
    everything: list[Span] = [(1, max(end, node.captured_seq + 1 if node else 1))]
    unstored = without(edge.received, stored)
    # What a person discarded in the cloud is declared there, and nothing of it waits any more.
    discarded = without(shared(unstored, cloud.lost), normalise([*reading.packs.waiting, *reading.packs.dead]))
    flying, dead, missing = _between(reading.packs, without(unstored, discarded), bus)
    upstream, gone = _upstream(node, without(everything, normalise([*received, *declared])))
    return StreamBalance(
        captured=count(everything),
        stored=count(stored),
        lost=count(declared) + count(discarded),
        in_flight={place: samples for place, samples in (flying | upstream).items() if samples},
        dead=dead,
        missing=[part for part in (*missing, *gone) if part.spans],
        disagreements=[part for part in _disagreements(reading) if part.spans],
        discarded=count(discarded),
    )


def _between(packs: Packs, spans: Sequence[Span], bus: BusRoom) -> tuple[dict[Place, int], list[Span], list[Part]]:
    """In the edge's database, and not in the cloud's."""
    dead = shared(spans, normalise(packs.dead))
    waiting = shared(without(spans, dead), normalise(packs.waiting))
    passed = without(without(spans, dead), waiting)
    on_bus = _on_bus(packs, passed, bus)
    flying: dict[Place, int] = {"edge_outbox": count(waiting), "cloud_bus": count(on_bus)}
    return flying, dead, [Part("lost_after_edge", without(passed, on_bus))]


def _on_bus(packs: Packs, spans: Sequence[Span], bus: BusRoom) -> list[Span]:
    """The latest packs are on the bus, if any are: so what is missing has the same name each time, whatever comes after it."""
    on_bus: list[Span] = []
    for pack in reversed(packs.recent):
        held = without(shared(spans, [pack]), on_bus)
        if held and bus.take(1):
            on_bus = normalise([*on_bus, *held])
    return on_bus


def _upstream(node: NodeAccount | None, spans: Sequence[Span]) -> tuple[dict[Place, int], list[Part]]:
    """In no database, and not declared lost."""
    if node is None:
        return {}, [Part("nowhere", list(spans))]
    acked: list[Span] = [(1, node.acked_seq + 1)]
    told, open_ = shared(spans, acked), without(spans, acked)
    if node.held is None:
        # A device deletes only what was acknowledged or declared lost: what is neither is still there.
        return {"device": count(open_)}, [Part("acked_and_gone", told)]
    return {"node_spool": count(shared(open_, node.held))}, [
        Part("not_in_spool", without(open_, node.held)),
        Part("acked_and_held", shared(told, node.held)),
        Part("acked_and_gone", without(told, node.held)),
    ]


def _disagreements(reading: StreamReading) -> list[Part]:
    edge, node = reading.edge, reading.node
    ahead = without(reading.cloud.received, normalise([*edge.received, *edge.lost]))
    # Both ledgers count as declared; what the cloud was never told of is wrong all the same.
    untold = (
        []
        if reading.packs.has_losses
        else without(edge.lost, normalise([*reading.cloud.received, *reading.cloud.lost]))
    )
    loss_not_in_cloud = Part("loss_not_in_cloud", without(untold, edge.received))
    if node is None or node.held is None:
        return [loss_not_in_cloud, Part("edge_lacks", ahead)]
    # What the node holds and is not acknowledged comes to the edge again, and is recognised there and in the cloud.
    coming = without(node.held, [(1, node.acked_seq + 1)])
    return [
        loss_not_in_cloud,
        Part("loss_not_at_edge", without(node.lost_acked, normalise([*edge.received, *edge.lost]))),
        Part("edge_lacks", without(ahead, coming)),
        Part("edge_ahead", without(edge.received, [(1, node.captured_seq + 1)])),
    ]
