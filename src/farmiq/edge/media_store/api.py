"""What devices call. Who they are is in their token, and nowhere else."""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response, post
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import Struct
from msgspec.structs import replace
from structlog.contextvars import get_contextvars

from farmiq.contracts.media import PictureStates, PictureStatesRequest, PresignAnswer, PresignRequest
from farmiq.edge.disk import Disk
from farmiq.edge.media_store import losses, store
from farmiq.edge.media_store.counters import Counters
from farmiq.edge.media_store.handlers import NameTaken, admit, holder_of, refuse_foreign_station
from farmiq.edge.media_store.inspection import Inspector
from farmiq.edge.media_store.names import names_for
from farmiq.edge.media_store.picture import NewPicture, Picture, ShownState
from farmiq.edge.media_store.screening import UNKNOWN_MEDIA, content_url, key_of, refuse_size, stranger
from farmiq.edge.media_store.settings import MediaStoreSettings
from farmiq.edge.media_store.worker import LEASE_SECONDS
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import ApiError
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectStore
from farmiq.timeseries.asking import asking
from farmiq.timeseries.stream import Origin

AnyRequest = Request[Any, Any, Any]
AnyConnection = ASGIConnection[Any, Any, Any, Any]
Awaited = Annotated[bool, QueryParameter(description="false: only asks whether it is there")]


class PictureState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`awaited`: announced, and looked at soon. `stored`: verified, and on its way to the cloud."""

    media_id: UUID
    state: ShownState
    size_bytes: int | None = None
    sha256: str | None = None
    width_px: int | None = None
    height_px: int | None = None


def device_routes(
    pool: Pool,
    signer: ObjectStore,
    bucket: str,
    inspector: Inspector,
    settings: MediaStoreSettings,
    disk: Disk,
    clock: Clock,
) -> list[Any]:
    looking = asyncio.Semaphore(settings.media_checks_at_once)

    @post("/api/v1/media/images/presign", guards=[device_guard(pool)], tags=["upload"], status_code=200)
    async def presign(request: AnyRequest, data: JSONBody[PresignRequest]) -> PresignAnswer:
        """A URL to upload one picture to, with PUT and exactly the `required_headers`, until `expires_at`.

        With `contentLength` and `sha256` the URL is the object store's own, for that very body. Without them it leads back here,
        where the bytes are counted and checked as they come. Tenant, farm, barn and device must be those of the token.
        """
        token = bearer_of(request)
        refuse_size(data, settings.media_bytes_max)
        said = Origin(data.tenant_id, data.farm_id, data.barn_id, data.device_id)
        async with asking(pool) as connection, counting_throttled(inspector.counters):
            if data.station_id is not None:
                await refuse_foreign_station(connection, said, data.station_id)
            trace_id = data.trace_id or str(get_contextvars()["trace_id"])
            expires_at = clock.now() + timedelta(seconds=settings.media_url_seconds)
            base_url = settings.media_public_url or str(request.base_url)
            for media_id in names_for(said, data):
                new = _picture(media_id, said, data, bucket, expires_at, trace_id)
                new, answer, way = sign(signer, new, base_url, settings.media_url_seconds)
                with contextlib.suppress(NameTaken):  # the last name is new
                    await admit(
                        connection,
                        new,
                        token,
                        presigns_per_minute=settings.media_presigns_per_minute,
                        first_check_seconds=settings.media_sweep_seconds,
                        day_limit=settings.day_limit,
                        objects=inspector.objects,
                        disk=disk.state(clock.monotonic()),
                    )
                    break
        inspector.counters.presigned.labels(way).inc()
        return answer

    @post("/api/v1/media/images/{media_id:uuid}/complete", tags=["upload"], status_code=200)
    async def complete(
        request: AnyRequest, media_id: FromPath[UUID], awaited: Awaited = True
    ) -> Response[PictureState]:
        """The picture is uploaded: look at it now. May be repeated.

        200 when it is stored, 202 when others are just being looked at and this one is next, 409 when it is not in the object
        store yet (it stays awaited), 422 with the reason when it is refused. With `awaited=false` it is only a question: nobody
        waits for a picture that turns out not to be there.
        """
        async with asking(pool) as connection:
            origin = await holder_of(connection, bearer_of(request))
        if looking.locked():
            return _answer(await _noted(pool, origin, media_id, 0.0, is_awaited=awaited), is_looked_at=False)
        async with looking:
            picture = await _noted(pool, origin, media_id, LEASE_SECONDS, is_awaited=awaited)
            if picture.state == "presigned":
                await inspector.inspect(picture)
                picture = await _found(pool, origin, media_id)
            return _answer(picture, is_looked_at=True)

    return [presign, complete, *_state_routes(pool)]


def _state_routes(pool: Pool) -> list[Any]:
    @post("/api/v1/media/images/states", guards=[device_guard(pool)], tags=["upload"], status_code=200)
    async def states(request: AnyRequest, data: JSONBody[PictureStatesRequest]) -> PictureStates:
        """What became of pictures that this device announced: whoever has their files keeps them until they are `stored`.

        A `wanted` picture is presigned and uploaded again, as it was the first time; one that is `lost` is in the loss ledger.
        """
        token = bearer_of(request)
        async with asking(pool) as connection:
            origin = await holder_of(connection, token)
            return PictureStates(pictures=await losses.states_of(connection, origin, data.media_ids))

    return [states]


def device_guard(pool: Pool) -> Any:
    """A Litestar guard: who has no token of a device is refused before the body is looked at."""

    async def guard(connection: AnyConnection, _handler: BaseRouteHandler) -> None:
        token = bearer_of(connection)
        async with asking(pool) as database:
            await holder_of(database, token)

    return guard


def bearer_of(request: AnyConnection) -> str:
    """A device's token. Whose it is, the database knows."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise stranger()
    return token


