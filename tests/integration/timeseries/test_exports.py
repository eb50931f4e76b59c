"""Files for whoever analyses: the same rows in every format, with their types, and memory that does not grow with them."""

import csv
import io
import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above
import pytest
import pytest_asyncio

from farmiq.cloud.telemetry_service.session_routes import COLUMNS as SESSION_COLUMNS
from farmiq.contracts.decoding import encode
from farmiq.kit.http_server import ApiError
from farmiq.kit.postgres import Pool
from farmiq.timeseries import bucket_export, export_arrow, reading_export
from farmiq.timeseries.admission import admit_batches, admit_readings
from farmiq.timeseries.export import Exports, Format, pages_of, wanted
from farmiq.timeseries.export_columns import Column, Pages, Rows
from farmiq.timeseries.export_csv import csv_chunks
from farmiq.timeseries.reading_export import Wanted, reading_pages
from farmiq.timeseries.samples import SingleReading, StreamBatch
from support.cloud_queries import cloud_api, viewer_of
from support.cloud_storing import delivery, store_all
from support.cloud_weighings import a_session
from support.query_api import QueryApi
from support.telemetry import ELSEWHERE, HERE, NOW, START_US, batch_of

READINGS, AGGREGATES = "/api/v1/telemetry/readings", "/api/v1/telemetry/aggregates"
SESSIONS = "/api/v1/weighvision/sessions"
START = datetime.fromtimestamp(START_US // 1_000_000, UTC)
RANGE = {"from": f"{START:%Y-%m-%dT%H:%M:%SZ}", "to": f"{START + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"}
DEMO = {"tenant_id": "demo", **RANGE}
HOSTILE = "=cmd|' /C calc'!A0"


@pytest_asyncio.fixture
async def api(cloud_url: str, cloud_pool: Pool) -> AsyncIterator[QueryApi]:
    async with cloud_pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, batch_of(uuid4(), 1, 250))], NOW)
        await admit_batches(connection, [StreamBatch(ELSEWHERE, batch_of(uuid4(), 1, 3))], NOW)
        reading = SingleReading(HERE, uuid4(), START + timedelta(microseconds=1), "co2", -4.5, HOSTILE)
        await admit_readings(connection, [reading], NOW)
    async with cloud_api(cloud_url) as found:
        yield found


def of_csv(body: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(body.decode(), newline="")))


def of_arrow(body: bytes) -> Any:
    return pa.ipc.open_stream(body).read_all()


def of_parquet(body: bytes) -> Any:
    return pq.read_table(io.BytesIO(body))


def texts(table: Any) -> list[dict[str, str]]:
    """A table as CSV would have it."""

    def text(value: Any) -> str:
        if isinstance(value, datetime):
            return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        if isinstance(value, str) and value.startswith("="):
            return "'" + value
        return "" if value is None else str(value)

    return [{name: text(value) for name, value in row.items()} for row in table.to_pylist()]


async def test_samples_are_the_same_in_every_format_and_have_their_types(api: QueryApi) -> None:
    kind, body = await api.file(READINGS, **DEMO, format="csv")
    rows = of_csv(body)
    assert kind == "text/csv; charset=utf-8"
    assert len(rows) == 251
    assert [row["occurred_at"] for row in rows] == sorted(row["occurred_at"] for row in rows)
    for format_, read in (("arrow", of_arrow), ("parquet", of_parquet)):
        _, body = await api.file(READINGS, **DEMO, format=format_)
        table = read(body)
        assert texts(table) == rows
        assert table.schema.field("occurred_at").type == pa.timestamp("us", tz="UTC")
        assert table.schema.field("metric_value").type == pa.float64()
        assert table.schema.field("seq").type == pa.int64()
    assert {row["tenant_id"] for row in rows} == {"demo"}


async def test_text_that_a_spreadsheet_would_run_is_made_harmless_and_numbers_are_not(api: QueryApi) -> None:
    _, body = await api.file(READINGS, **DEMO, metric="co2", format="csv")
    (row,) = of_csv(body)
    assert (row["unit"], row["metric_value"]) == (f"'{HOSTILE}", "-4.5")
    _, body = await api.file(READINGS, **DEMO, metric="co2", format="parquet")
    assert of_parquet(body).to_pylist()[0]["unit"] == HOSTILE


