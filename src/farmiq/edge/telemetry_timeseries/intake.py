"""What other services of the edge may call: inside their transaction, never by SQL of their own."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

import msgspec

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.contracts.ack import STREAM_CONTRADICTED, BootHeld
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import TelemetryBatch, TelemetryIngested, TelemetryLoss, pack_of
from farmiq.contracts.timestamps import from_us
from farmiq.edge.own_events import append_own, naming
from farmiq.edge.telemetry_timeseries import boots, store
from farmiq.edge.telemetry_timeseries.liveness import Heard, gather
from farmiq.edge.telemetry_timeseries.priorities import PRIORITY, PRIORITY_LOSS
from farmiq.edge.telemetry_timeseries.sync_mode import SyncPlan, to_tell
from farmiq.kit.ids import Naming, keyed_uuid7
from farmiq.kit.postgres import Connection
from farmiq.timeseries import station_losses
from farmiq.timeseries import store as measurements
from farmiq.timeseries.admission import Admission, Locked, admit_batches, admit_readings, declare_lost
from farmiq.timeseries.announcement import with_due_times
from farmiq.timeseries.coverage import Span, contiguous_to, missing
from farmiq.timeseries.rollup import Bucket
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Coverage, Origin, StreamKey, StreamLimit

RAW = SyncPlan()
SPOOL_GONE: Final = "spool_gone"
PACK_BYTES_MAX: Final = 400 * 1024
"""A pack as the outbox writes it. The cloud takes 512 KiB with the envelope around it."""
_SAMPLE_BYTES: Final = 26
"""Its time and channel, with what stands between them."""
_SAMPLE_BYTES_MAX: Final = _SAMPLE_BYTES + 345
_CHANNEL_BYTES_MAX: Final = 400
_FRAME_BYTES: Final = 1024
_SEGMENT_BYTES_MAX: Final = 80


class Mark(msgspec.Struct, frozen=True):
    """How far a stream is safe at the edge: everything up to `acked_seq`, and the ranges above it."""

    stream_id: UUID
    device_id: str
    acked_seq: int
    above: list[tuple[int, int]]
    boots: list[BootHeld] = []


async def lock_streams(
    connection: Connection, wanted: Mapping[StreamKey, Origin], limit: StreamLimit | None = None
) -> dict[StreamKey, Coverage]:
    """The streams of everything that a transaction is about to store, with what is there of each. New ones that would be beyond
    the limit are left out.

    All at once and before anything else is locked: two replicas that took them one by one could wait for each other.
    """
    return await measurements.lock_streams(connection, wanted, limit)


async def store_batches(
    connection: Connection,
    batches: Sequence[tuple[StreamBatch, str]],
    received_at: datetime,
    sync: SyncPlan = RAW,
    locked: Locked | None = None,
) -> list[Admission]:
    """Store node batches, each with its trace id. Answers in the same order. One that is other samples than those that are stored
    under its numbers is refused as a whole."""
    touched: set[Bucket] = set()
    if locked is None:
        locked = await lock_streams(connection, {item.key: item.origin for item, _ in batches})
    refused = await boots.contradicting(connection, [item for item, _ in batches], locked)
    taken = [item for place, (item, _) in enumerate(batches) if place not in refused]
    admitted = await admit_batches(connection, taken, received_at, locked, touched)
    await boots.note(connection, [(item, admission.stored) for item, admission in zip(taken, admitted, strict=True)])
    answers = iter(admitted)
    admissions = [
        Admission([], STREAM_CONTRADICTED) if place in refused else next(answers) for place in range(len(batches))
    ]
    if sync.has_raw and any(admission.stored for admission in admissions):
        names = await naming(connection)
        packs = [
            _pack(item, trace_id, span, names)
            for (item, trace_id), admission in zip(batches, admissions, strict=True)
            for stored in admission.stored
            for span in pack_spans(item.batch, stored)
        ]
        await append_own(connection, packs)
    await _mark_unsent(connection, touched, received_at, sync)
    return admissions


async def store_readings(
    connection: Connection, readings: Sequence[tuple[SingleReading, str]], received_at: datetime, sync: SyncPlan = RAW
) -> int:
    """Store single readings, each with its trace id. Answers how many are new."""
    touched: set[Bucket] = set()
    fresh = await admit_readings(connection, [reading for reading, _ in readings], received_at, touched)
    if sync.has_raw:
        trace_ids = {reading.key: trace_id for reading, trace_id in readings}
        await outbox.append(connection, [_ingested(reading, trace_ids[reading.key]) for reading in fresh])
    await _mark_unsent(connection, touched, received_at, sync)
    return len(fresh)


async def record_loss(
    connection: Connection,
    origin: Origin,
    event_id: UUID,
    trace_id: str,
    loss: TelemetryLoss,
    locked: Locked | None = None,
) -> Admission:
    """Write a declared loss into the ledger, count its range as filled, and tell the cloud."""
    admission = await declare_lost(connection, origin, event_id, loss, locked)
    if admission.refusal is None:
        event = _event(origin, event_id, event_types.TELEMETRY_LOSS, loss.dropped_at, trace_id, loss, PRIORITY_LOSS)
        await outbox.append(connection, [event])
    return admission


async def record_station_loss(
    connection: Connection, origin: Origin, event_id: UUID, at: datetime, payload: bytes, recorded_at: datetime
) -> None:
    """Write what a weigh station gave up into the ledger. The event itself goes to the cloud as any other does."""
    place = station_losses.Place(origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id)
    await station_losses.record(connection, place, event_id, at, payload, recorded_at)


async def hear(connection: Connection, messages: Sequence[Heard], received_at: datetime) -> None:
    """Note that devices were heard, in the order in which their messages came."""
    await store.save_signs(connection, gather(messages), received_at)


async def marks(connection: Connection, streams: Locked, ranges_max: int = 64) -> list[Mark]:
    """What may be acknowledged for these streams once the transaction that reads them is committed."""
    held = await boots.newest(connection, list(streams))
    return [
        _mark(key[1], stream.origin, stream.filled(), ranges_max, held.get(key, [])) for key, stream in streams.items()
    ]


async def known_streams(connection: Connection, wanted: Mapping[StreamKey, Origin]) -> dict[StreamKey, Coverage]:
    """What is committed of these streams, without locking them; nothing of one that is not here. Not of another device's."""
    found = await measurements.read_streams(connection, list(wanted)) if wanted else {}
    return {
        key: known
        for key, origin in wanted.items()
        if (known := found.get(key, Coverage(origin, [], []))).origin.is_same_device(origin)
    }


