"""What an edge asks for: a URL to send a picture to, that its bytes be compared, and which pictures are wanted."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from litestar import Request, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from farmiq.cloud.edge_guard import edge_guard, edge_of, refuse_other_tenant
from farmiq.cloud.ingestion.pace import Pace
from farmiq.cloud.media_store import handlers, store
from farmiq.cloud.media_store.counters import Counters
from farmiq.cloud.media_store.picture import Picture
from farmiq.cloud.media_store.settings import MediaStoreSettings
from farmiq.contracts.media import (
    CloudMediaState,
    CloudPresignAnswer,
    CloudPresignRequest,
    WantedPicture,
    WantedPictures,
)
from farmiq.kit.clock import Clock
from farmiq.kit.errors import FarmiqError
from farmiq.kit.http_server import ApiError
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectStore
from farmiq.timeseries.asking import asking
from farmiq.timeseries.paging import Word, cursor
from farmiq.timeseries.parameters import After, Tenant, position

AnyRequest = Request[Any, Any, Any]
WantedLimit = Annotated[int, QueryParameter(ge=1, le=1000)]

NO_ID = UUID(int=0)
STATUS_OF: Mapping[type[FarmiqError], int] = {
    handlers.PictureUnknown: 404,
    handlers.NotUploaded: 409,
    handlers.OtherPicture: 409,
    handlers.OtherBytes: 422,
}

log = get_logger(__name__)


class AfterWanted(NamedTuple):
    tenant_id: Word
    media_id: UUID


@dataclass(frozen=True)
class Door:
    """What the routes of this service use. `signer` is the object store by the address that callers know."""

    pool: Pool
    objects: ObjectStore
    signer: ObjectStore
    bucket: str
    settings: MediaStoreSettings
    counters: Counters
    clock: Clock


def edge_routes(door: Door) -> list[Any]:
    guards = [edge_guard(door.pool)]
    pace = Pace(door.settings.media_edge_presigns_per_second, door.clock)
    comparing = asyncio.Semaphore(door.settings.media_checks_at_once)

    @post("/api/v1/media/presign", guards=guards, tags=["edge"], status_code=200)
    async def presign(data: JSONBody[CloudPresignRequest], request: AnyRequest) -> CloudPresignAnswer:
        """Ask for a URL to send a picture to. `stored`: the cloud has it, and nothing is to be sent.

        The URL takes one body of this size, type and SHA-256, once. 403: the edge does not speak for the tenant; 409: another
        picture is stored under this id; 413: it is too large; 429 and 503 mean: the same again later.
        """
        edge = edge_of(request)
        refuse_other_tenant(edge, data.tenant_id)
        _refuse_haste(pace, edge.edge_cluster_id)
        _refuse_size(data, door.settings.media_bytes_max)
        with _answered(door.counters):
            picture = await handlers.want(door.pool, data, door.bucket)
        return CloudPresignAnswer(state="stored") if picture is None else _upload(door, picture)

    @post("/api/v1/media/{media_id:uuid}/complete", guards=guards, tags=["edge"], status_code=200)
    async def complete(media_id: FromPath[UUID], tenant_id: Tenant, request: AnyRequest) -> CloudMediaState:
        """Say that a picture was sent. `stored` is answered when its bytes were read back and are those that were said.

        404: it was never presigned; 409: there are no bytes; 422: there were others, and they were removed: send it again.
        """
        refuse_other_tenant(edge_of(request), tenant_id)
        async with _room(comparing):
            with _answered(door.counters):
                outcome = await handlers.complete(door.pool, door.objects, tenant_id, media_id, door.clock.now())
        if outcome == "stored":
            door.counters.stored.inc()
            log.info("picture_stored", tenant_id=tenant_id, media_id=str(media_id))
        return CloudMediaState(state="stored")

    @get("/api/v1/media/wanted", guards=guards, tags=["edge"])
    async def wanted(request: AnyRequest, after: After = None, limit: WantedLimit = 500) -> WantedPictures:
        """Pictures of the edge's tenants that were announced and did not come, or were lost here. Presign those that you have."""
        start = position(after, AfterWanted) or AfterWanted("", NO_ID)
        announced_before = door.clock.now() - timedelta(seconds=door.settings.media_ask_again_seconds)
        async with asking(door.pool) as connection:
            found = await store.wanted(connection, sorted(edge_of(request).tenant_ids), start, announced_before, limit)
        pictures = [WantedPicture(tenant_id=tenant_id, media_id=media_id) for tenant_id, media_id in found]
        return WantedPictures(pictures=pictures, next=cursor(found[-1]) if len(found) == limit else None)

    return [presign, complete, wanted]


def _upload(door: Door, picture: Picture) -> CloudPresignAnswer:
    assert picture.object_key is not None  # noqa: S101 - the row was just given a place,
    assert picture.size_bytes is not None  # noqa: S101 - a size
    assert picture.sha256 is not None  # noqa: S101 - and a checksum
    seconds = door.settings.media_url_seconds
    signed = door.signer.presign_put(
        door.bucket,
        picture.object_key,
        content_type=picture.mime_type,
        size_bytes=picture.size_bytes,
        sha256=bytes.fromhex(picture.sha256),
        expires_seconds=seconds,
    )
    door.counters.presigned.inc()
    return CloudPresignAnswer(
        state="wanted",
        upload_url=signed.url,
        required_headers=signed.headers,
        expires_at=door.clock.now() + timedelta(seconds=seconds),
    )


def _refuse_haste(pace: Pace, edge_cluster_id: str) -> None:
    if wait_seconds := pace.wait_seconds(edge_cluster_id):
        raise ApiError(429, "too_fast", "This edge asks for URLs too fast", retry_after_seconds=wait_seconds)


def _refuse_size(asked: CloudPresignRequest, bytes_max: int) -> None:
    if asked.size_bytes > bytes_max:
        raise ApiError(413, "too_large", f"{asked.size_bytes} bytes, at most {bytes_max} are taken here")


@asynccontextmanager
async def _room(comparing: asyncio.Semaphore) -> AsyncIterator[None]:
    if comparing.locked():
        raise ApiError(429, "busy", "Too many pictures are being compared", retry_after_seconds=1)
    async with comparing:
        yield


@contextmanager
def _answered(counters: Counters) -> Iterator[None]:
    """What can be wrong with a picture has an HTTP status each, and is counted."""
    try:
        yield
    except tuple(STATUS_OF) as error:
        counters.refused.labels(error.code).inc()
        raise ApiError(STATUS_OF[type(error)], error.code, str(error)) from error
