"""Device by hour: of everything that a device measured, what is in the cloud, what is on its way and where, what is declared
lost, and what nobody can explain. Nothing here asks anybody: it joins what the node, the edge and the cloud say.

A tier that could not be asked makes a cell unknown, and never complete.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from farmiq.console.fleet.answers import Coverage, DeadLetters, Device
from farmiq.timeseries.hours import Step, shared_out

State = Literal["stored", "in_flight", "lost", "unexplained", "unknown", "silent", "nothing"]
Place = Literal["node", "outbox", "dead_letters", "edge", "bus"]

PLACES: Final[Mapping[Place, str]] = {
    "node": "on the node's own disk",
    "outbox": "in the edge database, in the outbox for the cloud",
    "dead_letters": "in the edge database, among its dead letters",
    "edge": "in the edge database",
    "bus": "given to the cloud, not in its database yet",
}
WORDS: Final[Mapping[State, str]] = {
    "stored": "stored in the cloud",
    "in_flight": "in flight",
    "lost": "declared lost",
    "unexplained": "unexplained",
    "unknown": "not known",
    "silent": "not heard",
    "nothing": "nothing measured",
}
SIGNS: Final[Mapping[State, str]] = {
    "stored": "✓",
    "in_flight": "◐",
    "lost": "▼",
    "unexplained": "✖",
    "unknown": "?",
    "silent": "\u2013",
    "nothing": "·",
}


class Tier(Struct, frozen=True):
    """What one database says of one hour."""

    stored: int = 0
    lost: int = 0
    missing: int = 0


NOTHING: Final = Tier()


class Node(Struct, frozen=True):
    """What a node still holds, by its own word: gaps that the edge sees, and what lies beyond the newest that the edge has."""

    held_gaps: int = 0
    tail: int = 0
    tail_from: datetime | None = None
    tail_until: datetime | None = None
    heard_at: datetime | None = None


class Outbox(Struct, frozen=True):
    """`waiting` is None when nobody could be asked; `dead_at` are the times of this device's dead letters."""

    waiting: int | None = None
    dead_at: tuple[datetime, ...] = ()


class Cell(Struct, frozen=True):
    """The numbers add up to what is known to have been measured. `in_cloud` is None when the cloud could not be asked."""

    at: datetime
    state: State
    in_cloud: int | None = None
    in_edge: int = 0
    on_node: int = 0
    lost: int = 0
    unexplained: int = 0
    places: tuple[Place, ...] = ()

    @property
    def sign(self) -> str:
        return SIGNS[self.state]

    @property
    def number(self) -> int | None:
        """What the cell is about, in samples."""
        return {
            "stored": self.in_cloud,
            "in_flight": self.in_edge + self.on_node,
            "lost": self.lost,
            "unexplained": self.unexplained,
            "unknown": (self.in_cloud or self.in_edge) or None,
        }.get(self.state)

    @property
    def words(self) -> str:
        """All of it, in one line for a person and for a screen reader."""
        parts = [
            f"{self.unexplained:,} unexplained" if self.unexplained else "",
            f"{self.lost:,} declared lost" if self.lost else "",
            f"{self.on_node:,} {PLACES['node']}" if self.on_node else "",
            f"{self.in_edge:,} {self._edge_words}" if self.in_edge else "",
            f"{self.in_cloud:,} stored in the cloud" if self.in_cloud else "",
            "what the cloud has is not known" if self.in_cloud is None and self.state == "unknown" else "",
        ]
        return ", ".join(part for part in parts if part) or WORDS[self.state]

    @property
    def _edge_words(self) -> str:
        return " and ".join(PLACES[place] for place in self.places if place != "node") or PLACES["edge"]


class Row(Struct, frozen=True):
    """`undated` lies between times that nobody knows, and is in none of the cells."""

    device: Device
    cells: list[Cell]
    undated: int = 0

    @property
    def is_complete(self) -> bool:
        return not self.undated and all(cell.state in {"stored", "nothing"} for cell in self.cells)


