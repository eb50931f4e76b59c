"""Is anything missing? Streams, their gaps, and their declared losses."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from litestar import get
from litestar.params import FromPath

from farmiq.kit.http_server import ApiError
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries import completeness
from farmiq.timeseries.paging import AfterGap, AfterLoss, AfterStream, cursor
from farmiq.timeseries.parameters import After, AnyDevice, Limit, SomeDevices, Tenant, checked_ids, position


class StreamPage(msgspec.Struct, frozen=True):
    streams: list[completeness.StreamRow]
    next: str | None


class GapPage(msgspec.Struct, frozen=True):
    """`stream.missing` counts all gaps; `gaps` names those of this page."""

    stream: completeness.StreamRow
    gaps: list[completeness.Gap]
    next: str | None


class LossPage(msgspec.Struct, frozen=True):
    losses: list[completeness.LossRow]
    next: str | None


def stream_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/streams", guards=guards, tags=["streams"])
    async def streams(
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        device_ids: SomeDevices = None,
        after: After = None,
        limit: Limit = 1000,
    ) -> StreamPage:
        """Coverage of each stream: what is stored, declared lost, and missing. With `device_ids` all of those devices at once."""
        some = checked_ids(device_ids)
        async with read_as(pool, tenant_id) as connection:
            if some is not None:
                return StreamPage(await completeness.streams_of(connection, tenant_id=tenant_id, device_ids=some), None)
            rows = await completeness.streams(
                connection, tenant_id=tenant_id, device_id=device_id, after=position(after, AfterStream), limit=limit
            )
        return StreamPage(rows, _next_stream(rows[-1]) if len(rows) == limit else None)

    @get("/api/v1/streams/{stream_id:uuid}/gaps", guards=guards, tags=["streams"])
    async def gaps(stream_id: FromPath[UUID], tenant_id: Tenant, after: After = None, limit: Limit = 100) -> GapPage:
        """Sequences below the highest one that are neither stored nor declared lost, in order.

        The times are those of the samples on either side, where these are stored here.
        """
        (after_seq,) = position(after, AfterGap) or AfterGap(0)
        async with read_as(pool, tenant_id) as connection:
            found = await completeness.gaps(
                connection, tenant_id=tenant_id, stream_id=stream_id, after_seq=after_seq, limit=limit
            )
        if found is None:
            raise unknown(stream_id)
        stream, rows = found
        return GapPage(stream, rows, cursor(AfterGap(rows[-1].last_seq)) if len(rows) == limit else None)

    @get("/api/v1/streams/{stream_id:uuid}/losses", guards=guards, tags=["streams"])
    async def losses(stream_id: FromPath[UUID], tenant_id: Tenant, after: After = None, limit: Limit = 100) -> LossPage:
        """What was declared lost of a stream, with the reason, in the order of the sequences."""
        async with read_as(pool, tenant_id) as connection:
            if not await completeness.has_stream(connection, tenant_id=tenant_id, stream_id=stream_id):
                raise unknown(stream_id)
            rows = await completeness.losses(
                connection, tenant_id=tenant_id, stream_id=stream_id, after=position(after, AfterLoss), limit=limit
            )
        return LossPage(rows, _next_loss(rows[-1]) if len(rows) == limit else None)

    return [streams, gaps, losses]


def _next_stream(last: completeness.StreamRow) -> str:
    return cursor(AfterStream(last.device_id, last.stream_id))


def _next_loss(last: completeness.LossRow) -> str:
    return cursor(AfterLoss(last.first_seq, last.event_id))


def unknown(stream_id: UUID) -> ApiError:
    return ApiError(404, "unknown_stream", f"This tenant has no stream {stream_id}")
