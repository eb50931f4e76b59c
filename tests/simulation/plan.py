"""What a seed makes of the farm, before anything happens: how large, how fast, and which kinds of faults may befall it.

Every seed leaves most kinds of faults out. What goes wrong only while nothing else does would never be seen otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from farmiq.spool import Limits
from simulation.chance import Chance

CHAOS_SECONDS_MAX = 40.0
SEGMENT_BYTES = 4096  # 89 samples
_TOGETHER = (
    ["node", "lines", "backups"],  # an edge that forgets, while its words are still under way
    ["outbox", "cloud", "cloud backups"],  # the same of the cloud
    ["cloud backups"],  # and nothing else, so that there is something to lose each time
    ["lines", "gateway"],  # an edge that is away for longer than the spool lasts
)


@dataclass(frozen=True)
class Plan:
    nodes: int
    gateways: int
    forwarders: int
    entrances: int
    stores: int
    sample_seconds: float
    burst: int
    chaos_seconds: float
    fault_seconds: float
    batch_samples: int
    replay_messages_per_second: int
    outbox_batch: int
    resend_seconds: int
    limits: Limits
    has_disk_errors: bool
    is_scarce: bool
    kinds: tuple[str, ...]


def draw(chance: Chance, areas: Mapping[str, Sequence[str]]) -> Plan:
    is_scarce = chance.happens(0.2)  # more samples than the spool holds, as soon as the edge is away for a few seconds
    segments = 4 if is_scarce else chance.choice([4, 6, 60])
    limits = Limits(
        segment_bytes=SEGMENT_BYTES,
        segment_seconds=chance.choice([3.0, 20.0, 3600.0]),
        grow_bytes=SEGMENT_BYTES,
        max_spool_bytes=segments * SEGMENT_BYTES,
        keep_acked_bytes=chance.choice([0, SEGMENT_BYTES, segments * SEGMENT_BYTES // 4, segments * SEGMENT_BYTES]),
        assured_bytes=segments * SEGMENT_BYTES,
        max_spool_seconds=chance.choice([None, None, None, 5.0, 30.0]),
    )
    plan = Plan(
        nodes=chance.choice([1, 1, 1, 2]),
        gateways=chance.choice([1, 2]),
        forwarders=chance.choice([1, 2]),
        entrances=chance.choice([1, 2]),
        stores=chance.choice([1, 2]),
        sample_seconds=0.5 if is_scarce else chance.choice([0.5, 1.0, 3.0]),
        burst=10 if is_scarce else chance.choice([1, 4, 15]),
        chaos_seconds=chance.choice([8.0, 16.0, CHAOS_SECONDS_MAX]),
        fault_seconds=chance.choice([0.3, 1.0, 3.0]),
        batch_samples=chance.choice([7, 30, 100]),
        replay_messages_per_second=chance.choice([20, 2000]),
        outbox_batch=chance.choice([2, 20, 100]),
        resend_seconds=chance.choice([2, 15]),
        limits=limits,
        has_disk_errors=chance.happens(0.3),
        is_scarce=is_scarce,
        kinds=_some_kinds(chance, areas),
    )
    # It has to be answered, backed up and answered again before there is anything to lose.
    return replace(plan, chaos_seconds=CHAOS_SECONDS_MAX) if {*plan.kinds} & {*areas["cloud backups"]} else plan


def _some_kinds(chance: Chance, areas: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Of one area, of a few, or of all: what needs two faults of one kind of place at once is rare otherwise."""
    chosen = chance.sample(list(areas), chance.choice([1, 2, 3, len(areas)]))
    if chance.happens(0.4):
        chosen = chance.choice(_TOGETHER)
    kinds = [kind for area in chosen for kind in areas[area] if chance.happens(0.7)]
    return tuple(dict.fromkeys(kinds)) or tuple(areas[chosen[0]])
