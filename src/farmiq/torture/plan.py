"""Which faults hit what, when and for how long. Pure: the same seed, length and targets give the same plan."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
# Jumps of a node's clock, in seconds from the right time, and two that name a date whatever the time is.
CLOCK_1970: Final = -56 * 365 * DAY
CLOCK_2038: Final = 12 * 365 * DAY
TIER_JUMPS: Final = (-365 * DAY, -DAY, -600.0, 600.0, DAY, 365 * DAY)
CLOCK_JUMPS: Final = (-1.0, 1.0, -HOUR, HOUR, -365 * DAY, CLOCK_1970, CLOCK_2038, 0.0)

AT_ONCE_MAX: Final = 4
"""More faults than this at one time would only hide each other."""
REST_SECONDS: Final = 8.0
# After it was hit: slow to start, and hit again before it is up it would never be seen at work.
REST_SECONDS_OF: Final[Mapping[str, float]] = {"rabbitmq": 40.0, "postgres": 30.0, "seaweedfs": 25.0, "epmd": 20.0}


class Kind(StrEnum):
    KILL = "kill"  # SIGKILL, which nothing can prepare for
    PAUSE = "pause"  # SIGSTOP, later SIGCONT: it still holds its connections and does not answer
    IMMEDIATE_STOP = "immediate-stop"  # PostgreSQL's own word for leaving without a checkpoint
    CUT = "cut"  # of a link: refused
    HALF_OPEN = "half-open"  # connections stay, bytes vanish
    SLOW = "slow"  # late and narrow
    RESET = "reset"  # every connection is reset after a moment
    SLICED = "sliced"  # bytes come in crumbs
    DISK_FULL = "disk-full"
    STORM = "storm"  # everything said lately, ten times over, shuffled
    CLOCK = "clock"
    REGISTER = "register"  # a device is taken out of the edge's register, or named in another barn, and put back
    CLOUD_RESEND = "cloud-resend"  # every edge is to send again what the cloud has acknowledged
    RABBIT_LOST = "rabbit-lost"  # RabbitMQ loses its disk, and every edge is to send again
    DISK_BACK = "disk-back"  # a node's spool is set back to an earlier copy
    CLOCK_EDGE = "clock-edge"  # the wall clock of every service of the edge jumps, and is right again
    CLOCK_CLOUD = "clock-cloud"
    POISON_MQTT = "poison-mqtt"
    POISON_BUS = "poison-bus"
    # Neighbours with credentials of their own: `strangers.py` says what each of them tries.
    SHARE_GROUP = "share-group"  # a device joins the group in which the gateway takes its messages
    FOREIGN_EDGE = "foreign-edge"  # another edge sends samples, losses and the end of a session that are not its own
    ID_CLASH = "id-clash"  # readings under event ids that belong to others
    SAMPLE_ID_CLASH = "sample-id-clash"  # samples and readings under row ids that belong to others
    FLOOD = "flood"
    RETAINED = "retained"  # large messages that the broker has to keep


LINK_KINDS: Final = frozenset({Kind.CUT, Kind.HALF_OPEN, Kind.SLOW, Kind.RESET, Kind.SLICED})
STRANGER_KINDS: Final = frozenset(
    {Kind.SHARE_GROUP, Kind.FOREIGN_EDGE, Kind.ID_CLASH, Kind.SAMPLE_ID_CLASH, Kind.FLOOD, Kind.RETAINED}
)
TIER_CLOCKS: Final = frozenset({Kind.CLOCK_EDGE, Kind.CLOCK_CLOUD})
ON_REQUEST: Final = frozenset({Kind.RABBIT_LOST, Kind.DISK_BACK}) | TIER_CLOCKS
"""They come only where they are asked for."""
AT_ANY_TIME: Final = frozenset({Kind.CLOCK, Kind.CLOUD_RESEND, Kind.POISON_MQTT, Kind.POISON_BUS}) | STRANGER_KINDS
"""They take nothing away from anybody, so that there is nothing to recover from."""

WEIGHTS: Final[Mapping[Kind, int]] = {
    Kind.KILL: 34,
    Kind.PAUSE: 16,
    Kind.IMMEDIATE_STOP: 1,
    Kind.CUT: 7,
    Kind.HALF_OPEN: 4,
    Kind.SLOW: 4,
    Kind.RESET: 5,
    Kind.SLICED: 3,
    Kind.DISK_FULL: 3,
    Kind.STORM: 5,
    Kind.CLOCK: 7,
    Kind.REGISTER: 5,
    Kind.CLOUD_RESEND: 1,
    Kind.RABBIT_LOST: 1,
    Kind.DISK_BACK: 2,
    Kind.CLOCK_EDGE: 2,
    Kind.CLOCK_CLOUD: 2,
    Kind.POISON_MQTT: 6,
    Kind.POISON_BUS: 4,
    Kind.SHARE_GROUP: 4,
    Kind.FOREIGN_EDGE: 4,
    Kind.ID_CLASH: 3,
    Kind.SAMPLE_ID_CLASH: 3,
    Kind.FLOOD: 2,
    Kind.RETAINED: 2,
}
# From the shortest to the longest time that one lasts. What is not here is over in the moment in which it happens.
SECONDS: Final[Mapping[Kind, tuple[float, float]]] = {
    Kind.PAUSE: (0.5, 6.0),
    Kind.CUT: (0.3, 6.0),
    Kind.HALF_OPEN: (1.0, 6.0),
    Kind.SLOW: (1.0, 6.0),
    Kind.RESET: (0.5, 3.0),
    Kind.SLICED: (1.0, 5.0),
    Kind.DISK_FULL: (1.0, 5.0),
    Kind.REGISTER: (2.0, 6.0),
    Kind.DISK_BACK: (2.0, 6.0),
    Kind.CLOCK_EDGE: (2.0, 6.0),
    Kind.CLOCK_CLOUD: (2.0, 6.0),
    Kind.SHARE_GROUP: (1.0, 5.0),
}


@dataclass(frozen=True)
class Targets:
    """What there is to hit, each by its name."""

    processes: Sequence[str]
    links: Sequence[str]
    nodes: Sequence[str]
    small_disks: Sequence[str]  # nodes whose spool is on a disk that can be filled
    bus_events: Sequence[str]  # event types under which poison may come on the bus
    registered: Sequence[str] = ()  # devices that may be taken out of the register
    forwarders: Sequence[str] = ()  # of the processes, those whose spool may be set back
    strangers: Sequence[str] = ()  # devices that are nobody's friend; without them there is no other stranger either

    def of(self, kind: Kind) -> Sequence[str]:
        if kind in LINK_KINDS:
            return self.links
        lists: Mapping[Kind, Sequence[str]] = {
            Kind.KILL: self.processes,
            Kind.PAUSE: self.processes,
            Kind.IMMEDIATE_STOP: [name for name in self.processes if name == "postgres"],
            Kind.DISK_FULL: self.small_disks,
            Kind.CLOCK: self.nodes,
            Kind.REGISTER: self.registered,
            Kind.CLOUD_RESEND: ["cloud"],
            Kind.CLOCK_EDGE: ["edge"],
            Kind.CLOCK_CLOUD: ["cloud-services"],
            Kind.RABBIT_LOST: [name for name in self.processes if name == "rabbitmq"],
            Kind.DISK_BACK: [name for name in self.processes if name in self.forwarders],
            Kind.POISON_BUS: self.bus_events,
            Kind.SHARE_GROUP: self.strangers,
            Kind.FLOOD: self.strangers,
            Kind.RETAINED: self.strangers,
        }
        if kind in STRANGER_KINDS and kind not in lists:  # these have a victim
            return self.nodes if self.strangers else []
        return lists.get(kind, ["sensor"])


@dataclass(frozen=True)
class Fault:
    number: int
    at_seconds: float
    kind: Kind
    target: str
    seconds: float = 0.0
    clock_seconds: float = 0.0

    @property
    def until_seconds(self) -> float:
        return self.at_seconds + self.seconds


def make_plan(seed: int, seconds: float, count: int, targets: Targets, also: Set[Kind] = frozenset()) -> list[Fault]:
    """`count` faults within `seconds`, in order. Every kind that has a target comes before any comes twice; of those on request,
    only the ones that are `also` wanted."""
    rng = Random(seed)  # noqa: S311 - a plan that can be repeated, not a secret
    kinds = [kind for kind in Kind if targets.of(kind) and (kind not in ON_REQUEST or kind in also)]
    wanted = _kinds_in_order(rng, kinds, count, targets)
    pace = seconds / count if count else 0.0
    under_way = _UnderWay()
    plan = []
    for number in range(1, count + 1):
        at_seconds = round((number - 1 + rng.random()) * pace, 3)
        kind = _next_kind(wanted, kinds, targets, under_way, at_seconds)
        names = under_way.free(sorted(targets.of(kind)), kind, at_seconds) or sorted(targets.of(kind))
        plan.append(_fault(rng, number, at_seconds, kind, names))
        under_way.add(plan[-1])
    return plan


def _next_kind(
    wanted: list[Kind], kinds: list[Kind], targets: Targets, under_way: "_UnderWay", at_seconds: float
) -> Kind:
    """The first of those wanted that can be had now; what can't be had waits for its turn."""
    for place, kind in enumerate(wanted):
        if under_way.free(sorted(targets.of(kind)), kind, at_seconds):
            return wanted.pop(place)
    return next((kind for kind in kinds if kind in AT_ANY_TIME), kinds[0])


