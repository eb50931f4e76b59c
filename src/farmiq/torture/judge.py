"""Compares what the generators wrote down with what a tier has. Pure.

Accepted is what the system acknowledged. Of that: *lost* is in neither the database nor a declared loss, *duplicated* is there
more than once, *altered* is there and says something else. *Never sent* is in the database and in nobody's ledger. *Unexplained*
was declared lost by a node to which nothing was done at that time that loses samples. *Contradicted* is stored, and declared lost
as well. *Gone* was on a disk alone that was set back: nobody can have it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from farmiq.contracts import event_types
from farmiq.spool import Cause
from farmiq.timeseries.coverage import Span, count, normalise, shared, without
from farmiq.timeseries.stream import Origin
from farmiq.torture.ledger import (
    BusLost,
    BusPoison,
    Filled,
    Heard,
    Line,
    Offered,
    Picture,
    Said,
    SetBack,
    Stored,
    Weighed,
)
from farmiq.torture.samples import METRIC, TIME_QUALITY, UNIT, sensor_of, wall_us_of

EXAMPLES_MAX = 20
ACCEPTED = frozenset({"stored", "duplicate"})
WRONG: Final = ("lost", "unexplained", "duplicated", "altered", "never_sent", "contradicted")
FULL_DISK: Final[Set[str]] = frozenset({Cause.CAP_REACHED, Cause.SYNC_FAILED})
"""Why a node may give samples up while its disk is full. No other fault of a campaign makes a node declare a loss."""
LATE_US: Final = 30_000_000
"""A node that is stopped or starved while its disk is full writes its loss down this much later at most."""
IN_FLIGHT_US: Final = 60_000_000
"""So long a sample may have been on its way, or its acknowledgement, when its node gave it up: stored and declared lost in good
faith."""


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
    contradicted: int = 0
    gone: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not any(getattr(self, name) for name in WRONG)

    def blame(self, what: str, text: str, count: int = 1) -> None:
        setattr(self, what, getattr(self, what) + count)
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(f"{what.replace('_', ' ')}: {text}")

    def add(self, other: "Tally") -> None:
        for name in ("accepted", "stored", "declared_lost", "gone", *WRONG):
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
    filled: dict[str, list[Filled]] = field(default_factory=dict)
    gone: dict[str, list[Span]] = field(default_factory=dict)

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
            case _:
                self._take_fault(line)

    def _take_fault(self, line: BusPoison | BusLost | Filled | SetBack) -> None:
        match line:
            case BusPoison(poison):
                self.bus_poison[poison] = line
            case BusLost():
                self.bus_poison = {
                    id_: BusPoison(id_, one.services, is_confirmed=False) for id_, one in self.bus_poison.items()
                }
            case Filled(device):
                self.filled.setdefault(device, []).append(line)
            case SetBack(device, first, last):
                self.gone.setdefault(device, []).append((first, last + 1))


class Sample(NamedTuple):
    """A row of `telemetry_raw`. `number` is its sequence, counted through all streams of its node."""

    number: int
    value: float
    sensor: str | None
    at_us: int
    metric: str
    unit: str | None
    time_quality: int | None
    origin: Origin
    ingested_us: int


@dataclass(frozen=True)
class Declared:
    """A loss record of a tier, `first` to `last`, counted as samples are. `at_us` is when the node wrote it."""

    first: int
    last: int
    reason: str
    at_us: int

    def explained_by(self, filled: Iterable[Filled], offers: Iterable[Offered]) -> bool:
        """By a disk that was full at that time, and of samples that were taken by then."""
        taken = max((offer.last for offer in offers if offer.at_us <= self.at_us), default=0)
        was_full = any(one.began_us <= self.at_us <= one.ended_us + LATE_US for one in filled)
        return self.reason in FULL_DISK and was_full and self.last <= taken


class NodeJudge:
    """Takes the rows of one node in the order of their numbers. Its spool counts as the generator: sample n is number n.

    `filled` are the times in which its disk was full, `gone` what was on its disk alone when that was set back. With
    `is_first_tier`, the rows' `ingested_us` is when the edge had them."""

    def __init__(
        self,
        origin: Origin,
        offers: Sequence[Offered],
        accepted: int,
        declared: Sequence[Declared] = (),
        filled: Sequence[Filled] = (),
        gone: Sequence[Span] = (),
        *,
        is_first_tier: bool = True,
    ) -> None:
        self.tally = Tally(accepted=accepted)
        self._origin = origin
        self._offers = offers
        self._at = 0
        self._records = declared
        # Two records may speak of the same sample, which is lost only once.
        self._declared = normalise((one.first, one.last + 1) for one in declared)
        self._gone = normalise(gone)
        self._is_first_tier = is_first_tier
        self._last = 0
        for one in declared:
            if not one.explained_by(filled, offers):
                text = f"{origin.device_id} {one.first} to {one.last} declared lost: {one.reason}"
                self.tally.blame("unexplained", text, one.last - one.first + 1)

    def take(self, sample: Sample) -> None:
        number, device = sample.number, self._origin.device_id
        if number == self._last:
            self.tally.blame("duplicated", f"{device} {number}")
            return
        self._miss(self._last + 1, number - 1)
        self._last = number
        offer = self._offer_of(number)
        if offer is None:
            self.tally.blame("never_sent", f"{device} {number} = {sample.value}")
            return
        at_us = wall_us_of(offer, number)
        expected = Sample(
            number,
            float(number),
            sensor_of(number),
            at_us,
            METRIC,
            UNIT,
            TIME_QUALITY,
            self._origin,
            sample.ingested_us,
        )
        if sample != expected:
            self.tally.blame("altered", f"{device} {number}: {sample} instead of {expected}")
            return
        self.tally.stored += 1
        for one in self._records:
            if one.first <= number <= one.last and not self._is_in_flight(sample.ingested_us, one.at_us):
                self.tally.blame("contradicted", f"{device} {number} is stored, and declared lost: {one.reason}")
                return

    def finish(self) -> Tally:
        self._miss(self._last + 1, self.tally.accepted)
        return self.tally

    def _is_in_flight(self, ingested_us: int, declared_us: int) -> bool:
        """The cloud may have it much later than the edge, and not earlier."""
        is_not_before = ingested_us >= declared_us - IN_FLIGHT_US
        return is_not_before and (not self._is_first_tier or ingested_us <= declared_us + IN_FLIGHT_US)

    def _offer_of(self, number: int) -> Offered | None:
        while self._at < len(self._offers) and self._offers[self._at].last < number:
            self._at += 1
        found = self._offers[self._at] if self._at < len(self._offers) else None
        return found if found is not None and found.first <= number else None

    def _miss(self, first: int, last: int) -> None:
        """What was offered and never acknowledged was not accepted, and may be missing."""
        last = min(last, self.tally.accepted)
        if first > last:
            return
        missing = without([(first, last + 1)], self._declared)
        self.tally.declared_lost += last - first + 1 - count(missing)
        gone = shared(missing, self._gone)
        self.tally.gone += count(gone)
        for from_, to in without(missing, gone):
            self.tally.blame("lost", f"{self._origin.device_id} {from_} to {to - 1}", to - from_)