def sign(
    signer: ObjectStore, new: NewPicture, base_url: str, expires_seconds: int
) -> tuple[NewPicture, PresignAnswer, str]:
    """Straight into the object store when the body is known to the last byte, else through this service."""
    answer = partial(PresignAnswer, media_id=new.media_id, expires_at=new.expires_at)
    if new.size_bytes is None or new.sha256 is None:
        token = secrets.token_urlsafe(32)
        new = replace(new, upload_token_hash=hashlib.sha256(token.encode()).digest())
        headers = {"content-type": new.mime_type}
        return new, answer(upload_url=content_url(base_url, new.media_id, token), required_headers=headers), "service"
    signed = signer.presign_put(
        new.bucket,
        new.object_key,
        content_type=new.mime_type,
        size_bytes=new.size_bytes,
        sha256=bytes.fromhex(new.sha256),
        expires_seconds=expires_seconds,
    )
    return new, answer(upload_url=signed.url, required_headers=signed.headers), "store"


@asynccontextmanager
async def counting_throttled(counters: Counters) -> AsyncIterator[None]:
    try:
        yield
    except ApiError as error:
        if error.status in (429, 507):
            counters.throttled.inc()
        raise


def _picture(
    media_id: UUID, origin: Origin, asked: PresignRequest, bucket: str, expires_at: datetime, trace_id: str
) -> NewPicture:
    return NewPicture(
        media_id=media_id,
        origin=origin,
        station_id=asked.station_id,
        session_id=asked.session_id,
        bucket=bucket,
        object_key=key_of(origin, asked, media_id),
        mime_type=asked.content_type,
        size_bytes=asked.content_length,
        sha256=None if asked.sha256 is None else asked.sha256.lower(),
        captured_at=asked.captured_at,
        expires_at=expires_at,
        trace_id=trace_id,
    )


async def _noted(pool: Pool, origin: Origin, media_id: UUID, check_in_seconds: float, *, is_awaited: bool) -> Picture:
    """With a time to check in the future, the picture is the caller's to look at, as if it had been claimed."""
    await _found(pool, origin, media_id)
    async with asking(pool) as connection:
        if is_awaited:
            await store.announce(connection, media_id, check_in_seconds=check_in_seconds)
        else:
            await store.look_in(connection, media_id, check_in_seconds)
    return await _found(pool, origin, media_id)


async def _found(pool: Pool, origin: Origin, media_id: UUID) -> Picture:
    async with asking(pool) as connection:
        picture = await store.of_device(connection, media_id, origin)
    if picture is None:
        raise ApiError(404, UNKNOWN_MEDIA, f"This device has no picture {media_id}, or no longer: presign again")
    return picture


def _answer(picture: Picture, *, is_looked_at: bool) -> Response[PictureState]:
    if picture.state == "refused":
        raise ApiError(422, picture.refused_reason or "refused", picture.refused_detail or "This picture was refused")
    if picture.state != "stored" and is_looked_at:
        stays = ". It stays awaited" if picture.announced_at else ""
        raise ApiError(409, "object_missing", f"The picture is not in the object store yet{stays}")
    state = PictureState(media_id=picture.media_id, state=picture.shown_state)
    if picture.state != "stored":
        return Response(state, status_code=202)
    return Response(
        replace(
            state,
            size_bytes=picture.size_bytes,
            sha256=picture.sha256,
            width_px=picture.width_px,
            height_px=picture.height_px,
        )
    )