async def replaced_streams(
    connection: Connection, messages: Sequence[tuple[Origin, DeviceStatus]]
) -> dict[StreamKey, tuple[Origin, int]]:
    """Streams that devices had when they last reported and whose spool is gone: a younger one has taken their place, and its
    spool holds nothing of them. Each with the last sequence that was captured, as far as it was reported."""
    reported = {origin: status for origin, status in messages if status.state == "online"}
    streams = {origin: status.stream_id for origin, status in reported.items() if status.stream_id is not None}
    if not streams:
        return {}
    earlier = await store.reported_streams(connection, streams)
    return {
        (origin.tenant_id, before.stream_id): (origin, before.last_captured_seq)
        for origin, before in earlier.items()
        if before.stream_id not in reported[origin].former_streams
    }


async def declare_replaced(
    connection: Connection,
    replaced: Mapping[StreamKey, tuple[Origin, int]],
    trace_id: str,
    received_at: datetime,
    locked: Locked,
) -> int:
    """Declare what such a stream held and nobody has. Once: what is declared is covered. Answers how many samples."""
    if not replaced:
        return 0
    names, declared = await naming(connection), 0
    for key, (origin, last_seq) in replaced.items():
        if key not in locked or not locked[key].origin.is_same_device(origin):
            continue
        for first, end in missing(locked[key].filled(), (1, last_seq + 1)):
            loss = TelemetryLoss(
                stream_id=key[1], first_seq=first, last_seq=end - 1, count=end - first, reason=SPOOL_GONE,
                dropped_at=received_at,
            )  # fmt: skip
            event_id = keyed_uuid7(names.key, received_at, SPOOL_GONE, *key, first, end)
            await record_loss(connection, origin, event_id, trace_id, loss, locked)
            declared += end - first
    return declared


