"""Measurements as events once more: the cloud has lost them, and the outbox no longer has them.

One device after the other, in the order of the times, from what `telemetry_raw` still has. When a device is done, the sequences
that were received and are in no row any more are named in loss records: the cloud records those parts that it does not have
either. A page belongs to one transaction, in which the caller also keeps the position, so that none is made twice.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg
import msgspec
from msgspec import UNSET

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.contracts.limits import CHANNELS_MAX, SAMPLES_MAX
from farmiq.contracts.telemetry import (
    NO_LONGER_AT_EDGE,
    Channel,
    TelemetryBatchIngested,
    TelemetryIngested,
    TelemetryLoss,
    pack_of,
)
from farmiq.contracts.timestamps import EARLIEST, from_us, to_us
from farmiq.edge.own_events import append_own, naming
from farmiq.edge.telemetry_timeseries.intake import pack_spans
from farmiq.kit.ids import Naming, keyed_uuid7, new_trace_id, reading_event_id
from farmiq.kit.postgres import Connection
from farmiq.outbox.resend import BEHIND
from farmiq.timeseries.coverage import Span
from farmiq.timeseries.samples import correction_between
from farmiq.timeseries.store import spans_of
from farmiq.timeseries.stored_rows import stored_rows
from farmiq.timeseries.stream import Origin

PAGE_ROWS: Final = 5000
COUNTING_SECONDS_MAX: Final = 3600.0
"""For the rows of one device, which are all read once more when it is done."""
BEHIND_SAMPLES: Final = BEHIND - 1
"""The priority of a loss: what can be sent goes first."""

_NEXT_DEVICE: Final = """
    SELECT min(device_id) FROM (
      (SELECT device_id FROM telemetry_raw WHERE tenant_id = $1 AND device_id > $2 ORDER BY device_id LIMIT 1)
      UNION ALL
      (SELECT device_id FROM streams WHERE tenant_id = $1 AND device_id > $2 ORDER BY device_id LIMIT 1)) AS next
"""
_ROWS: Final = """
    SELECT raw.id, raw.occurred_at, device_occurred_at, raw.farm_id, raw.barn_id, metric_type, metric_value,
           coalesce(unit, '') AS unit, raw.stream_id, seq, sensor, time_quality,
           coalesce(streams.boot_id, raw.stream_id) AS boot_id
      FROM telemetry_raw AS raw LEFT JOIN streams ON streams.tenant_id = raw.tenant_id AND streams.stream_id = raw.stream_id
     WHERE raw.tenant_id = $1 AND raw.device_id = $2 AND occurred_at >= $3 AND (occurred_at, raw.id) > ($3, $4)
     ORDER BY occurred_at, raw.id
     LIMIT $5
"""
_STREAMS: Final = """
    SELECT stream_id, farm_id, barn_id, received FROM streams WHERE tenant_id = $1 AND device_id = $2 ORDER BY stream_id
"""
_LOSSES: Final = """
    SELECT event_id, farm_id, barn_id, stream_id, first_seq, last_seq, count, first_ts, last_ts, reason, dropped_at
      FROM stream_losses WHERE tenant_id = $1 AND device_id = $2
"""
_MARK_AGGREGATES: Final = """
    INSERT INTO telemetry_agg_unsent (tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at, due_at)
    SELECT tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at, greatest(bucket_end_at, now())
      FROM telemetry_agg WHERE tenant_id = $1 AND "window" = $2
    ON CONFLICT DO NOTHING
"""


class Position(msgspec.Struct, frozen=True):
    """The last row that was looked at, and its device. A device's first row lies behind `before`."""

    device_id: str
    at: datetime
    row_id: UUID


START: Final = UUID(int=0)


def before(device_id: str) -> Position:
    return Position(device_id, EARLIEST, START)


class Lost(msgspec.Struct, frozen=True):
    """What the cloud may have lost: of a tenant, in this epoch of the cloud."""

    tenant_id: str
    cloud_epoch: UUID


