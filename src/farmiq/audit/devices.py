"""One device: its streams, its single readings, its hours, and whether each tier has the rows that it says it has. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit.buckets import Pair, in_words, is_announced, shortfall_of
from farmiq.audit.content import DeviceContent
from farmiq.audit.device_hours import Hour, explained, hours_of
from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.findings import Finding, found
from farmiq.audit.records import NAMED_MAX, RecordReading
from farmiq.audit.singles import balance_singles, covered, single
from farmiq.audit.streams import (
    BusRoom,
    Packs,
    Part,
    Place,
    StreamBalance,
    StreamReading,
    TierCoverage,
    balance_stream,
)
from farmiq.timeseries.accounts import DeviceAccount, StreamAccount
from farmiq.timeseries.coverage import count, normalise, without
from farmiq.timeseries.rolled_up import WrongBucket


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
    singles = balance_singles(reading, situation, bus)
    in_flight: dict[Place, int] = {}
    for balance in (*streams.values(), singles):
        for place, samples in balance.in_flight.items():
            in_flight[place] = in_flight.get(place, 0) + samples
    named = _Namer(situation.tenant_id, reading.device_id)
    findings = [finding for stream_id, one in streams.items() for finding in named.of_stream(stream_id, one)]
    findings += named.of_singles(singles) if reading.readings is None else named.of_readings(reading.readings, singles)
    content = reading.content or DeviceContent()
    findings += named.of_content(content)
    rows = [finding for tier in ("edge", "cloud") for finding in _rows(reading, situation, tier, named)]
    hours = hours_of(reading.edge.hours if reading.edge else (), reading.cloud.hours if reading.cloud else ())
    balances = [*streams.values(), singles]
    if reading.buckets is None:
        findings += [*rows, *_hours_disagree(hours, reading, situation, balances, named)]
    else:
        findings += [*rows, *_buckets_disagree(reading, situation, balances, named)]
    short = _short_of_aggregates(reading, situation, sum(one.stored for one in balances))
    in_flight = in_flight | ({"edge_outbox": in_flight.get("edge_outbox", 0) + short.coming} if short.coming else {})
    dead = sum(count(one.dead) for one in balances)
    if situation.is_raw_sent and not situation.are_aggregates_sent:
        hours = explained(hours, in_flight, dead)
    return DeviceBalance(
        tenant_id=situation.tenant_id,
        device_id=reading.device_id,
        captured=sum(one.captured for one in balances),
        stored=sum(one.stored for one in balances) - short.coming - short.missing,
        lost=sum(one.lost for one in streams.values()),
        in_flight=in_flight,
        dead_lettered=dead,
        missing=sum(count(part.spans) for one in balances for part in one.missing) + short.missing,
        at_edge=covered(reading.edge) + (single(reading.edge, situation, "edge") or 0),
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

    def of_readings(self, readings: RecordReading, balance: StreamBalance) -> list[Finding]:
        """Single readings by their ids; of very many missing ones, the rest as a number."""
        missing = [one for one in readings.missing if one.id not in readings.waiting]
        total = sum(count(part.spans) for part in balance.missing)
        lost = missing[:total]
        named = [
            *(("single_missing", one, one.content) for one in lost[:NAMED_MAX]),
            *(("single_surplus", one, one.content) for one in readings.surplus[:NAMED_MAX]),
            *(
                ("record_differs", here, f"{here.content} at the edge, {there.content} in the cloud")
                for here, there in readings.differing[:NAMED_MAX]
            ),
        ]
        findings = []
        for kind, one, words in named:
            finding = found(kind, self._tenant_id, str(one.id), 1, device_id=self._device_id)
            findings.append(replace(finding, what=f"{finding.what}: single reading {one.id}, {words}"))
        if total > NAMED_MAX:
            findings.append(self.finding("single_missing", total - NAMED_MAX, subject="single readings"))
        dead = count(balance.dead)
        return findings + ([self.finding("dead_letter", dead, subject="single readings")] if dead else [])

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


def _row_count(account: DeviceAccount | None) -> int | None:
    if account is None or account.single_rows is None:
        return None
    return account.single_rows + sum(stream.rows.rows for stream in account.streams if stream.rows)


def _rows(reading: DeviceReading, situation: Situation, tier: str, named: _Namer) -> list[Finding]:
    """What is covered against what the aggregates count and, where they were counted, against the rows."""
    account = reading.edge if tier == "edge" else reading.cloud
    if account is None:
        return []
    single = account.samples - covered(account)
    # Where an edge sends aggregates too, those in the cloud count more than what is stored there.
    is_counted_here = not (tier == "cloud" and situation.are_aggregates_sent)
    retired_here = situation.retired.get(tier, 0)
    found_here = _wrong_losses(account, tier, named)
    if is_counted_here and -single > retired_here:
        found_here.append(named.finding("aggregates_short", -single, tier=tier))
    if is_counted_here and account.wrong_buckets:
        finding = named.finding("aggregates_changed", len(account.wrong_buckets), tier=tier)
        words = "; ".join(map(_wrong_in_words, account.wrong_buckets[:3]))
        found_here.append(replace(finding, what=f"{finding.what}: {words}"))
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


def _wrong_in_words(one: WrongBucket) -> str:
    name = " ".join(part for part in (one.metric_type, one.sensor, one.unit) if part)
    return f"{name}, {one.window} from {one.at:%Y-%m-%d %H:%M} UTC: {one.shown or 0} samples of {one.expected or 0}"


def _wrong_losses(account: DeviceAccount, tier: str, named: _Namer) -> list[Finding]:
    """What coverage counts as lost against the records of losses. Samples that are here after all are no loss."""
    found_here = []
    for stream in account.streams:
        if stream.declared is not None:
            unrecorded = without(stream.lost, normalise([*stream.received, *stream.declared]))
            uncounted = without(stream.declared, normalise([*stream.received, *stream.lost]))
            part = Part("losses_disagree", normalise([*unrecorded, *uncounted]))
            found_here += named.ranges(part, stream.stream_id, tier)
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


class _ShortOfAggregates(NamedTuple):
    """Samples that no aggregate of the cloud counts, where it is told of aggregates only."""

    coming: int = 0
    missing: int = 0


def _short_of_aggregates(reading: DeviceReading, situation: Situation, stored: int) -> _ShortOfAggregates:
    if situation.is_raw_sent or reading.buckets is None:
        return _ShortOfAggregates()
    days = [pair for pair in reading.buckets if pair.bucket.window == "1d" and pair.behind > 0]
    behind = min(stored, sum(pair.behind for pair in days))
    missing = sum(pair.behind for pair in days if not is_announced(pair, reading.announced))
    return _ShortOfAggregates(behind - min(missing, behind), min(missing, behind))


def _buckets_disagree(
    reading: DeviceReading, situation: Situation, balances: Sequence[StreamBalance], named: _Namer
) -> list[Finding]:
    """More is behind in the buckets than is on its way, the cloud is ahead in one, or one with as many samples has others."""
    on_the_way = sum(count(part.spans) for one in balances for part in one.missing) + sum(
        one.at_edge for one in balances
    )
    lacking = sum(count(part.spans) for one in balances for part in one.disagreements)
    if not situation.is_raw_sent:
        on_the_way = 0

    def is_coming(pair: Pair) -> bool:
        return situation.are_aggregates_sent and is_announced(pair, reading.announced)

    found_here = []
    for window in situation.windows:
        short = shortfall_of(reading.buckets or (), window, is_coming)
        # Buckets that the retention of the edge has taken are at the cloud only.
        ahead = [pair for pair in short.ahead if pair.edge is not None or not situation.retired.get("edge")]
        samples_ahead = -sum(pair.behind for pair in ahead)
        parts = []
        if short.samples_behind > on_the_way:
            kind = "hours_disagree" if situation.is_raw_sent or window != "1d" else "aggregates_missing"
            parts.append((kind, short.samples_behind - on_the_way, "the cloud has fewer", short.behind))
        if samples_ahead > lacking:
            parts.append(("hours_disagree", samples_ahead - lacking, "the cloud has more", ahead))
        if short.differing and not (on_the_way and lacking):
            parts.append(("hours_differ", len(short.differing), "as many samples", short.differing))
        for kind, samples, subject, pairs in parts:
            finding = named.finding(kind, samples, subject=f"{window}, {subject}")
            found_here.append(replace(finding, what=f"{finding.what}: {in_words(pairs)}"))
    return found_here
