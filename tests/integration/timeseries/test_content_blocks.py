"""Digests of stored content: written with the rows, told over HTTP, the same at both tiers."""

import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

from farmiq.contracts.telemetry import Channel, pack_of
from farmiq.contracts.timestamps import from_us
from farmiq.kit.ids import first_sample_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches, declare_lost
from farmiq.timeseries.content import BLOCK_BITS, BlockContent, SampleRows, contents_of
from farmiq.timeseries.content_blocks import AfterBlock, ContentRow, contents
from farmiq.timeseries.samples import StreamBatch
from support.query_api import QueryApi, query_api
from support.telemetry import CHANNELS, ELSEWHERE, HERE, NEIGHBOUR, NOW, START_US, batch_of, loss_of

STREAM = UUID("00000000-0000-7000-8000-0000000000aa")
OTHERS = UUID("00000000-0000-7000-8000-0000000000bb")
BLOCK = 1 << BLOCK_BITS
OLD_ROW = """
    INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value, unit,
                               stream_id, seq, sensor)
    SELECT first_id, 'demo', 'farm-1', 'barn-1', 'node-1', at, 'temperature', value, 'C', $3, seq, 't1'
      FROM unnest($1::uuid[], $2::bigint[], $4::timestamptz[], $5::float8[]) AS old (first_id, seq, at, value)
"""


async def admit(pool: Pool, *batches: StreamBatch) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, batches, NOW)


async def told(pool: Pool, *, with_rows: bool = False, merged_bits: int = 0, limit: int = 1000) -> list[ContentRow]:
    found: list[ContentRow] = []
    after: AfterBlock | None = AfterBlock(UUID(int=0), 0)
    async with pool.acquire() as connection:
        while after is not None:
            page, after = await contents(
                connection, tenant_id="demo", device_ids=None, stream_id=None, begin=after, end_seq=1 << 62,
                merged_bits=merged_bits, with_rows=with_rows, limit=limit,
            )  # fmt: skip
            found += page
    return found


def digest_of(*parts: tuple[StreamBatch, tuple[int, int]]) -> str:
    total = BlockContent(0, 0)
    for content in contents_of(parts).values():
        total = total.added(content)
    return f"{total.digest:016x}"


async def test_both_tiers_have_one_digest_however_samples_were_cut_and_repeated(
    edge_pool: Pool, cloud_pool: Pool
) -> None:
    whole = batch_of(STREAM, BLOCK - 300, BLOCK + 400)
    chance = random.Random(7)
    cuts = sorted(chance.sample(range(whole.seq0 + 1, whole.last_seq), 9))
    packs = [
        StreamBatch(HERE, pack_of(whole, first, end - 1))
        for first, end in zip([whole.seq0, *cuts], [*cuts, whole.last_seq + 1], strict=True)
    ]
    await admit(edge_pool, StreamBatch(HERE, whole))
    await admit(edge_pool, StreamBatch(HERE, whole), *packs)
    for pack in chance.sample([*packs, *packs], k=2 * len(packs)):
        await admit(cloud_pool, pack)
    edge = await told(edge_pool, with_rows=True)
    assert edge == await told(cloud_pool, with_rows=True)
    assert [(row.first_seq, row.received, row.samples, row.rows) for row in edge] == [
        (0, 300, 300, 300),
        (BLOCK, 401, 401, 401),
    ]
    assert [row.digest for row in edge] == [row.rows_digest for row in edge]
    assert [row.digest for row in edge] == [
        digest_of((StreamBatch(HERE, whole), span)) for span in [(whole.seq0, BLOCK), (BLOCK, whole.last_seq + 1)]
    ]


async def test_a_transaction_that_is_taken_back_leaves_no_digest(any_pool: Pool) -> None:
    item = StreamBatch(HERE, batch_of(STREAM, 1, 10))
    async with any_pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await admit_batches(connection, [item], NOW)
        await transaction.rollback()
    assert await told(any_pool) == []
    await admit(any_pool, item)
    assert [(row.samples, row.digest) for row in await told(any_pool)] == [(10, digest_of((item, (1, 11))))]


