"""Samples as the bytes of PostgreSQL's binary COPY: the same rows that `samples.row_of` makes of a single reading.

Eleven of a row's fifteen columns are the same for all samples of a channel in a batch, so their bytes are made once, and a
sample costs one call that puts its own four numbers between them. Only where times were corrected there is a fifth, at the end:
the time on the device's clock. Frozen by PostgreSQL: a row is its number of columns, then
each column's length and value, in network order; times count microseconds from the year 2000.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from struct import Struct
from uuid import UUID

from farmiq.contracts.telemetry import TIME_QUALITY_CORRECTED, Channel, TelemetryBatch
from farmiq.contracts.timestamps import to_us
from farmiq.kit.ids import LOW_64, RUN_BITS, RUN_MASK, sample_ids_of
from farmiq.timeseries.coverage import Span, runs_of
from farmiq.timeseries.samples import COLUMNS, StreamBatch

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_YEAR_2000_US = to_us(datetime(2000, 1, 1, tzinfo=UTC))
_COUNT = Struct(">h")
_LENGTH = Struct(">i")
_BIGINT = Struct(">q")
_SMALLINT = Struct(">h")
_EIGHT_BYTES = _LENGTH.pack(8)
_NULL = _LENGTH.pack(-1)

PackRow = Callable[[int, int, float, int], bytes]


def rows_of(item: StreamBatch, span: Span, ingested_at: datetime) -> bytes:
    """The rows of the sequences in `span`."""
    return b"".join(_rows_of_run(item, run, ingested_at) for run in runs_of(span, RUN_BITS))


def _rows_of_run(item: StreamBatch, span: Span, ingested_at: datetime) -> bytes:
    """Sequences whose ids differ in their last bits only."""
    batch = item.batch
    run_id = sample_ids_of(item.origin.tenant_id, batch.stream_id, span[0] >> RUN_BITS)
    packers = _packers(item, run_id >> 64, ingested_at)
    id_low = run_id & LOW_64
    first, end = span[0] - batch.seq0, span[1] - batch.seq0
    times = batch.occurred_us
    rows = [
        packers[channel](id_low | seq & RUN_MASK, at_us - _YEAR_2000_US, value, seq)
        for seq, channel, at_us, value in zip(
            range(*span), batch.c[first:end], times[first:end], batch.v[first:end], strict=True
        )
    ]
    if is_corrected(batch):
        device_times = [_EIGHT_BYTES + _BIGINT.pack(at_us - _YEAR_2000_US) for at_us in batch.t[first:end]]
        return b"".join(chain.from_iterable(zip(rows, device_times, strict=True)))
    return b"".join(rows)


def is_corrected(batch: TelemetryBatch) -> bool:
    return isinstance(batch.time_correction, list)


async def as_copy(rows: Iterable[bytes]) -> AsyncIterator[bytes]:
    yield _SIGNATURE
    for part in rows:
        yield part
    yield _END


def _packers(item: StreamBatch, id_high: int, ingested_at: datetime) -> list[PackRow]:
    """For each channel a function of what differs: the id's lower half, the time, the value, the sequence."""
    batch, origin = item.batch, item.origin
    before_id = _COUNT.pack(len(COLUMNS)) + _LENGTH.pack(16) + id_high.to_bytes(8, "big")
    before_time = _texts(origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id) + _EIGHT_BYTES
    before_seq = _time(ingested_at) + _uuid(batch.stream_id) + _EIGHT_BYTES
    is_fixed = is_corrected(batch)
    quality = TIME_QUALITY_CORRECTED if is_fixed else batch.time_quality
    last = _LENGTH.pack(2) + _SMALLINT.pack(quality) + (b"" if is_fixed else _NULL)
    return [_packer(before_id, before_time, before_seq, last, *_of_channel(channel)) for channel in batch.channels]


def _packer(
    before_id: bytes, before_time: bytes, before_seq: bytes, last: bytes, metric: bytes, unit: bytes, sensor: bytes
) -> PackRow:
    before_value, before_seq, last = metric + _EIGHT_BYTES, unit + before_seq, sensor + last
    pack = _row_struct(len(before_id), len(before_time), len(before_value), len(before_seq), len(last)).pack

    def pack_row(id_low: int, at_us: int, value: float, seq: int) -> bytes:
        return pack(before_id, id_low, before_time, at_us, before_value, value, before_seq, seq, last)

    return pack_row


@lru_cache(maxsize=4096)
def _row_struct(*sizes: int) -> Struct:
    return Struct(">{}sQ{}sq{}sd{}sq{}s".format(*sizes))


@lru_cache(maxsize=4096)
def _of_channel(channel: Channel) -> tuple[bytes, bytes, bytes]:
    """Nodes name the same few channels in every batch."""
    return _texts(channel.metric), _texts(channel.unit or None), _texts(channel.sensor)


def _texts(*values: str | None) -> bytes:
    encoded = [None if value is None else value.encode() for value in values]
    return b"".join(_NULL if value is None else _LENGTH.pack(len(value)) + value for value in encoded)


def _time(at: datetime) -> bytes:
    return _EIGHT_BYTES + _BIGINT.pack(to_us(at) - _YEAR_2000_US)


def _uuid(value: UUID) -> bytes:
    return _LENGTH.pack(16) + value.bytes