def _kinds_in_order(rng: Random, kinds: list[Kind], count: int, targets: Targets) -> list[Kind]:
    first = list(kinds)
    rng.shuffle(first)
    # What has one target only comes before somebody else hits that.
    first.sort(key=lambda kind: len(targets.of(kind)) > 1)
    weights = [WEIGHTS[kind] for kind in kinds]
    return (first + rng.choices(kinds, weights, k=max(0, count - len(first))))[:count]


def _fault(rng: Random, number: int, at_seconds: float, kind: Kind, names: Sequence[str]) -> Fault:
    target = rng.choice(list(names))
    seconds = round(rng.uniform(*SECONDS[kind]), 3) if kind in SECONDS else 0.0
    jumps = TIER_JUMPS if kind in TIER_CLOCKS else CLOCK_JUMPS if kind is Kind.CLOCK else (0.0,)
    jump = rng.choice(jumps) if len(jumps) > 1 else 0.0
    return Fault(number, at_seconds, kind, target, seconds, jump)


@dataclass
class _UnderWay:
    """What lasts at a moment, and who still rests from what it suffered."""

    lasting: list[Fault] = field(default_factory=list)
    rested_at: dict[str, float] = field(default_factory=dict)

    def free(self, names: list[str], kind: Kind, at_seconds: float) -> list[str]:
        self.lasting = [fault for fault in self.lasting if fault.until_seconds > at_seconds]
        if kind in SECONDS and len(self.lasting) >= AT_ONCE_MAX:
            return []
        if kind in AT_ANY_TIME:
            return names
        return [name for name in names if self.rested_at.get(name, 0.0) <= at_seconds]

    def add(self, fault: Fault) -> None:
        if fault.seconds:
            self.lasting.append(fault)
        if fault.kind not in AT_ANY_TIME:
            rest_seconds = REST_SECONDS_OF.get(fault.target, REST_SECONDS)
            self.rested_at[fault.target] = fault.until_seconds + rest_seconds