async def test_what_is_declared_lost_has_no_part_in_it(any_pool: Pool) -> None:
    item = StreamBatch(HERE, batch_of(STREAM, 1, 10))
    await admit(any_pool, item)
    async with any_pool.acquire() as connection, connection.transaction():
        await declare_lost(connection, HERE, uuid4(), loss_of(STREAM, 11, 20))
    assert [(row.received, row.digest) for row in await told(any_pool)] == [(10, digest_of((item, (1, 11))))]


async def test_blocks_merge_and_pages_end_where_the_next_begins(any_pool: Pool) -> None:
    first = StreamBatch(HERE, batch_of(STREAM, 1, 50))
    third = StreamBatch(HERE, batch_of(STREAM, 2 * BLOCK, 2 * BLOCK + 50))
    fifth = StreamBatch(HERE, batch_of(STREAM, 4 * BLOCK + 7, 4 * BLOCK + 50))
    other = StreamBatch(NEIGHBOUR, batch_of(OTHERS, 3, 4))
    await admit(any_pool, first, third, fifth, other)
    everything = await told(any_pool)
    assert [(row.device_id, row.first_seq) for row in everything] == [
        ("node-1", 0), ("node-1", 2 * BLOCK), ("node-1", 4 * BLOCK), ("node-2", 0),
    ]  # fmt: skip
    for limit in (1, 2, 3):
        assert await told(any_pool, limit=limit) == everything
    merged = await told(any_pool, merged_bits=2)
    assert [(row.first_seq, row.end_seq, row.received, row.samples, row.digest) for row in merged] == [
        (0, 4 * BLOCK, 101, 101, digest_of((first, first.span), (third, third.span))),
        (4 * BLOCK, 8 * BLOCK, 44, 44, digest_of((fifth, fifth.span))),
        (0, 4 * BLOCK, 2, 2, digest_of((other, other.span))),
    ]
    assert await told(any_pool, merged_bits=2, limit=1) == merged


async def test_a_block_with_samples_of_0_1_0_is_not_complete_and_its_rows_have_a_digest(any_pool: Pool) -> None:
    """Whose ids count on from the stream's, and may begin anew within it."""
    stream = UUID("00000000-0000-7000-ffff-fffffffffff0")
    old, new = batch_of(stream, 1, 40), StreamBatch(HERE, batch_of(stream, 41, 60))
    old = msgspec.structs.replace(old, c=[0] * 40)
    seqs = list(range(1, 41))
    await any_pool.execute(
        "INSERT INTO streams (stream_id, tenant_id, farm_id, barn_id, device_id, received)"
        " VALUES ($1, 'demo', 'farm-1', 'barn-1', 'node-1', '{[1,41)}')",
        stream,
    )
    await any_pool.execute(
        OLD_ROW, [first_sample_id(stream, seq) for seq in seqs], seqs, stream, [from_us(at) for at in old.t], old.v
    )
    await admit(any_pool, new)
    (row,) = await told(any_pool, with_rows=True)
    assert (row.received, row.samples, row.digest) == (60, 20, digest_of((new, new.span)))
    assert (row.rows, row.rows_digest) == (60, digest_of((StreamBatch(HERE, old), (1, 41)), (new, new.span)))


async def test_a_forgotten_stream_takes_its_digests_with_it(any_pool: Pool) -> None:
    await admit(any_pool, StreamBatch(HERE, batch_of(STREAM, 1, 9)), StreamBatch(NEIGHBOUR, batch_of(OTHERS, 1, 9)))
    await any_pool.execute("DELETE FROM streams WHERE stream_id = $1", STREAM)
    assert await any_pool.fetchval("SELECT array_agg(stream_id) FROM stream_content") == [OTHERS]


