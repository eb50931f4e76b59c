"""Telemetry: one reading, a batch of a node's samples in columns, what was lost, and what the bus carries of them.

Sequence numbers count the samples of one stream without gaps, from 1: sample i of a batch is `seq0 + i`.
"""

from math import isfinite, isnan, nan
from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import force_setattr

from farmiq.contracts.ids import Id, MetricName
from farmiq.contracts.limits import CHANNELS_MAX, SAMPLES_MAX, SEQ_LIMIT
from farmiq.contracts.timestamps import EARLIEST, LATEST, Timestamp, keep_utc, to_us

Lane = Literal["live", "replay"]
Unit = Annotated[str, Meta(max_length=32)]
Seq = Annotated[int, Meta(ge=1, lt=SEQ_LIMIT)]
Count = Annotated[int, Meta(ge=0, lt=SEQ_LIMIT)]
Window = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,3}[smhd]$(?!\n)", max_length=5)]

TIME_QUALITY_UNKNOWN: Final = 0
TIME_QUALITY_HOLDOVER: Final = 1
TIME_QUALITY_SYNCED: Final = 2
TIME_QUALITY_CORRECTED: Final = 3
"""Of a stored sample, never of a node's batch: the node's clock was not right, and its time was corrected."""
TimeQuality = Annotated[int, Meta(ge=0, le=255)]
"""How far the node's clock was to be trusted: 0 not known, 1 running on from an earlier synchronisation, 2 synchronised."""

DRIFT_PPB_MAX: Final = 1_000_000
SHIFT_US_MAX: Final = to_us(LATEST) - to_us(EARLIEST)

# Every tier turns `t` into a timestamp, so what cannot be one is refused at the door (well inside int64).
T_MIN_US: Final = to_us(EARLIEST)
T_MAX_US: Final = to_us(LATEST)


