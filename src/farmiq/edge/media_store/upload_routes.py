"""The way in for a picture of which a device said too little for a URL of the object store: its length, or its checksum.

Such a URL could store anything of any size. Here the bytes are counted as they come, and reach the object store with their
checksum. What was said of them must be true, and they are stored once."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, put
from litestar.connection import ASGIConnection
from litestar.exceptions import InternalServerException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath, QueryParameter
from msgspec import Struct

from farmiq.edge.disk import Disk
from farmiq.edge.media_store import store
from farmiq.edge.media_store.counters import Counters
from farmiq.edge.media_store.handlers import no_room, refuse_bytes
from farmiq.edge.media_store.picture import Picture
from farmiq.edge.media_store.screening import DayLimit
from farmiq.edge.media_store.settings import MediaStoreSettings
from farmiq.edge.media_store.verdicts import CHECKSUM_MISMATCH, EMPTY, SIZE_MISMATCH
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import ApiError
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectExists, ObjectStore, StoreAway, StoreRefused
from farmiq.timeseries.asking import asking

AnyRequest = Request[Any, Any, Any]
Token = Annotated[str, QueryParameter(min_length=1, max_length=200, description="from `upload_url`")]


class Uploaded(Struct, frozen=True):
    """Stored, and not verified yet: announce it over MQTT or with `complete`, or let it be found."""

    media_id: UUID
    size_bytes: int
    sha256: str


def upload_routes(
    pool: Pool, objects: ObjectStore, settings: MediaStoreSettings, disk: Disk, counters: Counters, clock: Clock
) -> list[Any]:
    under_way = asyncio.Semaphore(settings.media_uploads_at_once)

    @put(
        "/api/v1/media/images/{media_id:uuid}/content",
        guards=[require_upload_token],
        tags=["upload"],
        status_code=200,
        request_max_body_size=settings.media_bytes_max,
    )
    async def content(request: AnyRequest, media_id: FromPath[UUID], token: Token) -> Uploaded:
        """Upload one picture to the `upload_url` that `presign` gave, when that leads here.

        The content type must be the one that was said. 412 when it was uploaded before; 403 when the URL has expired.
        """
        picture = await _of_token(pool, media_id, token)
        _refuse(picture, request, clock.now())
        if disk.state(clock.monotonic()) == "full":
            raise no_room()
        async with _room(under_way):
            data = await _read(request, settings)
            sha256 = _measure(picture, data)
            await _claim(pool, picture, len(data), sha256, settings.day_limit)
            await _put(objects, picture, data)
        counters.uploaded_bytes.inc(len(data))
        async with asking(pool) as connection:
            await store.announce(connection, media_id)
        return Uploaded(media_id, len(data), sha256)

    return [content]


def require_upload_token(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
    """A Litestar guard: a request without any token is refused before anything else about it is looked at."""
    if not connection.query_params.get("token"):
        raise ApiError(401, "unauthorized", "This route needs the token of the upload URL that presign gave")


async def _of_token(pool: Pool, media_id: UUID, token: str) -> Picture:
    async with asking(pool) as connection:
        picture = await store.by_token(connection, media_id, hashlib.sha256(token.encode()).digest())
    if picture is None:
        raise ApiError(403, "upload_refused", "This URL is wrong, or its picture has been dealt with: presign again")
    return picture


def _refuse(picture: Picture, request: AnyRequest, now: datetime) -> None:
    if picture.expires_at is None or now >= picture.expires_at:
        raise ApiError(403, "upload_expired", "This URL has expired: presign again")
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != picture.mime_type:
        raise ApiError(
            415, "other_content_type", f"Send Content-Type: {picture.mime_type}, as was said when the URL was made"
        )


@asynccontextmanager
async def _room(under_way: asyncio.Semaphore) -> AsyncIterator[None]:
    if under_way.locked():
        raise ApiError(429, "busy", "Too many uploads at once", retry_after_seconds=1)
    async with under_way:
        yield


async def _read(request: AnyRequest, settings: MediaStoreSettings) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(settings.media_url_seconds):
            async for chunk in request.stream():
                body += chunk
    except TimeoutError as error:
        raise ApiError(408, "too_slow", f"The picture did not arrive in {settings.media_url_seconds} s") from error
    except RequestEntityTooLarge as error:
        raise ApiError(413, "picture_too_large", f"At most {settings.media_bytes_max} bytes are taken") from error
    except InternalServerException as error:
        # Nobody hears this answer. It keeps a cut link, which is no fault of ours, out of the errors.
        raise ApiError(400, "cut_short", "The connection ended before the picture did") from error
    return bytes(body)


def _measure(picture: Picture, data: bytes) -> str:
    """The checksum, unless the bytes are other ones than those that were said."""
    sha256 = hashlib.sha256(data).hexdigest()
    if not data:
        raise ApiError(422, EMPTY, "The body has no bytes: curl sends a file with --data-binary @FILE")
    if picture.size_bytes not in (None, len(data)):
        raise ApiError(422, SIZE_MISMATCH, f"{len(data)} bytes came, {picture.size_bytes} were said")
    if picture.sha256 not in (None, sha256):
        raise ApiError(422, CHECKSUM_MISMATCH, "The SHA-256 of what came is another one than was said")
    return sha256


async def _claim(pool: Pool, picture: Picture, size_bytes: int, sha256: str, day_limit: DayLimit) -> None:
    """Before a byte is stored: two uploads at once may both find the object store empty, and only one may fill it."""
    async with asking(pool) as connection, connection.transaction():
        if picture.size_bytes is None:  # else they were counted with the URL
            await refuse_bytes(connection, picture.origin, size_bytes, day_limit)
            await store.add_bytes(connection, picture.origin, size_bytes)
        if not await store.claim_body(connection, picture.media_id, size_bytes, sha256):
            raise ApiError(412, "already_uploaded", "Another picture was sent to this URL before: presign again")


async def _put(objects: ObjectStore, picture: Picture, data: bytes) -> None:
    try:
        await objects.put(picture.bucket, picture.object_key, data, content_type=picture.mime_type, must_be_new=True)
    except ObjectExists as error:
        raise ApiError(412, "already_uploaded", "This picture was uploaded before, and is not overwritten") from error
    except StoreRefused as error:
        # Our key is wrong, not the device's picture: it tries again when somebody has mended that.
        raise StoreAway(str(error), code=error.code) from error
