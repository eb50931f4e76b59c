"""One device: its streams, its single readings, its hours, and whether each tier has the rows that it says it has. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit.content import DeviceContent
from farmiq.audit.device_hours import Hour, explained, hours_of
from farmiq.audit.findings import Finding, found
from farmiq.audit.streams import (
    BusRoom,
    NodeAccount,
    Packs,
    Part,
    Place,
    StreamBalance,
    StreamReading,
    TierCoverage,
    balance_stream,
)
from farmiq.timeseries.accounts import DeviceAccount, StreamAccount
from farmiq.timeseries.coverage import count


class Situation(Struct, frozen=True, kw_only=True):
    """What is true of the whole farm. `retired` says by tier how many samples retention has taken from the aggregates."""

    tenant_id: str
    retired: Mapping[str, int] = {}
    is_raw_sent: bool = True
    are_aggregates_sent: bool = False


class Earlier(Struct, frozen=True):
    """What was said before of one device: by the `edge` at first and, when it is asked for the last time, how many single
    readings of that time were `in_outbox` the last time but one."""

    edge: DeviceAccount | None
    in_outbox: int | None = None


class DeviceReading(Struct, frozen=True, kw_only=True):
    """What each tier said of one device. `single_waiting` and `single_dead` are events in the edge's outbox, and
    `single_old_in_outbox` those of both that were measured before it was first asked."""

    device_id: str
    edge: DeviceAccount | None = None
    cloud: DeviceAccount | None = None
    nodes: Mapping[UUID, NodeAccount] = {}
    packs: Mapping[UUID, Packs] = {}
    single_waiting: int = 0
    single_dead: int = 0
    single_old_in_outbox: int = 0
    content: DeviceContent | None = None
    earlier: Earlier | None = None


class DeviceBalance(Struct, frozen=True, kw_only=True):
    """captured = stored + lost + in flight + dead-lettered + unexplained, where the last is the sum of what is missing.

    `said_at`: its spool is elsewhere, and what it holds is what it said then. Of the samples that both tiers have,
    `content_alike` say the same, and of `content_unknown` that is not known."""

    tenant_id: str
    device_id: str
    captured: int
    stored: int
    lost: int
    in_flight: dict[Place, int]
    dead_lettered: int
    missing: int
    at_edge: int
    single: int
    stored_twice: int
    rows_counted: dict[str, int | None]
    hours: list[Hour]
    findings: list[Finding]
    said_at: datetime | None = None
    content_alike: int = 0
    content_unknown: int = 0


def balance_device(reading: DeviceReading, situation: Situation, bus: BusRoom) -> DeviceBalance:
    streams = {one.stream_id: balance_stream(one, bus) for one in _streams(reading, situation)}
    singles = _singles(reading, situation, bus)
    in_flight: dict[Place, int] = {}
    for balance in (*streams.values(), singles):
        for place, samples in balance.in_flight.items():
            in_flight[place] = in_flight.get(place, 0) + samples
    named = _Namer(situation.tenant_id, reading.device_id)
    findings = [finding for stream_id, one in streams.items() for finding in named.of_stream(stream_id, one)]
    findings += named.of_singles(singles)
    content = reading.content or DeviceContent()
    findings += named.of_content(content)
    rows = [finding for tier in ("edge", "cloud") for finding in _rows(reading, situation, tier, named)]
    hours = hours_of(reading.edge.hours if reading.edge else (), reading.cloud.hours if reading.cloud else ())
    findings += [*rows, *_hours_disagree(hours, reading, situation, [*streams.values(), singles], named)]
    dead = sum(count(one.dead) for one in (*streams.values(), singles))
    if situation.is_raw_sent and not situation.are_aggregates_sent:
        hours = explained(hours, in_flight, dead)
    return DeviceBalance(
        tenant_id=situation.tenant_id,
        device_id=reading.device_id,
        captured=sum(one.captured for one in streams.values()) + singles.captured,
        stored=sum(one.stored for one in streams.values()) + singles.stored,
        lost=sum(one.lost for one in streams.values()),
        in_flight=in_flight,
        dead_lettered=dead,
        missing=sum(count(part.spans) for one in (*streams.values(), singles) for part in one.missing),
        at_edge=_covered(reading.edge) + (_single(reading.edge, situation, "edge") or 0),
        single=singles.captured,
        stored_twice=sum(finding.count for finding in rows if finding.kind == "stored_twice"),
        rows_counted={"edge": _row_count(reading.edge), "cloud": _row_count(reading.cloud)},
        hours=hours,
        findings=findings,
        said_at=max((node.said_at for node in reading.nodes.values() if node.said_at), default=None),
        content_alike=content.alike,
        content_unknown=content.unknown,
    )


class _Namer:
    """Puts the name of the device on what is found."""

    def __init__(self, tenant_id: str, device_id: str) -> None:
        self._tenant_id = tenant_id
        self._device_id = device_id

    def finding(
        self, kind: str, samples: int, *, tier: str | None = None, stream_id: UUID | None = None, subject: str = ""
    ) -> Finding:
        name = "/".join(part for part in (self._device_id, tier, str(stream_id or ""), subject) if part)
        return found(kind, self._tenant_id, name, samples, device_id=self._device_id, tier=tier, stream_id=stream_id)

    def ranges(self, part: Part, stream_id: UUID, tier: str | None = None) -> list[Finding]:
        name = "/".join(str(one) for one in (self._device_id, tier, stream_id) if one)
        return [
            found(
                part.kind,
                self._tenant_id,
                name,
                count([span]),
                device_id=self._device_id,
                tier=tier,
                stream_id=stream_id,
                span=span,
            )
            for span in part.spans
        ]

    def of_stream(self, stream_id: UUID, balance: StreamBalance) -> list[Finding]:
        parts = [*balance.missing, *balance.disagreements, Part("dead_letter", balance.dead)]
        return [finding for part in parts for finding in self.ranges(part, stream_id)]

    def of_content(self, content: DeviceContent) -> list[Finding]:
        findings = []
        for one in content.differences:
            kind = "content_differs" if one.tier is None else "rows_changed"
            for span, samples in one.named:
                (finding,) = self.ranges(Part(kind, [span]), one.stream_id, one.tier)
                findings.append(
                    replace(finding, count=samples, what="; ".join(filter(None, [finding.what, one.detail])))
                )
        return findings

    def of_singles(self, balance: StreamBalance) -> list[Finding]:
        parts = [*balance.missing, *balance.disagreements, Part("dead_letter", balance.dead)]
        return [self.finding(part.kind, count(part.spans), subject="single readings") for part in parts if part.spans]


def _streams(reading: DeviceReading, situation: Situation) -> list[StreamReading]:
    edge = {stream.stream_id: stream for stream in (reading.edge.streams if reading.edge else ())}
    cloud = {stream.stream_id: stream for stream in (reading.cloud.streams if reading.cloud else ())}

    def coverage(tier: Mapping[UUID, StreamAccount], stream_id: UUID) -> TierCoverage:
        one = tier.get(stream_id)
        return TierCoverage() if one is None else TierCoverage(one.received, one.lost)

    return [
        StreamReading(
            stream_id,
            reading.nodes.get(stream_id),
            coverage(edge, stream_id),
            reading.packs.get(stream_id, Packs()),
            coverage(cloud, stream_id),
            situation.is_raw_sent,
        )
        for stream_id in sorted({*edge, *cloud, *reading.nodes})
    ]


def _covered(account: DeviceAccount | None) -> int:
    return sum(count(stream.received) for stream in account.streams) if account else 0


def _single(account: DeviceAccount | None, situation: Situation, tier: str) -> int | None:
    """Single readings have no sequences: they are what the aggregates count and no stream covers. None: not to be told."""
    if (tier == "cloud" and situation.are_aggregates_sent) or situation.retired.get(tier):
        return None
    return _tally(account)


def _tally(account: DeviceAccount | None, since: datetime | None = None) -> int:
    """What the aggregates count and no stream covers. Since a time, only the difference of two of these means something."""
    if account is None:
        return 0
    if since is None:
        return max(0, account.samples - _covered(account))
    return sum(hour.stored for hour in account.hours if hour.hour_at >= since) - _covered(account)


def _singles(reading: DeviceReading, situation: Situation, bus: BusRoom) -> StreamBalance:
    """As if they were a stream of their own, whose sequences stand for how many there are."""
    at_edge = _single(reading.edge, situation, "edge") or 0
    in_outbox = reading.single_waiting + reading.single_dead
    if not situation.is_raw_sent:
        return StreamBalance(at_edge, at_edge, 0, {}, [], [], [])
    if situation.are_aggregates_sent:
        # Aggregates of the cloud count twice what came as aggregates and as readings: only the outbox tells what is not there.
        return _parted(reading, stored=max(0, at_edge - in_outbox), behind=in_outbox, on_bus=0, confirmed=0)
    stored = _single(reading.cloud, situation, "cloud") or 0
    since = _compared_since(reading.edge, situation)
    behind = _tally(reading.edge, since) - _tally(reading.cloud, since)
    if since is not None:
        # What has left the aggregates is not in the difference, and may be in the outbox all the same.
        behind = max(behind, in_outbox)
    on_bus = bus.take(max(0, behind - in_outbox))
    return _parted(reading, stored, behind, on_bus, _confirmed(reading, since))


def _compared_since(edge: DeviceAccount | None, situation: Situation) -> datetime | None:
    """Where retention has taken aggregates, the hours of the window are compared that the edge still has; else everything."""
    if not any(situation.retired.values()):
        return None
    return edge.hours[0].hour_at if edge and edge.hours else datetime.max.replace(tzinfo=UTC)


def _confirmed(reading: DeviceReading, since: datetime | None) -> int | None:
    """How many of those that the edge had when it was first asked are not in the cloud now. None: it is the first time."""
    earlier = reading.earlier
    if earlier is None:
        return None
    at_edge = _tally(earlier.edge, since) - (earlier.edge.single_since if earlier.edge else 0)
    in_cloud = _tally(reading.cloud, since) - (reading.cloud.single_since if reading.cloud else 0)
    if earlier.in_outbox is None:
        return at_edge - in_cloud
    # What has left the outbox since the last time may be in nobody's answer: the cloud was asked before it came.
    return at_edge - in_cloud - max(earlier.in_outbox, reading.single_old_in_outbox)


def _parted(reading: DeviceReading, stored: int, behind: int, on_bus: int, confirmed: int | None) -> StreamBalance:
    """What the cloud is `behind` by place; what is in none and not `confirmed` to be missing has only just come."""
    waiting = min(max(0, behind), reading.single_waiting)
    dead = min(max(0, behind) - waiting, reading.single_dead)
    rest = max(0, behind) - waiting - dead
    missing = max(0, (rest if confirmed is None else min(rest, confirmed)) - on_bus)
    flying: dict[Place, int] = {"edge_outbox": waiting, "cloud_bus": on_bus, "moving": rest - on_bus - missing}
    return StreamBalance(
        captured=stored + max(0, behind),
        stored=stored,
        lost=0,
        in_flight={place: samples for place, samples in flying.items() if samples},
        dead=[(0, dead)] if dead else [],
        missing=[Part("single_missing", [(0, missing)])] if missing else [],
        disagreements=[Part("single_surplus", [(0, -behind)])] if behind < 0 else [],
    )


def _row_count(account: DeviceAccount | None) -> int | None:
    if account is None or account.single_rows is None:
        return None
    return account.single_rows + sum(stream.rows.rows for stream in account.streams if stream.rows)


def _rows(reading: DeviceReading, situation: Situation, tier: str, named: _Namer) -> list[Finding]:
    """What is covered against what the aggregates count and, where they were counted, against the rows."""
    account = reading.edge if tier == "edge" else reading.cloud
    if account is None:
        return []
    single = account.samples - _covered(account)
    # Where an edge sends aggregates too, those in the cloud count more than what is stored there.
    is_counted_here = not (tier == "cloud" and situation.are_aggregates_sent)
    retired_here = situation.retired.get(tier, 0)
    found_here = []
    if is_counted_here and -single > retired_here:
        found_here.append(named.finding("aggregates_short", -single, tier=tier))
    if account.single_rows is None:
        return found_here
    found_here += _wrong_rows(account, tier, named)
    # Rows that a retention took are in aggregates of months that are not there, or in aggregates that are gone as well.
    retired = account.samples - account.samples_in_months + (max(0, -single) if retired_here else 0)
    absent = {stream.stream_id: stream.rows.absent for stream in account.streams if stream.rows}
    if sum(map(count, absent.values())) > retired:
        for stream_id, spans in absent.items():
            found_here += named.ranges(Part("rows_absent", spans), stream_id, tier)
    if is_counted_here and single >= 0 and not single - retired <= account.single_rows <= single:
        found_here.append(named.finding("single_rows_differ", abs(account.single_rows - single), tier=tier))
    return found_here


def _wrong_rows(account: DeviceAccount, tier: str, named: _Namer) -> list[Finding]:
    found_here = []
    for stream in account.streams:
        if stream.rows is not None and stream.rows.repeated:
            twice = named.finding("stored_twice", stream.rows.repeated, tier=tier, stream_id=stream.stream_id)
            found_here.append(twice)
        if stream.rows is not None:
            found_here += named.ranges(Part("not_covered", stream.rows.surplus), stream.stream_id, tier)
    return found_here


def _hours_disagree(
    hours: Sequence[Hour],
    reading: DeviceReading,
    situation: Situation,
    balances: Sequence[StreamBalance],
    named: _Namer,
) -> list[Finding]:
    """More is behind in the hours than is on its way, or the cloud is ahead in one."""
    if reading.edge is None or not situation.is_raw_sent or situation.are_aggregates_sent:
        return []
    missing = sum(count(part.spans) for one in balances for part in one.missing)
    on_the_way = missing + sum(one.at_edge for one in balances)
    lacking = sum(count(part.spans) for one in balances for part in one.disagreements)
    behind = sum(max(0, hour.edge_stored - hour.stored) for hour in hours)
    ahead = sum(max(0, hour.stored - hour.edge_stored) for hour in hours)
    found_here = []
    if behind > on_the_way:
        found_here.append(named.finding("hours_disagree", behind - on_the_way, subject="the cloud has fewer"))
    if ahead > lacking and not situation.retired.get("edge"):
        found_here.append(named.finding("hours_disagree", ahead - lacking, subject="the cloud has more"))
    return found_here