class Sums(Struct, frozen=True):
    in_cloud: int
    in_edge: int
    on_node: int
    lost: int
    unexplained: int
    unknown_cells: int

    @property
    def known(self) -> int:
        return self.in_cloud + self.in_edge + self.on_node + self.lost + self.unexplained


def hours_between(since: datetime, until: datetime, step: timedelta) -> list[datetime]:
    """`since` is the beginning of an hour or a day."""
    count = max(0, -((since - until) // step))
    return [since + number * step for number in range(count)]


def node_of(device: Device) -> Node:
    """A node deletes only what the edge has acknowledged, so it still has each gap of the stream that it is writing, unless it
    says that nothing waits and nothing newer has come since."""
    marks, status = device.marks, device.status
    if marks is None or status is None or marks.captured_seq is None:
        return Node(heard_at=device.last_rx_at)
    is_settled = device.status_at is not None and (
        device.last_sample_ts is None or device.status_at >= device.last_sample_ts
    )
    claims_nothing = status.unacked_count == 0 and is_settled
    return Node(
        held_gaps=0 if claims_nothing else marks.edge_missing,
        tail=0 if claims_nothing else max(0, marks.captured_seq - marks.edge_highest_seq),
        tail_from=device.last_sample_ts,
        tail_until=device.status_at,
        heard_at=device.last_rx_at,
    )


def row_of(
    device: Device,
    hours: Sequence[datetime],
    step: Step,
    edge: Mapping[datetime, Tier] | None,
    cloud: Mapping[datetime, Tier] | None,
    outbox: Outbox,
    undated: int = 0,
) -> Row:
    """None instead of a tier: it could not be asked. Gaps that the node holds are taken from the newest hours first."""
    node = node_of(device)
    tails = _tails(node, hours, step)
    budget = node.held_gaps
    last_stored_at = max((at for at, tier in (cloud or {}).items() if tier.stored), default=None)
    cells: list[Cell] = []
    for at in reversed(hours):
        held = 0
        if edge is not None:
            held = min(budget, edge.get(at, NOTHING).missing)
            budget -= held
        cell = _cell(at, edge, cloud, held + tails.get(at, 0), held, last_stored_at)
        cells.append(_placed(cell, outbox, node.heard_at, _end(at, step)))
    return Row(device, cells[::-1], max(0, undated - budget))


def tiers_of(coverage: Coverage | None) -> dict[str, dict[datetime, Tier]] | None:
    """By device and hour."""
    if coverage is None:
        return None
    found: dict[str, dict[datetime, Tier]] = {}
    for hour in coverage.hours:
        found.setdefault(hour.device_id, {})[hour.hour_at] = Tier(hour.stored, hour.lost, hour.missing)
    return found


def dead_times(dead: DeadLetters | None) -> dict[str, tuple[datetime, ...]]:
    """When each device's dead letters happened."""
    found: dict[str, tuple[datetime, ...]] = {}
    for letter in dead.entries if dead else ():
        if letter.device_id is not None and letter.occurred_at is not None:
            found[letter.device_id] = (*found.get(letter.device_id, ()), letter.occurred_at)
    return found


def sums_of(rows: Iterable[Row]) -> Sums:
    cells = [cell for row in rows for cell in row.cells]
    return Sums(
        sum(cell.in_cloud or 0 for cell in cells),
        sum(cell.in_edge for cell in cells),
        sum(cell.on_node for cell in cells),
        sum(cell.lost for cell in cells),
        sum(cell.unexplained for cell in cells) + sum(row.undated for row in rows),
        sum(cell.state == "unknown" for cell in cells),
    )


def sentence_of(sums: Sums) -> tuple[str, str]:
    """Kind and words: is anything missing?"""
    if sums.unexplained:
        return "bad", f"{sums.unexplained:,} samples are missing and nobody has explained why."
    if sums.unknown_cells and not sums.known:
        return "warn", "Whether anything is missing is not known just now."
    waiting = sums.in_edge + sums.on_node
    lost = f" {sums.lost:,} are declared lost." if sums.lost else ""
    if sums.unknown_cells:
        return "warn", f"For {sums.unknown_cells:,} fields it is not known just now whether all is in the cloud.{lost}"
    if waiting:
        where = [
            f"{sums.on_node:,} on their nodes" if sums.on_node else "",
            f"{sums.in_edge:,} in the edge" if sums.in_edge else "",
        ]
        told = " and ".join(part for part in where if part)
        return "busy", f"Nothing is missing: {waiting:,} samples are on their way ({told}).{lost}"
    if sums.lost:
        return "warn", f"Nothing is missing without a reason:{lost}"
    return "good", f"Everything that is known to have been measured is stored in the cloud: {sums.in_cloud:,} samples."


def _cell(
    at: datetime,
    edge: Mapping[datetime, Tier] | None,
    cloud: Mapping[datetime, Tier] | None,
    on_node: int,
    held_gaps: int,
    last_stored_at: datetime | None,
) -> Cell:
    here = NOTHING if edge is None else edge.get(at, NOTHING)
    there = NOTHING if cloud is None else cloud.get(at, NOTHING)
    lost = max(here.lost, there.lost)
    if edge is None and cloud is None:
        return Cell(at, "unknown")
    if cloud is None:
        unexplained = here.missing - held_gaps
        state: State = "unexplained" if unexplained else "unknown"
        return Cell(at, state, None, here.stored, on_node, lost, unexplained)
    if edge is None:
        # Numbered samples: what has successors in the cloud and no gap before them is all there.
        is_closed = last_stored_at is not None and at < last_stored_at and not there.missing
        return Cell(at, _state(there.stored, 0, lost, 0) if is_closed else "unknown", there.stored, lost=lost)
    # The cloud may hold what an edge that was restored no longer has. Of an hour that the edge knows nothing of, the cloud
    # alone can tell: its gaps are not shared out as the edge's samples lie, so they count only there.
    ahead = max(0, there.stored - here.stored)
    missing = there.missing if here == NOTHING else here.missing - held_gaps - ahead
    unexplained = max(0, missing)
    in_edge = max(0, here.stored - there.stored)
    return Cell(
        at,
        _state(there.stored, in_edge + on_node, lost, unexplained),
        there.stored,
        in_edge,
        on_node,
        lost,
        unexplained,
    )


def _state(in_cloud: int, in_flight: int, lost: int, unexplained: int) -> State:
    """The worst that is in it."""
    if unexplained:
        return "unexplained"
    if in_flight:
        return "in_flight"
    if lost:
        return "lost"
    return "stored" if in_cloud else "nothing"


def _placed(cell: Cell, outbox: Outbox, heard_at: datetime | None, end_at: datetime) -> Cell:
    """Where what is in flight is, and whether an empty hour is one in which nobody heard of the device."""
    places: list[Place] = ["node"] if cell.on_node else []
    if cell.in_edge and cell.in_cloud is not None:
        places += _places_after_edge(outbox, cell.at, end_at)
    state = cell.state
    if state == "nothing" and heard_at is not None and cell.at > heard_at:
        state = "silent"
    return Cell(cell.at, state, cell.in_cloud, cell.in_edge, cell.on_node, cell.lost, cell.unexplained, tuple(places))


def _places_after_edge(outbox: Outbox, at: datetime, end_at: datetime) -> list[Place]:
    dead: list[Place] = ["dead_letters"] if any(at <= moment < end_at for moment in outbox.dead_at) else []
    if outbox.waiting is None:
        return [*dead, "edge"]
    if outbox.waiting:
        return [*dead, "outbox"]
    return dead or ["bus"]


def _tails(node: Node, hours: Sequence[datetime], step: Step) -> dict[datetime, int]:
    if not node.tail or node.tail_until is None or not hours:
        return {}
    first = min(node.tail_from or node.tail_until, node.tail_until)
    return dict(shared_out(node.tail, first, node.tail_until, hours[0], _end(hours[-1], step), step))


def _end(at: datetime, step: Step) -> datetime:
    return at + (timedelta(hours=1) if step == "1h" else timedelta(days=1))
