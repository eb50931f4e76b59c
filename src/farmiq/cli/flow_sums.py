"""Sums over what the hops say: what waits where, how safe it is there, and whether everything that was captured is stored."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from farmiq.cli.flow import Counted, Flow, Stream
from farmiq.cli.tables import duration

RATE_SECONDS = 6.0


@dataclass(frozen=True)
class Backlog:
    """None where the hop that knows does not answer."""

    samples: int | None
    oldest_seconds: float | None
    safe: str


@dataclass(frozen=True)
class Balance:
    captured: int
    stored: int
    lost: int

    @property
    def under_way(self) -> int:
        return max(0, self.captured - self.stored - self.lost)


def marks(flow: Flow) -> dict[str, int]:
    """How far each stream was captured, by whoever knows most of it: the node itself, what it said, what the edge has."""
    found = dict(flow.said)
    for streams in (flow.edge, flow.cloud):
        for stream_id, stream in (streams or {}).items():
            found[stream_id] = max(found.get(stream_id, 0), stream.highest)
    if flow.node is not None:
        found[flow.node.stream_id] = max(found.get(flow.node.stream_id, 0), flow.node.captured)
    return found


def at_devices(flow: Flow) -> Backlog:
    """Captured and not yet in the edge's database."""
    samples = None
    if flow.edge is not None:
        samples = sum(max(0, mark - _covered(flow.edge.get(stream))) for stream, mark in marks(flow).items())
    elif flow.node is not None:
        samples = flow.node.waiting
    oldest = flow.node.oldest_seconds if flow.node else None
    runway = flow.node.runway_seconds if flow.node else None
    room = f", room for {duration(runway)}" if runway is not None else ""
    return Backlog(samples, oldest, f"on the node's spool{room}")


def at_edge(flow: Flow) -> Backlog:
    """In the edge's database and not yet in the cloud's."""
    samples = None
    if flow.edge is not None and flow.cloud is not None:
        samples = sum(max(0, _covered(one) - _covered(flow.cloud.get(stream))) for stream, one in flow.edge.items())
    oldest = flow.outbox.oldest_seconds if flow.outbox and (flow.outbox.pending or flow.outbox.claimed) else None
    room = f", {flow.edge_free_bytes / 1e9:.1f} GB free" if flow.edge_free_bytes is not None else ""
    return Backlog(samples, oldest, f"on the edge's disk{room}")


def balance(flow: Flow, up_to: Mapping[str, int]) -> Balance | None:
    """Of everything up to these marks. None while the cloud does not say what it has."""
    if flow.cloud is None:
        return None
    stored = lost = 0
    for stream_id, mark in up_to.items():
        stream = flow.cloud.get(stream_id)
        if stream is None:
            continue
        lost_here = min(stream.lost, mark)
        lost += lost_here
        stored += mark - lost_here if stream.contiguous >= mark else min(stream.stored, mark - lost_here)
    return Balance(sum(up_to.values()), stored, lost)


def is_drained(flow: Flow, up_to: Mapping[str, int], seconds: float) -> bool:
    """Whether all of it has arrived, and nothing in the outbox is older than `seconds`."""
    if flow.cloud is None or flow.outbox is None:
        return False
    has_all = all(mark == 0 or _contiguous(flow.cloud.get(stream)) >= mark for stream, mark in up_to.items())
    is_idle = not flow.outbox.pending and not flow.outbox.claimed
    return has_all and (is_idle or flow.outbox.oldest_seconds < seconds)


def removed(before: Mapping[str, Counted], now: Mapping[str, Counted]) -> int:
    """What the counters have counted in between. A new process began at zero; one never heard before says nothing yet."""
    total = 0
    for name, counted in now.items():
        if (earlier := before.get(name)) is None:
            continue
        total += max(0, counted.value - (earlier.value if earlier.process == counted.process else 0))
    return total


@dataclass(frozen=True)
class Rates:
    """Samples a second. None until there is something to compare with."""

    captured: float | None = None
    at_edge: float | None = None
    in_cloud: float | None = None


class Pace:
    """Rates over the last few looks."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int | None, int | None, int | None]] = deque()

    def look(self, flow: Flow) -> Rates:
        captured = sum(marks(flow).values()) or None
        self._looks.append((flow.at, captured, _total(flow.edge), _total(flow.cloud)))
        while len(self._looks) > 2 and flow.at - self._looks[1][0] >= RATE_SECONDS:
            self._looks.popleft()
        return Rates(*(self._rate(column) for column in (1, 2, 3)))

    def _rate(self, column: int) -> float | None:
        known = [(look[0], look[column]) for look in self._looks if look[column] is not None]
        if len(known) < 2 or self._looks[-1][column] is None:
            return None
        (first_at, first), (last_at, last) = known[0], known[-1]
        if first is None or last is None or last_at <= first_at:
            return None
        return max(0.0, (last - first) / (last_at - first_at))


def _total(streams: Mapping[str, Stream] | None) -> int | None:
    return None if streams is None else sum(map(_covered, streams.values()))


def _covered(stream: Stream | None) -> int:
    return 0 if stream is None else stream.stored + stream.lost


def _contiguous(stream: Stream | None) -> int:
    return 0 if stream is None else stream.contiguous
