"""Compares what the generators wrote down with what the cloud has. Pure.

Accepted is what the system acknowledged. Of that: *lost* is in neither the database nor a declared loss, *duplicated* is there
more than once, *altered* is there and says something else. *Never sent* is in the database and in nobody's ledger. *Unexplained*
was declared lost by a node to which nothing was done that loses samples."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from farmiq.spool import Cause
from farmiq.timeseries.coverage import count, normalise, shared
from farmiq.torture.ledger import BusPoison, Heard, Line, Offered, Picture, Said, Stored, Weighed
from farmiq.torture.samples import sensor_of, wall_us_of

EXAMPLES_MAX = 20
ACCEPTED = frozenset({"stored", "duplicate"})
WRONG: Final = ("lost", "unexplained", "duplicated", "altered", "never_sent")
FULL_DISK: Final[Set[str]] = frozenset({Cause.CAP_REACHED, Cause.SYNC_FAILED})
"""Why a node may give samples up whose disk was filled. No other fault of a campaign takes an accepted sample away."""


@dataclass
class Tally:
    accepted: int = 0
    stored: int = 0
    declared_lost: int = 0
    lost: int = 0
    unexplained: int = 0
    duplicated: int = 0
    altered: int = 0
    never_sent: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not any(getattr(self, name) for name in WRONG)

    def blame(self, what: str, text: str, count: int = 1) -> None:
        setattr(self, what, getattr(self, what) + count)
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(f"{what.replace('_', ' ')}: {text}")

    def add(self, other: "Tally") -> None:
        for name in ("accepted", "stored", "declared_lost", *WRONG):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.examples = (self.examples + other.examples)[:EXAMPLES_MAX]


@dataclass
class Ledger:
    """The lines of all generators, sorted by what they are about."""

    offers: dict[str, list[Offered]] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    said: dict[UUID, Said] = field(default_factory=dict)
    heard: dict[UUID, str] = field(default_factory=dict)
    pictures: dict[UUID, Picture] = field(default_factory=dict)
    weighed: dict[UUID, Weighed] = field(default_factory=dict)
    bus_poison: dict[UUID, BusPoison] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Line]) -> "Ledger":
        ledger = cls()
        for line in lines:
            ledger._take(line)
        return ledger

    def _take(self, line: Line) -> None:
        match line:
            case Offered(device):
                self.offers.setdefault(device, []).append(line)
            case Stored(device, last):
                self.stored[device] = max(last, self.stored.get(device, 0))
            case Said(_, event_id):
                self.said[event_id] = line
            case Heard(event_id, result):
                self.heard[event_id] = result
            case Picture(media):
                self.pictures[media] = line
            case Weighed(session):
                self.weighed[session] = line
            case BusPoison(poison):
                self.bus_poison[poison] = line


@dataclass(frozen=True)
class Declared:
    """A loss record of the cloud, `first` to `last`."""

    first: int
    last: int
    reason: str


class NodeJudge:
    """Takes the rows of one node in the order of their sequence. Its spool counts as the generator: sample n is sequence n.

    `reasons` are those for which this node may have declared samples lost, after what was done to it."""

    def __init__(
        self,
        device: str,
        offers: Sequence[Offered],
        accepted: int,
        declared: Sequence[Declared] = (),
        reasons: Set[str] = frozenset(),
    ) -> None:
        self.tally = Tally(accepted=accepted)
        self._device = device
        self._offers = offers
        self._at = 0
        # Two records may speak of the same sample, which is lost only once.
        self._declared = normalise((one.first, one.last + 1) for one in declared)
        self._last = 0
        for one in declared:
            self._explain(one, reasons)

    def take(self, seq: int, value: float, sensor: str | None, at_us: int) -> None:
        if seq == self._last:
            self.tally.blame("duplicated", f"{self._device} {seq}")
            return
        self._miss(self._last + 1, seq - 1)
        self._last = seq
        offer = self._offer_of(seq)
        if offer is None:
            self.tally.blame("never_sent", f"{self._device} {seq} = {value}")
            return
        expected = (float(seq), sensor_of(seq), wall_us_of(offer, seq))
        if (value, sensor, at_us) != expected:
            self.tally.blame("altered", f"{self._device} {seq}: {(value, sensor, at_us)} instead of {expected}")
            return
        self.tally.stored += 1

    def finish(self) -> Tally:
        self._miss(self._last + 1, self.tally.accepted)
        return self.tally

    def _explain(self, declared: Declared, reasons: Set[str]) -> None:
        offered = self._offers[-1].last if self._offers else 0
        if declared.reason not in reasons or declared.last > offered:
            text = f"{self._device} {declared.first} to {declared.last} declared lost: {declared.reason}"
            self.tally.blame("unexplained", text, declared.last - declared.first + 1)

    def _offer_of(self, seq: int) -> Offered | None:
        while self._at < len(self._offers) and self._offers[self._at].last < seq:
            self._at += 1
        found = self._offers[self._at] if self._at < len(self._offers) else None
        return found if found is not None and found.first <= seq else None

    def _miss(self, first: int, last: int) -> None:
        """What was offered and never acknowledged was not accepted, and may be missing."""
        last = min(last, self.tally.accepted)
        if first > last:
            return
        declared = count(shared([(first, last + 1)], self._declared))
        self.tally.declared_lost += declared
        missing = last - first + 1 - declared
        if missing > 0:
            self.tally.blame("lost", f"{self._device} {first} to {last}", missing)


@dataclass(frozen=True)
class Found:
    """One event in the cloud, with what can be compared of it."""

    event_id: UUID
    device: str
    at_us: int
    value: float | None = None
    session: UUID | None = None
    media: UUID | None = None


def judge_events(said: Mapping[UUID, Said], heard: Mapping[UUID, str], found: Sequence[Found]) -> Tally:
    """Of those kinds of event that are one row each in the cloud."""
    tally = Tally()
    _blame_repeated(tally, "event", (one.event_id for one in found))
    rows = {one.event_id: one for one in found}
    for event_id, row in rows.items():
        if event_id not in said or said[event_id].is_poison:
            tally.blame("never_sent", f"event {event_id} of {row.device}")
    for event_id, event in said.items():
        _judge_event(tally, event, heard.get(event_id), rows.get(event_id))
    return tally


def _judge_event(tally: Tally, event: Said, result: str | None, row: Found | None) -> None:
    if event.is_poison:
        if result in ACCEPTED:
            tally.blame("altered", f"poison {event.event_id} was accepted")
        return
    if result == "rejected":
        tally.blame("lost", f"{event.event_type} {event.event_id} was refused, and nothing was wrong with it")
    if row is None:
        if result in ACCEPTED:
            tally.accepted += 1
            tally.blame("lost", f"{event.event_type} {event.event_id} of {event.device}")
        return
    tally.accepted += 1
    if row != Found(event.event_id, event.device, event.at_us, event.value, event.session, event.media):
        tally.blame("altered", f"{event.event_type} {event.event_id}: {row}")
    else:
        tally.stored += 1


@dataclass(frozen=True)
class FoundSession:
    session: UUID
    device: str | None
    status: str
    weight_kg: float | None
    image_count: int | None


def judge_sessions(weighed: Mapping[UUID, Weighed], begun: Set[UUID], found: Sequence[FoundSession]) -> Tally:
    """`found` are all of the stations in question, also those that nobody weighed. Of `begun`, not every one was weighed to its
    end."""
    tally = Tally(accepted=len(weighed))
    _blame_repeated(tally, "session", (row.session for row in found))
    rows = {row.session: row for row in found}
    for session in rows.keys() - begun - weighed.keys():
        tally.blame("never_sent", f"session {session}: {rows[session]}")
    for session, said in weighed.items():
        row = rows.get(session)
        if row is None:
            tally.blame("lost", f"session {session}")
        elif row != FoundSession(session, said.device, "finalized", said.weight_kg, len(said.media)):
            tally.blame("altered", f"session {session}: {row}")
        else:
            tally.stored += 1
    return tally


@dataclass(frozen=True)
class FoundPicture:
    """`sha256` is that of the bytes in the cloud's object store; None when they could not be read."""

    media: UUID
    session: UUID | None
    state: str
    sha256: str | None