async def _mark_unsent(connection: Connection, touched: set[Bucket], received_at: datetime, sync: SyncPlan) -> None:
    if sync.has_aggregates:
        due = with_due_times(to_tell(touched, sync), received_at, sync.settle_seconds)
        await store.mark_unsent(connection, due)


def _mark(stream_id: UUID, origin: Origin, filled: list[Span], ranges_max: int, held: list[BootHeld]) -> Mark:
    acked_seq = contiguous_to(filled)
    above = [(first, end - 1) for first, end in filled if first > acked_seq]
    return Mark(stream_id, origin.device_id, acked_seq, above[:ranges_max], held)


def pack_spans(batch: TelemetryBatch, span: Span) -> list[Span]:
    """The run in parts that the cloud takes. jsonb has no exponents: 1e-300 is 302 letters in the outbox, and 6 from the node."""
    first, end = span
    segments = batch.time_correction if isinstance(batch.time_correction, list) else []
    frame_bytes = _FRAME_BYTES + len(segments) * _SEGMENT_BYTES_MAX
    if (end - first) * _SAMPLE_BYTES_MAX + len(batch.channels) * _CHANNEL_BYTES_MAX + frame_bytes <= PACK_BYTES_MAX:
        return [span]
    room = PACK_BYTES_MAX - frame_bytes - sum(len(msgspec.json.encode(one)) + 8 for one in batch.channels)
    spans, used = [], 0
    for seq in range(first, end):
        size = _SAMPLE_BYTES + _written_bytes(batch.v[seq - batch.seq0])
        if used and used + size > room:
            spans.append((first, seq))
            first, used = seq, 0
        used += size
    return [*spans, (first, end)]


def _written_bytes(value: float) -> int:
    digits, _, exponent = repr(value).partition("e")
    return len(digits) + abs(int(exponent or 0))


def _pack(item: StreamBatch, trace_id: str, span: Span, names: Naming) -> outbox.Event:
    batch, (first, end) = item.batch, span
    # On the node's clock, as all that identifies a sample: sent again, it may be corrected in another way.
    at, stream_id = from_us(batch.t[first - batch.seq0]), batch.stream_id
    return _event(
        item.origin,
        # Derived, so that the same run sent again after a restored backup is the same event to the cloud.
        names.name(
            at, lambda: uuid5(stream_id, f"{first}-{end - 1}"), "pack", item.origin.tenant_id, stream_id, first, end
        ),
        event_types.TELEMETRY_BATCH_INGESTED,
        at,
        trace_id,
        pack_of(batch, first, end - 1),
        PRIORITY[batch.lane],
    )


def _ingested(reading: SingleReading, trace_id: str) -> outbox.Event:
    payload = TelemetryIngested(metric_type=reading.metric, metric_value=reading.value, unit=reading.unit)
    return _event(
        reading.origin,
        reading.event_id,
        event_types.TELEMETRY_INGESTED,
        reading.occurred_at,
        trace_id,
        payload,
        PRIORITY["live"],
    )


def _event(
    origin: Origin,
    event_id: UUID,
    event_type: str,
    occurred_at: datetime,
    trace_id: str,
    payload: msgspec.Struct,
    priority: int,
) -> outbox.Event:
    return outbox.Event(
        id=event_id,
        tenant_id=origin.tenant_id,
        farm_id=origin.farm_id,
        barn_id=origin.barn_id,
        device_id=origin.device_id,
        event_type=event_type,
        occurred_at=occurred_at,
        trace_id=trace_id,
        payload=payload,
        priority=priority,
    )