async def test_a_file_can_be_of_one_device_barn_metric_or_sensor(api: QueryApi) -> None:
    async def count(**query: str) -> int:
        return len(of_csv((await api.file(READINGS, **DEMO, **query, format="csv"))[1]))

    assert await count(device_id="node-1") == 251
    assert await count(device_id="node-2") == 0
    assert await count(barn_id="barn-1") == 251
    assert await count(barn_id="barn-2") == 0
    assert await count(metric="temperature") == 125
    assert await count(metric="temperature", sensor="t2") == 0
    assert await count(metric="humidity", sensor="") == 125


async def test_aggregates_come_of_every_series_or_of_one(api: QueryApi) -> None:
    _, body = await api.file(AGGREGATES, **DEMO, window="1m", format="csv")
    rows = of_csv(body)
    assert {row["metric_type"] for row in rows} == {"temperature", "humidity", "co2"}
    assert sum(int(row["count"]) for row in rows) == 251
    _, body = await api.file(AGGREGATES, **DEMO, window="1m", format="arrow")
    assert texts(of_arrow(body)) == rows
    _, body = await api.file(AGGREGATES, **DEMO, window="1h", metric="humidity", device_id="node-1", format="parquet")
    assert sum(of_parquet(body).column("count").to_pylist()) == 125


async def test_sessions_are_a_file_too(api: QueryApi, cloud_pool: Pool) -> None:
    await store_all(cloud_pool, *(delivery(encode(one)) for at in (1, 2, 3) for one in a_session(at)))
    around = {"tenant_id": "demo", "from": "2026-11-15T00:00:00Z", "to": "2026-11-17T00:00:00Z"}
    _, body = await api.file(SESSIONS, **around, format="csv")
    rows = of_csv(body)
    assert [(row["status"], row["image_count"], row["weights"]) for row in rows] == [("finalized", "2", "2")] * 3
    _, body = await api.file(SESSIONS, **around, format="parquet")
    table = of_parquet(body)
    assert texts(table) == rows
    assert table.schema.names == [column.name for column in SESSION_COLUMNS]


async def test_nothing_found_is_an_empty_file_with_its_columns(api: QueryApi) -> None:
    for path, columns in (
        (READINGS, reading_export.COLUMNS),
        (AGGREGATES, bucket_export.COLUMNS),
        (SESSIONS, SESSION_COLUMNS),
    ):
        names = [column.name for column in columns]
        query = {**DEMO, "tenant_id": "nobody"}
        assert (await api.file(path, **query, format="csv"))[1].decode().strip().split(",") == names
        assert of_arrow((await api.file(path, **query, format="arrow"))[1]).schema.names == names
        table = of_parquet((await api.file(path, **query, format="parquet"))[1])
        assert (table.schema.names, table.num_rows) == (names, 0)


async def test_accept_asks_for_a_format_as_well(api: QueryApi) -> None:
    for accept, kind in (
        ("text/csv", "text/csv; charset=utf-8"),
        ("application/vnd.apache.parquet, */*;q=0.1", "application/vnd.apache.parquet"),
        ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"),
    ):
        assert (await api.file(READINGS, accept, **DEMO))[0] == kind
    page = await api.get(READINGS, **DEMO, device_id="node-1")
    assert len(page["readings"]) == 100
    assert wanted("csv", "application/json") == "csv"
    assert [wanted(None, accept) for accept in ("", "*/*", "text/html,application/json", "text/csv;q=1")] == [
        "json",
        "json",
        "json",
        "csv",
    ]


async def test_a_viewer_gets_files_of_its_own_tenant_only(api: QueryApi, cloud_pool: Pool) -> None:
    token = await viewer_of(cloud_pool, "other")
    for path in (READINGS, AGGREGATES, SESSIONS):
        status, answer = await api.ask(path, token=token, **DEMO, format="parquet")
        assert (status, answer["error"]["code"]) == (403, "tenant_forbidden")
    _, body = await api.file(READINGS, **{**DEMO, "tenant_id": "other"}, format="csv")
    assert {row["device_id"] for row in of_csv(body)} == {"node-9"}


