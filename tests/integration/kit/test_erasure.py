"""What is stored of one tenant goes, in every table there is; what is stored of another stays, to the last row."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio

from farmiq.kit import erasure
from farmiq.kit.erasure import KEPT, ErasureRecord
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.s3 import ObjectStore
from support.s3 import S3
from support.tenant_rows import HOUR_AT, fill, rows_of
from support.waiting import eventually

Steps = list[tuple[str, int]]
WAITING_EVENT = """
INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json) VALUES ($1, $2, 'telemetry.ingested', '{}')
"""
# Ends when the second step has deleted its rows and has not committed.
DIES = """
import asyncio, os, signal, sys, asyncpg
from farmiq.kit import erasure
erasure.STEP_ROWS = 10
steps = 0
class Dies(asyncpg.Connection):
    async def fetchval(self, query, *given, **more):
        global steps
        if 'DELETE FROM' not in query:
            return await super().fetchval(query, *given, **more)
        async with self.transaction():
            found = await super().fetchval(query, *given, **more)
            steps += 1
            if steps == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        return found
async def main():
    writer = await asyncpg.connect(sys.argv[1], connection_class=Dies)
    reader = await asyncpg.connect(sys.argv[1])
    record = await erasure.begin(writer, 'zebra', by='anna@office', reason='contract ended')
    await erasure.erase_rows(writer, reader, record, 'zebra', lambda table, gone: None, patience_seconds=10)