async def test_retention_takes_rows_and_leaves_their_digest(any_pool: Pool) -> None:
    await admit(any_pool, StreamBatch(HERE, batch_of(STREAM, 1, 9)))
    (before,) = await told(any_pool)
    await any_pool.execute("DELETE FROM telemetry_raw")
    (after,) = await told(any_pool, with_rows=True)
    assert (after.digest, after.samples, after.rows) == (before.digest, 9, 0)


@pytest_asyncio.fixture
async def api(edge_url: str, edge_pool: Pool) -> AsyncIterator[QueryApi]:
    await admit(
        edge_pool,
        StreamBatch(HERE, batch_of(STREAM, BLOCK - 5, BLOCK + 5)),
        StreamBatch(ELSEWHERE, batch_of(OTHERS, 1, 9)),
    )
    async with query_api(edge_url) as found:
        yield found


async def test_a_tenant_is_told_of_its_own_blocks_only(api: QueryApi) -> None:
    pages = await api.pages("/api/v1/content", tenant_id="demo", limit=1)
    assert [[(row["first_seq"], row["received"]) for row in page["blocks"]] for page in pages] == [
        [(0, 5)],
        [(BLOCK, 6)],
    ]
    (others,) = (await api.get("/api/v1/content", tenant_id="other"))["blocks"]
    assert others["device_id"] == "node-9"
    assert (await api.get("/api/v1/content", tenant_id="demo", stream_id=str(OTHERS)))["blocks"] == []
    assert (await api.get("/api/v1/content", tenant_id="demo", device_ids="node-9"))["blocks"] == []
    one = {"stream_id": str(STREAM), "first_seq": BLOCK, "end_seq": BLOCK + 3}
    (block,) = (await api.get("/api/v1/content", tenant_id="demo", **one))["blocks"]
    assert (block["first_seq"], block["received"]) == (BLOCK, 3)
    assert (await api.ask("/api/v1/content", token="nobody", tenant_id="demo"))[0] == 401


async def test_samples_of_a_block_are_told_as_they_are_stored(api: QueryApi) -> None:
    path = f"/api/v1/streams/{STREAM}/samples"
    answer = await api.get(path, tenant_id="demo", first_seq=1, last_seq=BLOCK - 1)
    seqs = range(BLOCK - 5, BLOCK)
    rows = msgspec.convert(answer, SampleRows)
    assert (rows.seq, rows.v) == (list(seqs), [float(seq) for seq in seqs])
    assert rows.t == [START_US + seq * 1_000_000 for seq in seqs]
    assert [rows.channels[number] for number in rows.c] == [CHANNELS[seq % 2] for seq in seqs]
    assert set(rows.channels) == {
        Channel(metric="temperature", unit="C", sensor="t1"),
        Channel(metric="humidity", unit="%"),
    }
    assert (await api.ask(path, tenant_id="other", first_seq=1, last_seq=2))[0] == 404


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/v1/content", {"first_seq": 5}),
        ("/api/v1/content", {"rows": "true", "merged_bits": 1}),
        ("/api/v1/content", {"merged_bits": 13}),
        ("/api/v1/content", {"after": "x"}),
        (f"/api/v1/streams/{STREAM}/samples", {"first_seq": 1, "last_seq": BLOCK}),
        (f"/api/v1/streams/{STREAM}/samples", {"first_seq": 3, "last_seq": 2}),
        (f"/api/v1/streams/{STREAM}/samples", {"first_seq": 1 << 62, "last_seq": 1 << 62}),
    ],
)
async def test_a_question_that_means_nothing_is_refused(api: QueryApi, path: str, query: dict[str, Any]) -> None:
    status, _ = await api.ask(path, tenant_id="demo", **query)
    assert status == 400


async def test_a_cursor_beyond_every_sequence_is_the_end(edge_pool: Pool, api: QueryApi) -> None:
    async with edge_pool.acquire() as connection:
        page = await contents(
            connection, tenant_id="demo", device_ids=None, stream_id=None, begin=AfterBlock(STREAM, 1 << 61),
            end_seq=1 << 62, merged_bits=12, with_rows=False, limit=5,
        )  # fmt: skip
    assert page == ([], None)