async def rebuild(
    connection: Connection, lost: Lost, after: Position | None, now: datetime, *, rows_max: int = PAGE_ROWS
) -> tuple[Position | None, int]:
    """The page behind `after`; None begins. Where the next one begins, None at the end, and how many events there were."""
    if after is None:
        return await _next_device(connection, lost, ""), 0
    rows = await connection.fetch(_ROWS, lost.tenant_id, after.device_id, after.at, after.row_id, rows_max)
    names = await naming(connection)
    if rows:
        packs = [_pack_event(lost, after.device_id, pack, names) for pack in packs_of(rows)]
        await append_own(connection, packs)
        readings = [_reading(lost, after.device_id, row) for row in rows if row["stream_id"] is None]
        # Under their own ids: one that the outbox still has stays as it is.
        await outbox.add(connection, readings)
        return Position(after.device_id, rows[-1]["occurred_at"], rows[-1]["id"]), len(packs) + len(readings)
    made = await _declare(connection, lost, after.device_id, names, now)
    return await _next_device(connection, lost, after.device_id), made


async def mark_aggregates(connection: Connection, tenant_id: str, window: str) -> None:
    """The cloud is to be told again of every aggregate of this window."""
    await connection.execute(_MARK_AGGREGATES, tenant_id, window)


class Pack(msgspec.Struct, frozen=True):
    farm_id: str
    barn_id: str
    batch: TelemetryBatchIngested


def packs_of(rows: Sequence[asyncpg.Record]) -> Iterator[Pack]:
    """Runs of consecutive sequences of one stream, of one place and quality of time: corrected times have one of their own."""
    runs: dict[tuple[object, ...], dict[int, asyncpg.Record]] = defaultdict(dict)
    for row in rows:
        if row["stream_id"] is not None:
            key = (row["stream_id"], row["farm_id"], row["barn_id"], row["time_quality"])
            runs[key].setdefault(row["seq"], row)
    for of_stream in runs.values():
        for span in _spans(sorted(of_stream)):
            batch = _batch([of_stream[seq] for seq in range(*span)])
            first = of_stream[span[0]]
            for part in pack_spans(batch, span):
                yield Pack(first["farm_id"], first["barn_id"], pack_of(batch, part[0], part[1] - 1))


def _spans(seqs: Sequence[int]) -> Iterator[Span]:
    """A sample brings one channel at most, so that many of them are never too many channels."""
    first = None
    for place, seq in enumerate(seqs):
        first = seq if first is None else first
        is_last = place + 1 == len(seqs) or seqs[place + 1] != seq + 1
        if is_last or seq + 1 - first == min(SAMPLES_MAX, CHANNELS_MAX):
            yield first, seq + 1
            first = None


def _batch(rows: Sequence[asyncpg.Record]) -> TelemetryBatchIngested:
    numbers: dict[Channel, int] = {}
    channels = [Channel(metric=row["metric_type"], unit=row["unit"], sensor=row["sensor"]) for row in rows]
    columns = [numbers.setdefault(channel, len(numbers)) for channel in channels]
    occurred_us = [to_us(row["occurred_at"]) for row in rows]
    device_us = [to_us(row["device_occurred_at"] or row["occurred_at"]) for row in rows]
    is_corrected = rows[0]["device_occurred_at"] is not None
    return TelemetryBatchIngested(
        stream_id=rows[0]["stream_id"],
        boot_id=rows[0]["boot_id"],
        lane="replay",
        seq0=rows[0]["seq"],
        time_quality=rows[0]["time_quality"] or 0,
        channels=list(numbers),
        t=device_us,
        c=columns,
        v=[row["metric_value"] for row in rows],
        time_correction=correction_between(rows[0]["seq"], device_us, occurred_us) if is_corrected else UNSET,
    )


async def _next_device(connection: Connection, lost: Lost, device_id: str) -> Position | None:
    following: str | None = await connection.fetchval(_NEXT_DEVICE, lost.tenant_id, device_id)
    return None if following is None else before(following)