asyncio.run(main())
"""


@pytest_asyncio.fixture
async def pair(any_pool: Pool) -> AsyncIterator[tuple[Connection, Connection]]:
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(any_pool.acquire()),
            await stack.enter_async_context(any_pool.acquire()),
        )


async def erased(
    pair: tuple[Connection, Connection], tenant_id: str, steps: Steps | None = None, patience_seconds: float = 10.0
) -> tuple[bool, ErasureRecord]:
    writer, reader = pair
    record_id = await erasure.begin(writer, tenant_id, by="anna@office", reason="contract ended")
    taken: Steps = [] if steps is None else steps
    is_whole = await erasure.erase_rows(
        writer, reader, record_id, tenant_id, lambda *step: taken.append(step), patience_seconds=patience_seconds
    )
    if is_whole:
        await erasure.finish(writer, record_id)
    return is_whole, (await erasure.records(writer, tenant_id))[0]


async def test_every_table_loses_the_rows_of_the_tenant_and_nothing_else(pair: tuple[Connection, Connection]) -> None:
    tables = [name for name in await fill(pair[0], "zebra", "okapi") if name not in KEPT]
    own = [name for name in tables if await _has_tenant(pair[0], name)]
    others = await rows_of(pair[0], "okapi", *own)
    assert len(others) >= len(own), "there is a row of each table"
    is_whole, record = await erased(pair, "zebra")
    assert is_whole
    assert await rows_of(pair[0], "zebra", *own) == set()
    assert await rows_of(pair[0], "okapi", *own) == others
    assert record.rows_by_table == dict.fromkeys(own, 1)
    assert (record.erased_by, record.reason) == ("anna@office", "contract ended")
    assert record.finished_at is not None
    assert record.first_sample_at == record.last_sample_at == HOUR_AT
    assert await erasure.count_rows(pair[0], "zebra") == {}


async def test_a_table_that_names_another_goes_first(any_pool: Pool) -> None:
    async with any_pool.acquire() as connection:
        order = await erasure.tables_of_tenants(connection)
        pairs = await connection.fetch(erasure._REFERENCES)
    named = [(row["child"], row["parent"]) for row in pairs if row["child"] in order and row["parent"] in order]
    assert ("stream_content", "streams") in named
    assert [one for one in named if order.index(one[0]) > order.index(one[1])] == []


async def test_a_record_of_an_erasure_outlives_the_next_one(pair: tuple[Connection, Connection]) -> None:
    for hour in (1, 2):
        await _store_sample(pair[0], "zebra", hour)
        _, record = await erased(pair, "zebra")
        assert record.rows_by_table == {"telemetry_raw": 1}
    assert len(await erasure.records(pair[0], "zebra")) == 2
    assert await erasure.records(pair[0], "okapi") == []


async def test_what_was_written_while_it_was_erased_is_found_before_it_counts_as_erased(
    pair: tuple[Connection, Connection], any_pool: Pool
) -> None:
    """A service reads a row, and writes another from it after the row has gone."""
    await _store_sample(pair[0], "zebra", 1)
    async with any_pool.acquire() as service:
        late = service.transaction()
        await late.start()
        await _store_sample(service, "zebra", 2)
        under_way = asyncio.create_task(erased(pair, "zebra"))
        gone = partial(service.fetchval, "SELECT count(*) = 1 FROM telemetry_raw WHERE tenant_id = 'zebra'")
        await eventually(gone)
        assert not under_way.done(), "it waits for whoever has a transaction open"
        await late.commit()
        is_whole, record = await under_way
    assert is_whole
    assert record.rows_by_table == {"telemetry_raw": 2}
    assert await rows_of(pair[0], "zebra", "telemetry_raw") == set()


async def test_a_transaction_that_stays_open_leaves_the_record_unfinished_and_the_same_call_goes_on_with_it(
    pair: tuple[Connection, Connection], any_pool: Pool
) -> None:
    await _store_sample(pair[0], "zebra", 1)
    async with any_pool.acquire() as service, service.transaction():
        await _store_sample(service, "okapi", 1)
        is_whole, record = await erased(pair, "zebra", patience_seconds=0.0)
        assert not is_whole
        assert record.finished_at is None
    is_whole, record = await erased(pair, "zebra")
    assert is_whole
    assert record.finished_at is not None
    assert len(await erasure.records(pair[0], "zebra")) == 1


@pytest.mark.parametrize("tier", ["edge", "cloud"])
async def test_killed_in_the_middle_the_record_counts_what_is_gone(tier: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{tier}_url")
    connection = await asyncpg.connect(url)
    try:
        for number in range(35):
            await _store_sample(connection, "zebra", number)
        killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", DIES, url], check=False)
        assert killed.returncode == -signal.SIGKILL
        (record,) = await erasure.records(connection, "zebra")
        assert record.rows_by_table == {"telemetry_raw": 10}
        assert await connection.fetchval("SELECT count(*) FROM telemetry_raw") == 25
        reader = await asyncpg.connect(url)
        try:
            is_whole, record = await erased((connection, reader), "zebra")
        finally:
            await reader.close()
        assert is_whole
        assert record.rows_by_table == {"telemetry_raw": 35}
    finally:
        await connection.close()


async def test_an_event_that_waits_may_go_with_its_tenant_and_no_other(edge_pool: Pool) -> None:
    async with edge_pool.acquire() as writer, edge_pool.acquire() as reader:
        for tenant_id in ("zebra", "okapi"):
            await writer.execute(WAITING_EVENT, uuid4(), tenant_id)
        is_whole, record = await erased((writer, reader), "zebra")
        assert is_whole
        assert record.rows_by_table == {"sync_outbox": 1}
        for connection in (writer, reader):
            with pytest.raises(asyncpg.CheckViolationError, match="is pending and cannot be deleted"):
                await connection.execute("DELETE FROM sync_outbox WHERE tenant_id = 'okapi'")


async def test_objects_go_with_their_tenant_and_are_counted(pair: tuple[Connection, Connection], s3: S3) -> None:
    objects, bucket = ObjectStore(s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key), s3.bucket
    ours = [f"tenants/zebra/farms/f/barns/b/devices/d/images/{number}.jpg" for number in range(7)]
    for key in (*ours, "thumbnails/tenants/zebra/x.jpg", "tenants/zebra-2/x.jpg", "tenants/okapi/x.jpg"):
        await objects.put(bucket, key, b"12345", content_type="image/jpeg")
    record_id = await erasure.begin(pair[0], "zebra", by="anna@office", reason="contract ended")
    prefixes = ["tenants/zebra/", "thumbnails/tenants/zebra/"]
    assert await erasure.count_objects(objects, bucket, prefixes) == (8, 40)
    await erasure.erase_objects(pair[0], objects, bucket, prefixes, record_id, lambda _what, _gone: None)
    assert [one.key async for one in objects.list_objects(bucket)] == ["tenants/okapi/x.jpg", "tenants/zebra-2/x.jpg"]
    (record,) = await erasure.records(pair[0], "zebra")
    assert (record.objects, record.object_bytes) == (8, 40)
    objects.close()


async def _has_tenant(connection: Connection, table: str) -> bool:
    query = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'tenant_id')"
    return bool(await connection.fetchval(query, table))


async def _store_sample(connection: Connection, tenant_id: str, number: int) -> None:
    await connection.execute("SELECT ensure_month_partition('telemetry_raw', $1)", HOUR_AT.date())
    await connection.execute(
        "INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value, unit)"
        " VALUES ($1, $2, 'f', 'b', 'd', $3, 't', $4, 'C')",
        uuid4(),
        tenant_id,
        HOUR_AT,
        float(number),
    )
