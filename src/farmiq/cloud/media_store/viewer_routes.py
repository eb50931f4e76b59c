"""What people and programs read: which pictures there are, one of them, its bytes for a few minutes, and a small one."""

from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Struct

from farmiq.cloud.media_store import store
from farmiq.cloud.media_store.edge_routes import Door
from farmiq.cloud.media_store.picture import Picture, State, filename
from farmiq.cloud.media_store.thumbnails import NoThumbnail, Thumbnails
from farmiq.cloud.viewers import Guard
from farmiq.contracts.timestamps import EARLIEST, LATEST, Timestamp
from farmiq.kit.day_digests import DayDigests
from farmiq.kit.http_server import ApiError
from farmiq.kit.logging import get_logger
from farmiq.kit.pictures import THUMBNAIL_TYPE
from farmiq.kit.s3 import ObjectMissing
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Limit, Tenant, To, position, time_range

AnyState = Annotated[
    State | None, QueryParameter(name="state", description="`announced` and `missing`: known, and not here")
]
Redirect = Annotated[bool, QueryParameter(description="Answer 302 to the URL instead of naming it")]

THUMBNAIL_HEADERS = {
    "content-type": THUMBNAIL_TYPE,
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'",
    "cache-control": "private, max-age=3600",
}
NOT_KEPT = {"cache-control": "no-store", "referrer-policy": "no-referrer"}

log = get_logger(__name__)


class MediaItem(Struct, frozen=True, kw_only=True):
    """A picture without its bytes. `sha256` is of the bytes as the camera's edge stored them."""

    media_id: UUID
    state: State
    farm_id: str | None
    barn_id: str | None
    device_id: str | None
    session_id: UUID | None
    mime_type: str
    size_bytes: int | None
    sha256: str | None
    captured_at: datetime
    announced_at: datetime | None
    stored_at: datetime | None
    missing_since: datetime | None
    missing_reason: str | None


class MediaPage(Struct, frozen=True):
    """`next` continues where this page stopped; a null one is the end."""

    media: list[MediaItem]
    next: str | None


class MediaUrl(Struct, frozen=True):
    """Who has the URL has the picture, until it expires: hand it on to nobody."""

    url: str
    expires_at: datetime


class AfterPicture(NamedTuple):
    captured_at: Timestamp
    media_id: UUID


def viewer_routes(door: Door, thumbnails: Thumbnails, guard: Guard) -> list[Any]:
    guards = [guard]

    @get("/api/v1/media", guards=guards, tags=["media"])
    async def pictures(
        tenant_id: Tenant,
        session_id: FromQuery[UUID | None] = None,
        device_id: AnyDevice = None,
        in_state: AnyState = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 100,
    ) -> MediaPage:
        """A tenant's pictures, newest first, by the time at which they were taken. Page on by giving `next` as `after`."""
        lower, upper = time_range(since or EARLIEST, until or LATEST)
        filters = store.Filters(
            tenant_id=tenant_id, since=lower, until=upper, session_id=session_id, device_id=device_id, state=in_state
        )
        async with read_as(door.pool, tenant_id) as connection:
            found = await store.pictures(connection, filters, position(after, AfterPicture), limit)
        last = (found[-1].captured_at, found[-1].media_id) if len(found) == limit else None
        return MediaPage([item_of(one) for one in found], None if last is None else cursor(last))

    @get("/api/v1/media-days", guards=guards, tags=["media"])
    async def media_days(
        tenant_id: Tenant, device_id: AnyDevice = None, since: From = None, until: To = None
    ) -> DayDigests:
        """How many pictures were taken on each day, by device and state, with a digest of what they are: to compare tiers."""
        async with read_as(door.pool, tenant_id) as connection:
            return await store.DIGESTED.days(connection, tenant_id, device_id, *time_range(since, until))

    @get("/api/v1/media/{media_id:uuid}", guards=guards, tags=["media"])
    async def picture(media_id: FromPath[UUID], tenant_id: Tenant) -> MediaItem:
        """What is known of one picture."""
        return item_of(await _known(door, tenant_id, media_id))

    @get("/api/v1/media/{media_id:uuid}/url", guards=guards, tags=["media"])
    async def url(media_id: FromPath[UUID], tenant_id: Tenant, redirect: Redirect = False) -> Response[MediaUrl | None]:
        """A URL for the picture's bytes that works for a few minutes, without a token. Browsers save it, and never run it."""
        found = await _stored(door, tenant_id, media_id)
        signed = _signed(door, found)
        if redirect:
            return Response(None, status_code=302, headers={"location": signed.url, **NOT_KEPT})
        return Response(signed, headers=NOT_KEPT)

    @get("/api/v1/media/{media_id:uuid}/thumbnail", guards=guards, tags=["media"], media_type=THUMBNAIL_TYPE)
    async def thumbnail(media_id: FromPath[UUID], tenant_id: Tenant) -> Response[bytes]:
        """A small JPEG of the picture, with nothing in it but pixels. Made when it is first asked for."""
        found = await _stored(door, tenant_id, media_id)
        try:
            small = await thumbnails.of(found)
        except ObjectMissing as error:
            log.error("stored_picture_lost", tenant_id=tenant_id, media_id=str(media_id))  # noqa: TRY400 - no trace is needed
            raise ApiError(
                404, "object_missing", "The picture is not in the object store: farmiq media check"
            ) from error
        except NoThumbnail as error:
            raise ApiError(422, error.code, str(error)) from error
        return Response(small, headers=THUMBNAIL_HEADERS)

    return [pictures, media_days, picture, url, thumbnail]


def item_of(picture: Picture) -> MediaItem:
    return MediaItem(**{name: getattr(picture, name) for name in MediaItem.__struct_fields__})


async def _known(door: Door, tenant_id: str, media_id: UUID) -> Picture:
    async with read_as(door.pool, tenant_id) as connection:
        found = await store.one(connection, tenant_id, media_id)
    if found is None:
        raise ApiError(404, "media_unknown", "There is no such picture")
    return found


async def _stored(door: Door, tenant_id: str, media_id: UUID) -> Picture:
    found = await _known(door, tenant_id, media_id)
    if found.state != "stored":
        raise ApiError(404, "media_not_here", f"The picture is {found.state}: its bytes are not here")
    return found


def _signed(door: Door, picture: Picture) -> MediaUrl:
    assert picture.bucket is not None  # noqa: S101 - it is stored
    assert picture.object_key is not None  # noqa: S101 - as above
    seconds = door.settings.media_view_seconds
    url = door.signer.presign_get(
        picture.bucket,
        picture.object_key,
        expires_seconds=seconds,
        content_type=picture.mime_type,
        filename=filename(picture),
    )
    return MediaUrl(url, door.clock.now() + timedelta(seconds=seconds))