async def _declare(connection: Connection, lost: Lost, device_id: str, names: Naming, now: datetime) -> int:
    """The device's own losses, and those of its samples that are here no longer."""
    origin = Origin(lost.tenant_id, "", "", device_id)
    own = [
        _loss(
            msgspec.structs.replace(origin, farm_id=row["farm_id"], barn_id=row["barn_id"]),
            row["event_id"],
            _lost_of(row),
        )
        for row in await connection.fetch(_LOSSES, lost.tenant_id, device_id)
    ]
    await outbox.add(connection, own)
    streams = await connection.fetch(_STREAMS, lost.tenant_id, device_id)
    received = {row["stream_id"]: spans_of(row["received"]) for row in streams}
    there = await stored_rows(
        connection,
        tenant_id=lost.tenant_id,
        device_ids=[device_id],
        received=received,
        is_exact=False,
        timeout_seconds=COUNTING_SECONDS_MAX,
    )
    gone = [
        _gone(lost, msgspec.structs.replace(origin, farm_id=row["farm_id"], barn_id=row["barn_id"]),
              row["stream_id"], span, names, now)
        for row in streams
        for span in there.streams[row["stream_id"]].absent
    ]  # fmt: skip
    await append_own(connection, gone)
    return len(own) + len(gone)


def _gone(lost: Lost, origin: Origin, stream_id: UUID, span: Span, names: Naming, now: datetime) -> outbox.Event:
    loss = TelemetryLoss(
        stream_id=stream_id,
        first_seq=span[0],
        last_seq=span[1] - 1,
        count=span[1] - span[0],
        reason=NO_LONGER_AT_EDGE,
        dropped_at=now,
    )
    parts = (origin.tenant_id, lost.cloud_epoch, stream_id, *span)
    return _loss(origin, keyed_uuid7(names.key, now, NO_LONGER_AT_EDGE, *parts), loss)


def _lost_of(row: asyncpg.Record) -> TelemetryLoss:
    return TelemetryLoss(**{name: row[name] for name in TelemetryLoss.__struct_fields__})


def _loss(origin: Origin, event_id: UUID, loss: TelemetryLoss) -> outbox.Event:
    return outbox.Event(
        id=event_id,
        tenant_id=origin.tenant_id,
        farm_id=origin.farm_id,
        barn_id=origin.barn_id,
        device_id=origin.device_id,
        event_type=event_types.TELEMETRY_LOSS,
        occurred_at=loss.dropped_at,
        trace_id=new_trace_id(),
        payload=loss,
        priority=BEHIND_SAMPLES,
    )


def _pack_event(lost: Lost, device_id: str, pack: Pack, names: Naming) -> outbox.Event:
    """Named after the epoch too: what is made once more in a later one may be cut in other places."""
    batch = pack.batch
    occurred_at = from_us(batch.t[0])
    return outbox.Event(
        id=keyed_uuid7(
            names.key,
            occurred_at,
            "rebuilt",
            lost.tenant_id,
            lost.cloud_epoch,
            batch.stream_id,
            batch.seq0,
            batch.last_seq,
        ),
        tenant_id=lost.tenant_id,
        farm_id=pack.farm_id,
        barn_id=pack.barn_id,
        device_id=device_id,
        event_type=event_types.TELEMETRY_BATCH_INGESTED,
        occurred_at=occurred_at,
        trace_id=new_trace_id(),
        payload=batch,
        priority=BEHIND,
    )


def _reading(lost: Lost, device_id: str, row: asyncpg.Record) -> outbox.Event:
    payload = TelemetryIngested(metric_type=row["metric_type"], metric_value=row["metric_value"], unit=row["unit"])
    return outbox.Event(
        id=reading_event_id(row["id"]),
        tenant_id=lost.tenant_id,
        farm_id=row["farm_id"],
        barn_id=row["barn_id"],
        device_id=device_id,
        event_type=event_types.TELEMETRY_INGESTED,
        occurred_at=row["occurred_at"],
        trace_id=new_trace_id(),
        payload=payload,
        priority=BEHIND,
    )
