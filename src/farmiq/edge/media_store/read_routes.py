"""What people and programs ask. Every question names its tenant."""

from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from litestar import get
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Struct
from msgspec.structs import replace

from farmiq.contracts.timestamps import EARLIEST, LATEST, Timestamp
from farmiq.edge.media_store import store
from farmiq.edge.media_store.picture import Picture, ShownState
from farmiq.kit.clock import Clock
from farmiq.kit.day_digests import DayDigests
from farmiq.kit.http_server import ApiError
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import GET_SECONDS_MAX, ObjectStore
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Tenant, To, position, time_range

InState = Annotated[ShownState | None, QueryParameter(name="state")]
PageLimit = Annotated[int, QueryParameter(ge=1, le=1000)]


class AfterPicture(NamedTuple):
    at: Timestamp
    id: UUID


class PictureView(Struct, frozen=True, kw_only=True):
    """`size_bytes` and `sha256` are what the device said, and measured once it is stored. `reason` is why it was refused.
    `sent_sha256` is that of what goes to the cloud, when notes of the camera are left out of it."""

    media_id: UUID
    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    station_id: str | None
    session_id: UUID | None
    state: ShownState
    reason: str | None
    mime_type: str
    size_bytes: int | None
    sha256: str | None
    sent_sha256: str | None
    width_px: int | None
    height_px: int | None
    captured_at: datetime
    created_at: datetime
    announced_at: datetime | None
    stored_at: datetime | None
    declared_lost_at: datetime | None = None
    bucket: str
    object_key: str
    trace_id: str | None


class PicturePage(Struct, frozen=True):
    """`next` continues after the last picture, given as `after`; it is null on the last page."""

    pictures: list[PictureView]
    next: str | None


class PictureUrl(Struct, frozen=True):
    """Anybody who has the URL can read the picture with it, until then."""

    url: str
    expires_at: datetime


def read_routes(pool: Pool, signer: ObjectStore, guards: list[Any], clock: Clock, kept: timedelta) -> list[Any]:
    """`kept`: how long a picture is not too old."""

    @get("/api/v1/media", guards=guards, tags=["pictures"])
    async def pictures(
        tenant_id: Tenant,
        session_id: FromQuery[UUID | None] = None,
        device_id: AnyDevice = None,
        in_state: InState = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: PageLimit = 100,
    ) -> PicturePage:
        """A tenant's pictures, newest capture first; of one session, one device, in one state."""
        given = {"session_id": session_id, "device_id": device_id, "state": in_state, **_between(since, until)}
        filters = {name: value for name, value in given.items() if value is not None}
        async with read_as(pool, tenant_id) as connection:
            found = await store.page(connection, tenant_id, filters, position(after, AfterPicture), limit)
        return PicturePage([view(picture) for picture in found], _next(found[-1]) if len(found) == limit else None)

    @get("/api/v1/media-days", guards=guards, tags=["pictures"])
    async def media_days(
        tenant_id: Tenant, device_id: AnyDevice = None, since: From = None, until: To = None
    ) -> DayDigests:
        """How many pictures were taken on each day, by device and state, with a digest of what they are: to compare tiers."""
        async with read_as(pool, tenant_id) as connection:
            found = await store.DIGESTED.days(connection, tenant_id, device_id, *time_range(since, until))
        return replace(found, kept_since=clock.now() - kept)

    @get("/api/v1/media/{media_id:uuid}", guards=guards, tags=["pictures"])
    async def picture(media_id: FromPath[UUID], tenant_id: Tenant) -> PictureView:
        """One picture."""
        return view(await _found(pool, media_id, tenant_id))

    @get("/api/v1/media/{media_id:uuid}/url", guards=guards, tags=["pictures"])
    async def url(media_id: FromPath[UUID], tenant_id: Tenant) -> PictureUrl:
        """A URL to read one stored picture with, good for a few minutes."""
        found = await _found(pool, media_id, tenant_id)
        if found.state != "stored":
            raise ApiError(409, "not_stored", f"This picture is {found.shown_state}: only a stored one can be read")
        expires_at = clock.now() + timedelta(seconds=GET_SECONDS_MAX)
        signed = signer.presign_get(
            found.bucket,
            found.object_key,
            expires_seconds=GET_SECONDS_MAX,
            content_type=found.mime_type,
            filename=found.object_key.rpartition("/")[2],
        )
        return PictureUrl(signed, expires_at)

    return [pictures, media_days, picture, url]


def _between(since: datetime | None, until: datetime | None) -> dict[str, object]:
    if since is None and until is None:
        return {}
    lower, upper = time_range(since or EARLIEST, until or LATEST)
    return {"since": lower, "until": upper}


def view(picture: Picture) -> PictureView:
    own = {"state", "reason"}
    plain = {name: getattr(picture, name) for name in PictureView.__struct_fields__ if name not in own}
    return PictureView(state=picture.shown_state, reason=picture.refused_reason, **plain)


def _next(last: Picture) -> str:
    return cursor(AfterPicture(last.captured_at, last.media_id))


async def _found(pool: Pool, media_id: UUID, tenant_id: str) -> Picture:
    async with read_as(pool, tenant_id) as connection:
        picture = await store.of_tenant(connection, media_id, tenant_id)
    if picture is None:
        raise ApiError(404, "unknown_media", f"This tenant has no picture {media_id}, or no longer")
    return picture