class Found(NamedTuple):
    """One event at a tier, with what can be compared of it."""

    event_id: UUID
    event_type: str
    origin: Origin
    at_us: int
    value: float | None = None
    session: UUID | None = None
    media: UUID | None = None
    metric: str | None = None
    unit: str | None = None


def expected_of(event: Said, origin: Origin) -> Found:
    named = (METRIC, UNIT) if event.event_type == event_types.TELEMETRY_READING else (None, None)
    return Found(event.event_id, event.event_type, origin, event.at_us, event.value, event.session, event.media, *named)


def judge_events(
    said: Mapping[UUID, Said],
    heard: Mapping[UUID, str],
    origins: Mapping[str, Origin],
    found: Sequence[Found],
    retold: Set[str] = frozenset(),
) -> Tally:
    """Of those kinds of event that are one row each at this tier. What is `retold` has another id there, and its effect is judged
    with its session."""
    tally = Tally()
    blame_repeated(tally, "event", (one.event_id for one in found))
    rows = {one.event_id: one for one in found}
    for event_id, row in rows.items():
        if event_id not in said or said[event_id].is_poison:
            tally.blame("never_sent", f"event {event_id} of {row.origin.device_id}")
    for event_id, event in said.items():
        result = heard.get(event_id)
        if event.event_type in retold:
            _blame_refused(tally, event, result)
        else:
            _judge_event(tally, event, result, rows.get(event_id), expected_of(event, origins[event.device]))
    return tally


def _judge_event(tally: Tally, event: Said, result: str | None, row: Found | None, expected: Found) -> None:
    if event.is_poison:
        if result in ACCEPTED:
            tally.blame("altered", f"poison {event.event_id} was accepted")
        return
    _blame_refused(tally, event, result)
    if row is None:
        if result in ACCEPTED:
            tally.accepted += 1
            tally.blame("lost", f"{event.event_type} {event.event_id} of {event.device}")
        return
    tally.accepted += 1
    if row != expected:
        tally.blame("altered", f"{row} instead of {expected}")
    else:
        tally.stored += 1


def _blame_refused(tally: Tally, event: Said, result: str | None) -> None:
    if result == "rejected":
        tally.blame("lost", f"{event.event_type} {event.event_id} was refused, and nothing was wrong with it")


def blame_repeated(tally: Tally, what: str, ids: Iterable[UUID]) -> None:
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
