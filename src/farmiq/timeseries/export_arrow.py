"""Arrow's stream format and Parquet, written piece by piece. Times have microseconds and are in UTC; ids are text."""

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from farmiq.timeseries.export_columns import Column, Kind, Pages, Rows

ROW_GROUP_ROWS: Final = 100_000
"""Large enough to be worth compressing by columns, small enough to be kept in memory."""

_TYPES: Final[dict[Kind, Any]] = {
    "text": pa.string(),
    "uuid": pa.string(),
    "time": pa.timestamp("us", tz="UTC"),
    "float": pa.float64(),
    "int": pa.int64(),
    "bool": pa.bool_(),
}


async def arrow_chunks(columns: Sequence[Column], pages: Pages) -> AsyncIterator[bytes]:
    schema, sink = _schema(columns), _Sink()
    writer = pa.ipc.new_stream(sink.file, schema)
    async for rows in pages:
        await asyncio.to_thread(lambda page: writer.write_batch(_batch(schema, columns, page)), rows)
        yield sink.taken()
    writer.close()
    yield sink.taken()


async def parquet_chunks(columns: Sequence[Column], pages: Pages) -> AsyncIterator[bytes]:
    schema, sink = _schema(columns), _Sink()
    writer = pq.ParquetWriter(sink.file, schema, compression="zstd")
    group: list[Any] = []
    async for rows in pages:
        group.append(await asyncio.to_thread(_batch, schema, columns, rows))
        if sum(len(batch) for batch in group) >= ROW_GROUP_ROWS:
            await asyncio.to_thread(_write_group, writer, group)
            group.clear()
            yield sink.taken()
    if any(len(batch) for batch in group):
        await asyncio.to_thread(_write_group, writer, group)
    await asyncio.to_thread(writer.close)
    yield sink.taken()


def _schema(columns: Sequence[Column]) -> Any:
    return pa.schema([(column.name, _TYPES[column.kind]) for column in columns])


def _batch(schema: Any, columns: Sequence[Column], rows: Rows) -> Any:
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    arrays = [
        pa.array(_texts(column_values) if column.kind == "uuid" else list(column_values), type=_TYPES[column.kind])
        for column, column_values in zip(columns, values, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def _texts(values: Sequence[Any]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


def _write_group(writer: Any, batches: Sequence[Any]) -> None:
    table = pa.Table.from_batches(batches)
    writer.write_table(table, row_group_size=table.num_rows)


class _Sink(io.RawIOBase):
    """A file that is sent as it is written. Neither format ever goes back to what it has written."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self._written = 0
        self.file = pa.PythonFile(self, mode="w")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._written += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._written

    def taken(self) -> bytes:
        pieces = b"".join(self._pieces)
        self._pieces.clear()
        return pieces