def judge_pictures(taken: Mapping[UUID, Picture], announced: Set[UUID], found: Sequence[FoundPicture]) -> Tally:
    """Of all that were `taken`, those `announced` were accepted. `found` are all of the stations in question. The same bytes of
    the same session under another id are that picture once more."""
    expected = {media: picture for media, picture in taken.items() if media in announced}
    tally = Tally(accepted=len(expected))
    _blame_repeated(tally, "picture", (row.media for row in found))
    _blame_strange(tally, taken, found)
    rows = {row.media: row for row in found}
    for media, picture in expected.items():
        row = rows.get(media)
        if row is None or row.state != "stored" or row.sha256 is None:
            tally.blame("lost", f"picture {media}: {row}")
        elif (row.session, row.sha256) != (picture.session, picture.sha256):
            tally.blame("altered", f"picture {media}: {row}")
        else:
            tally.stored += 1
    return tally


def _blame_strange(tally: Tally, taken: Mapping[UUID, Picture], found: Sequence[FoundPicture]) -> None:
    contents = {(picture.session, picture.sha256) for picture in taken.values()}
    for row in found:
        if row.media not in taken:
            is_known = (row.session, row.sha256) in contents
            tally.blame("duplicated" if is_known else "never_sent", f"picture {row.media}: {row}")


def _blame_repeated(tally: Tally, what: str, ids: Iterable[UUID]) -> None:
    for one, times in Counter(ids).items():
        if times > 1:
            tally.blame("duplicated", f"{what} {one}", times - 1)


def judge_bus_poison(sent: Mapping[UUID, BusPoison], letters: Iterable[tuple[str, UUID | None]]) -> Tally:
    """Dead letters, each with the service that it was for, are the poison and nothing else. What RabbitMQ did not confirm may be
    there or not."""
    tally = Tally()
    seen: set[tuple[str, UUID]] = set()
    for service, poison in letters:
        if poison is None or poison not in sent or service not in sent[poison].services:
            tally.blame("never_sent", f"a dead letter of {service} that is no poison: {poison}")
        else:
            seen.add((service, poison))
    for poison, one in sent.items():
        for service in one.services if one.is_confirmed else ():
            tally.accepted += 1
            if (service, poison) in seen:
                tally.stored += 1
            else:
                tally.blame("lost", f"poison {poison} is not among the dead letters of {service}")
    return tally
