"""What this tier's samples say, for whoever compares tiers: digests of blocks, and the samples of one block."""

from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from litestar import get
from litestar.params import FromPath, FromQuery, QueryParameter

from farmiq.contracts.limits import SEQ_LIMIT
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries import completeness, content_blocks
from farmiq.timeseries.content import BLOCK_BITS, SampleRows
from farmiq.timeseries.content_blocks import AfterBlock, ContentRow
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, SomeDevices, Tenant, checked_ids, position, refused
from farmiq.timeseries.stream_routes import unknown

ROWS_LIMIT: Final = 32
"""Blocks of which rows are read for one page."""

BlockLimit = Annotated[int, QueryParameter(ge=1, le=5000)]
MergedBits = Annotated[
    int,
    QueryParameter(
        ge=0, le=content_blocks.MERGED_BITS_MAX, description="2 to the power of this many blocks are shown as one"
    ),
]
FirstSeq = Annotated[int, QueryParameter(ge=0, lt=SEQ_LIMIT)]
EndSeq = Annotated[int, QueryParameter(ge=1, le=SEQ_LIMIT, description="Not included")]


class ContentPage(msgspec.Struct, frozen=True):
    """`next` continues with the first block that is not on this page."""

    blocks: list[ContentRow]
    next: str | None


def content_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/content", guards=guards, tags=["audit"])
    async def contents(
        tenant_id: Tenant,
        device_ids: SomeDevices = None,
        stream_id: FromQuery[UUID | None] = None,
        first_seq: FirstSeq = 0,
        end_seq: EndSeq = SEQ_LIMIT,
        merged_bits: MergedBits = 0,
        rows: FromQuery[bool] = False,
        after: After = None,
        limit: BlockLimit = 1000,
    ) -> ContentPage:
        """A digest of each block of 4,096 sequences: what its samples say, the same at every tier that has the same samples.

        With `rows` the rows of each block are read as well, and their digest stands beside it; then a page has at most 32 blocks.
        Sequences are chosen within one `stream_id` only.
        """
        if stream_id is None and (first_seq, end_seq) != (0, SEQ_LIMIT):
            raise refused("`first_seq` and `end_seq` are of one `stream_id`")
        if rows and merged_bits:
            raise refused("`rows` are read of single blocks: without `merged_bits`")
        begin = AfterBlock(stream_id or completeness.SMALLEST_ID, first_seq >> BLOCK_BITS + merged_bits)
        async with read_as(pool, tenant_id) as connection:
            found, later = await content_blocks.contents(
                connection,
                tenant_id=tenant_id,
                device_ids=checked_ids(device_ids),
                stream_id=stream_id,
                begin=position(after, AfterBlock) or begin,
                end_seq=end_seq,
                merged_bits=merged_bits,
                with_rows=rows,
                limit=min(limit, ROWS_LIMIT) if rows else limit,
            )
        return ContentPage(found, None if later is None else cursor(later))

    @get("/api/v1/streams/{stream_id:uuid}/samples", guards=guards, tags=["streams"])
    async def samples(
        stream_id: FromPath[UUID], tenant_id: Tenant, first_seq: FirstSeq, last_seq: FirstSeq
    ) -> SampleRows:
        """Samples as they are stored, in columns, in the order of their sequences: of one block of 4,096, both ends included.

        `t` is microseconds since the epoch on the device's clock, `c` indexes `channels`. `occurred_us` is there where times were
        corrected. Sequences that have no row here are left out.
        """
        if first_seq > last_seq:
            raise refused("`first_seq` is above `last_seq`")
        if first_seq >> BLOCK_BITS != last_seq >> BLOCK_BITS:
            raise refused(
                f"Both sequences must lie in one block: {(first_seq >> BLOCK_BITS) + 1 << BLOCK_BITS} begins another"
            )
        async with read_as(pool, tenant_id) as connection:
            if not await completeness.has_stream(connection, tenant_id=tenant_id, stream_id=stream_id):
                raise unknown(stream_id)
            return await content_blocks.samples(
                connection, tenant_id=tenant_id, stream_id=stream_id, span=(first_seq, last_seq + 1)
            )

    return [contents, samples]