async def test_pages_of_a_file_neither_repeat_nor_skip_samples_of_one_moment(cloud_pool: Pool) -> None:
    moment = START + timedelta(seconds=5)
    readings = [SingleReading(HERE, uuid4(), moment, f"m{at % 3}", float(at), "C") for at in range(40)]
    async with cloud_pool.acquire() as connection, connection.transaction():
        await admit_readings(connection, readings, NOW)
    for metric in (None, "m1"):
        asked = Wanted("demo", moment, moment + timedelta(microseconds=1), metric=metric)
        pages = [page async for page in reading_pages(cloud_pool, asked, stretch_rows=7)]
        found = [row[0] for page in pages for row in page]
        expected = sorted(one.event_id for one in readings if metric in (None, one.metric))
        assert found == expected


FILL = """
    INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value, sensor, seq)
    SELECT gen_random_uuid(), 'demo', 'farm-1', 'barn-1', 'node-1', $1::timestamptz + make_interval(secs => n), 'temperature', n,
           't1', n FROM generate_series(1, $2) AS n
"""


async def peak_bytes(pool: Pool, seconds: int, make_chunks: Any) -> tuple[int, int]:
    """Python's own peak, and Arrow's, while this many rows pass."""
    asked = Wanted("demo", START, START + timedelta(seconds=seconds, microseconds=1))
    arrow = pa.default_memory_pool()
    before = arrow.bytes_allocated()
    peak_of_arrow = sent = 0
    tracemalloc.start()
    async for chunk in make_chunks(reading_export.COLUMNS, reading_pages(pool, asked)):
        sent += len(chunk)
        peak_of_arrow = max(peak_of_arrow, arrow.bytes_allocated() - before)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent > seconds
    return peak, peak_of_arrow


@pytest.mark.parametrize("make_chunks", [csv_chunks, export_arrow.arrow_chunks, export_arrow.parquet_chunks])
async def test_memory_does_not_grow_with_the_rows(
    cloud_pool: Pool, make_chunks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_arrow, "ROW_GROUP_ROWS", 10_000)
    await cloud_pool.execute(FILL, START, 50_000)
    await cloud_pool.execute("ANALYZE telemetry_raw")
    small = await peak_bytes(cloud_pool, 20_000, make_chunks)
    large = await peak_bytes(cloud_pool, 50_000, make_chunks)
    assert large[0] < small[0] * 1.3
    assert large[1] <= small[1] * 1.3


def endless() -> Pages:
    async def ask(after: int | None) -> tuple[Rows, int | None]:
        return [(1,)], 1

    return pages_of(ask)


NUMBERS = [Column("n", "int")]


async def test_only_so_many_files_are_made_at_once_and_forgotten_ones_count_no_more() -> None:
    exports = Exports(at_once_max=2)
    kept = [await exports.answer("csv", "x", NUMBERS, endless()) for _ in range(2)]
    with pytest.raises(ApiError) as refusal:
        await exports.answer("csv", "x", NUMBERS, endless())
    assert (refusal.value.status, refusal.value.retry_after_seconds) == (429, 10)
    kept.pop()
    assert await exports.answer("csv", "x", NUMBERS, endless())


async def breaks_after(pages: int) -> Pages:
    for _ in range(pages):
        yield [(1,)]
    raise ConnectionError("gone")


async def test_what_fails_before_the_first_row_is_an_answer_and_takes_no_place() -> None:
    exports = Exports(at_once_max=1)
    for _ in range(3):
        with pytest.raises(ConnectionError):
            await exports.answer("csv", "x", NUMBERS, breaks_after(0))
    assert await exports.answer("arrow", "x", NUMBERS, endless())


@pytest.mark.parametrize("kind", ["csv", "arrow", "parquet"])
async def test_a_file_that_breaks_off_raises_and_does_not_end(kind: Format) -> None:
    stream = await Exports().answer(kind, "x", NUMBERS, breaks_after(2))

    async def taken() -> list[Any]:
        return [chunk async for chunk in stream.iterator]  # type: ignore[union-attr]  # it was given an async one

    with pytest.raises(ConnectionError):
        await taken()