class Reading(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`telemetry.reading`. The long names `metric_value` and `metric_type` are understood too."""

    # JSON has no NaN, so NaN can only mean that the short name was absent. It never leaves `__post_init__`.
    value: float = nan
    metric_value: float | None = None
    metric_type: MetricName | None = None
    unit: Unit = ""

    def __post_init__(self) -> None:
        if self.metric_value is not None:
            if not isnan(self.value) and self.value != self.metric_value:
                raise ValueError("value and metric_value differ")
            force_setattr(self, "value", self.metric_value)
            force_setattr(self, "metric_value", None)
        if isnan(self.value):
            raise ValueError("Object missing required field `value`")
        if not isfinite(self.value):
            raise ValueError("value is not finite")


class Channel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    metric: MetricName
    unit: Unit = ""
    sensor: Id | None = None


class TimeSegment(Struct, frozen=True, array_like=True):
    """How wrong the node's clock was, from one sequence on until the next segment: a sample at `t` was taken at
    `t + shift_us + (t - wall_us) * drift_ppb / 10^9`, rounded down. A clock that was set has a new segment from there on."""

    first_seq: Seq
    wall_us: Annotated[int, Meta(ge=T_MIN_US, le=T_MAX_US)]
    shift_us: Annotated[int, Meta(ge=-SHIFT_US_MAX, le=SHIFT_US_MAX)]
    drift_ppb: Annotated[int, Meta(ge=-DRIFT_PPB_MAX, le=DRIFT_PPB_MAX)]

    def corrected(self, at_us: int) -> int:
        return at_us + self.shift_us + (at_us - self.wall_us) * self.drift_ppb // 1_000_000_000


class TelemetryBatch(Struct, frozen=True, kw_only=True):
    """`telemetry.batch`: samples of one node in columns. `t` is microseconds since the epoch, `c` indexes `channels`.

    `t` is the time on the node's own clock, and stays so for ever: keys and digests are made of it. Where the node learned later
    that this clock was wrong, `time_correction` says by how much; samples before its first segment are right as they are.
    """

    stream_id: UUID
    boot_id: UUID
    lane: Lane
    seq0: Seq
    time_quality: TimeQuality
    channels: Annotated[list[Channel], Meta(min_length=1, max_length=CHANNELS_MAX)]
    t: Annotated[list[int], Meta(min_length=1, max_length=SAMPLES_MAX)]
    c: Annotated[list[int], Meta(min_length=1, max_length=SAMPLES_MAX)]
    v: Annotated[list[float], Meta(min_length=1, max_length=SAMPLES_MAX)]
    time_correction: Annotated[list[TimeSegment], Meta(min_length=1, max_length=SAMPLES_MAX)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not 1 <= len(self.t) == len(self.c) == len(self.v) <= SAMPLES_MAX:
            raise ValueError(f"columns t, c and v must have one length, 1 to {SAMPLES_MAX}")
        if self.seq0 < 1 or self.seq0 + len(self.t) >= SEQ_LIMIT:
            raise ValueError("seq0 leaves the range of sequence numbers")
        if min(self.c) < 0 or max(self.c) >= len(self.channels):
            raise ValueError("column c points outside channels")
        if min(self.t) < T_MIN_US or max(self.t) > T_MAX_US:
            raise ValueError("column t leaves the calendar")
        if not all(map(isfinite, self.v)):
            raise ValueError("column v is not finite")
        if isinstance(self.time_correction, list):
            firsts = [segment.first_seq for segment in self.time_correction]
            if firsts != sorted(set(firsts)) or firsts[-1] > self.last_seq:
                raise ValueError("segments of time_correction are not in order, or begin behind the batch")
            times = self.occurred_us
            if min(times) < T_MIN_US or max(times) > T_MAX_US:
                raise ValueError("corrected times leave the calendar")

    @property
    def occurred_us(self) -> list[int]:
        """When each sample was taken, as far as is known: `t`, corrected."""
        if not isinstance(self.time_correction, list):
            return self.t
        times = list(self.t)
        ends = [*(segment.first_seq for segment in self.time_correction[1:]), self.last_seq + 1]
        for segment, end in zip(self.time_correction, ends, strict=True):
            run = slice(max(segment.first_seq - self.seq0, 0), max(end - self.seq0, 0))
            times[run] = map(segment.corrected, self.t[run])
        return times

    @property
    def count(self) -> int:
        return len(self.t)

    @property
    def last_seq(self) -> int:
        return self.seq0 + len(self.t) - 1


class TelemetryBatchIngested(TelemetryBatch, frozen=True, kw_only=True):
    """`telemetry.batch.ingested`: the pack. One contiguous run of sequences that the edge has stored."""


def pack_of(batch: TelemetryBatch, first_seq: int, last_seq: int) -> TelemetryBatchIngested:
    """The run `first_seq..last_seq` (both ends included) of a batch, for instance the part that was not yet stored."""
    if not batch.seq0 <= first_seq <= last_seq <= batch.last_seq:
        raise ValueError(f"run {first_seq}..{last_seq} is not inside batch {batch.seq0}..{batch.last_seq}")
    run = slice(first_seq - batch.seq0, last_seq - batch.seq0 + 1)
    return TelemetryBatchIngested(
        stream_id=batch.stream_id,
        boot_id=batch.boot_id,
        lane=batch.lane,
        seq0=first_seq,
        time_quality=batch.time_quality,
        channels=batch.channels,
        t=batch.t[run],
        c=batch.c[run],
        v=batch.v[run],
        time_correction=_segments_of(batch.time_correction, first_seq, last_seq),
    )


def _segments_of(
    segments: list[TimeSegment] | UnsetType, first_seq: int, last_seq: int
) -> list[TimeSegment] | UnsetType:
    """Those in force for some sequence of the run, as they are: made anew for it, they would round in another way."""
    if not isinstance(segments, list):
        return UNSET
    until = [*(segment.first_seq for segment in segments[1:]), last_seq + 1]
    return [
        segment
        for segment, end in zip(segments, until, strict=True)
        if segment.first_seq <= last_seq and end > first_seq
    ] or UNSET


NO_LONGER_AT_EDGE: Final = "no_longer_at_edge"
"""The reason of a loss that an edge declares when the cloud has lost samples, and the edge has deleted its own by then. The range
is all that the edge has deleted of the stream; the cloud records the parts of it that are not in the cloud."""


class TelemetryLoss(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`telemetry.loss`: these sequences will never come. The same payload from the node and on the bus.

    `count` may be smaller than the range (part of it was delivered); the times are absent when the damage ate them.
    """

    stream_id: UUID
    first_seq: Seq
    last_seq: Seq
    count: Seq
    reason: Id
    dropped_at: Timestamp
    first_ts: Timestamp | None = None
    last_ts: Timestamp | None = None

    def __post_init__(self) -> None:
        if self.first_seq > self.last_seq:
            raise ValueError("first_seq is above last_seq")
        if self.count > self.last_seq - self.first_seq + 1:
            raise ValueError("count is larger than the range")
        keep_utc(self, "dropped_at", "first_ts", "last_ts")


class TelemetryIngested(Struct, frozen=True, kw_only=True):
    """`telemetry.ingested`: one sample that the edge has stored."""

    metric_type: MetricName
    metric_value: float
    unit: Unit = ""

    def __post_init__(self) -> None:
        if not isfinite(self.metric_value):
            raise ValueError("metric_value is not finite")


class TelemetryAggregated(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`telemetry.aggregated`: one metric of one device over one window. `sum_value` and `count` let windows be merged.

    Of several for the same bucket the last word is the one with the largest `revision`; those of an edge have none, and there it
    is the largest `count`. Revisions grow with every change and skip numbers. Without a `sensor` it is of a device that names
    none.
    """

    metric_type: MetricName
    aggregation_window: Window
    avg_value: float
    min_value: float
    max_value: float
    unit: Unit = ""
    count: Count | None = None
    sum_value: float | None = None
    bucket_start_at: Timestamp | None = None
    bucket_end_at: Timestamp | None = None
    sensor: Id | None = None
    revision: Count | None = None

    def __post_init__(self) -> None:
        if not all(map(isfinite, (self.avg_value, self.min_value, self.max_value, self.sum_value or 0.0))):
            raise ValueError("an aggregate is not finite")
        if self.min_value > self.max_value:
            raise ValueError("min_value is above max_value")
        keep_utc(self, "bucket_start_at", "bucket_end_at")
