"""What happens to measurements, in order, inside the caller's transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID, uuid5

import msgspec

from farmiq.contracts.ack import STREAM_OF_ANOTHER_DEVICE
from farmiq.contracts.telemetry import TelemetryLoss
from farmiq.contracts.timestamps import to_us
from farmiq.kit.postgres import Connection
from farmiq.timeseries import store
from farmiq.timeseries.content import contents_of
from farmiq.timeseries.coverage import Span, missing, normalise
from farmiq.timeseries.packed_rows import rows_of
from farmiq.timeseries.partitions import months_of
from farmiq.timeseries.rollup import Bucket, Tally, tally_batch, tally_reading, with_wider_windows
from farmiq.timeseries.samples import ReadingKey, SingleReading, StreamBatch, row_of
from farmiq.timeseries.stream import Coverage, Origin, StreamKey


class Admission(msgspec.Struct, frozen=True):
    """What became of one batch: the sequences stored now (the rest was here already), or why none ever will be."""

    stored: list[Span]
    refusal: str | None = None


Locked = Mapping[StreamKey, Coverage]
"""Streams whose rows the caller's transaction holds. What is stored is added to them: afterwards they say what is there."""


async def admit_batches(
    connection: Connection,
    batches: Sequence[StreamBatch],
    ingested_at: datetime,
    locked: Locked | None = None,
    touched: set[Bucket] | None = None,
) -> list[Admission]:
    """Store what is missing of each batch. Answers in the order of the batches.

    The aggregates that have changed are added to `touched`.
    """
    wanted = {item.key: item.origin for item in batches}
    streams = await store.lock_streams(connection, wanted) if locked is None else locked
    rows: list[bytes] = []
    minutes: dict[Bucket, Tally] = {}
    admissions = [_take(streams[item.key], item, ingested_at, rows, minutes) for item in batches]
    await _write(connection, rows, minutes, touched)
    grown = {item.key for item, admission in zip(batches, admissions, strict=True) if admission.stored}
    contents = contents_of(
        (item, span) for item, admission in zip(batches, admissions, strict=True) for span in admission.stored
    )
    await store.save_coverage(connection, {key: streams[key] for key in grown}, contents)
    return admissions


async def admit_readings(
    connection: Connection,
    readings: Sequence[SingleReading],
    ingested_at: datetime,
    touched: set[Bucket] | None = None,
) -> list[SingleReading]:
    """Store single readings whose event id is new to their tenant. Answers those; `touched` as in `admit_batches`."""
    if not readings:
        return []
    await store.ensure_months(
        connection, "telemetry_raw", months_of(to_us(reading.occurred_at) for reading in readings)
    )
    ordered = sorted(readings, key=lambda reading: reading.key)
    new_keys = await store.insert_readings(connection, [row_of(reading, ingested_at) for reading in ordered])
    fresh = [reading for key, reading in _one_per_row(readings).items() if key in new_keys]
    minutes: dict[Bucket, Tally] = {}
    for reading in fresh:
        tally_reading(reading, minutes)
    await _merge(connection, minutes, touched)
    return fresh


async def declare_lost(
    connection: Connection, origin: Origin, event_id: UUID, loss: TelemetryLoss, locked: Locked | None = None
) -> Admission:
    """Write a loss into the ledger and count its range as filled, except where the samples are here after all."""
    key = (origin.tenant_id, loss.stream_id)
    streams = await store.lock_streams(connection, {key: origin}) if locked is None else locked
    stream = streams[key]
    if not stream.origin.is_same_device(origin):
        return Admission([], STREAM_OF_ANOTHER_DEVICE)
    await store.record_loss(connection, origin, event_id, loss)
    declared = missing(stream.received, (loss.first_seq, loss.last_seq + 1))
    stream.lost = normalise([*stream.lost, *declared])
    await store.save_coverage(connection, {key: stream})
    return Admission(declared)


async def declare_missing(connection: Connection, origin: Origin, event_id: UUID, loss: TelemetryLoss) -> Admission:
    """Of a range of which some may be here: a loss for each part that is neither stored nor declared lost already. Doing it again
    changes nothing."""
    key = (origin.tenant_id, loss.stream_id)
    stream = (await store.lock_streams(connection, {key: origin}))[key]
    if not stream.origin.is_same_device(origin):
        return Admission([], STREAM_OF_ANOTHER_DEVICE)
    parts = missing(stream.filled(), (loss.first_seq, loss.last_seq + 1))
    for first, end in parts:
        part = msgspec.structs.replace(loss, first_seq=first, last_seq=end - 1, count=end - first)
        await store.record_loss(connection, origin, uuid5(event_id, f"{first}-{end - 1}"), part)
    stream.lost = normalise([*stream.lost, *parts])
    await store.save_coverage(connection, {key: stream})
    return Admission(parts)


def _one_per_row(readings: Sequence[SingleReading]) -> dict[ReadingKey, SingleReading]:
    """By the key of the table. Of several with one key, the first is the one that is stored."""
    return {reading.key: reading for reading in reversed(readings)}


def _take(
    stream: Coverage, item: StreamBatch, ingested_at: datetime, rows: list[bytes], minutes: dict[Bucket, Tally]
) -> Admission:
    if not stream.origin.is_same_device(item.origin):
        return Admission([], STREAM_OF_ANOTHER_DEVICE)
    fresh = missing(stream.received, item.span)
    for span in fresh:
        rows.append(rows_of(item, span, ingested_at))
        tally_batch(item, span, minutes)
    if fresh:
        stream.add(fresh)
        stream.boot_id, stream.channels = item.batch.boot_id, item.batch.channels
    return Admission(fresh)


async def _write(
    connection: Connection, rows: Sequence[bytes], minutes: dict[Bucket, Tally], touched: set[Bucket] | None
) -> None:
    if not rows:
        return
    await store.ensure_months(connection, "telemetry_raw", months_of(bucket.start_us for bucket in minutes))
    await store.copy_rows(connection, rows)
    await _merge(connection, minutes, touched)


async def _merge(connection: Connection, minutes: dict[Bucket, Tally], touched: set[Bucket] | None) -> None:
    aggregates = with_wider_windows(minutes)
    await store.merge_aggregates(connection, aggregates)
    if touched is not None:
        touched.update(bucket for bucket, _ in aggregates)
