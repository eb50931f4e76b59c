"""Pictures: how a station and an edge send them, `media.stored`, and where an object lies."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from farmiq.contracts.ids import DeviceId, Id, Sha256, TraceId, check_device_id, check_id
from farmiq.contracts.timestamps import Timestamp, keep_utc, to_utc
from farmiq.contracts.weighvision import MimeType, SizeBytes

ContentType = Literal["image/jpeg", "image/png", "image/webp"]
Extension = Literal["jpg", "png", "webp"]

_KEY: Final = re.compile(
    r"tenants/(?P<tenant_id>[^/]+)/farms/(?P<farm_id>[^/]+)/barns/(?P<barn_id>[^/]+)/devices/(?P<device_id>[^/]+)"
    r"/images/(?P<day>[0-9]{4}/[0-9]{2}/[0-9]{2})/(?P<media_id>[0-9a-f-]{36})\.(?P<extension>jpg|png|webp)"
)

PICTURE_STATES_MAX: Final = 100

EXTENSION_OF: Final[dict[ContentType, Extension]] = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}


class PresignRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Tenant and device are only what the caller says: the service believes the credential."""

    tenant_id: Id
    farm_id: Id
    barn_id: Id
    device_id: DeviceId
    captured_at: Timestamp
    content_type: ContentType
    station_id: Id | None = None
    session_id: UUID | None = None
    trace_id: TraceId | None = None
    content_length: Annotated[int, Meta(ge=1, lt=2**53)] | None = None
    sha256: Sha256 | None = None

    def __post_init__(self) -> None:
        keep_utc(self, "captured_at")


class PresignAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`required_headers` were signed into the URL: a PUT without them is refused by the object store."""

    upload_url: Annotated[str, Meta(max_length=4096)]
    media_id: UUID
    expires_at: Timestamp
    required_headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        keep_utc(self, "expires_at")


class PictureStatesRequest(Struct, frozen=True, kw_only=True):
    """A station's question about pictures whose announcements were acknowledged to it."""

    media_ids: Annotated[list[UUID], Meta(min_length=1, max_length=PICTURE_STATES_MAX)]


class PictureStatus(Struct, frozen=True, kw_only=True):
    """`stored`: verified. `awaited`: not looked at yet. `wanted`: missing or damaged, to be sent again. `lost`: declared lost.
    `unknown`: the device has no such picture. A later release may have more words: whoever does not know one asks again later."""

    media_id: UUID
    state: str


class PictureStates(Struct, frozen=True, kw_only=True):
    pictures: list[PictureStatus]


class CloudPresignRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an edge says of a picture that it wants to send to the cloud. For which tenants it speaks is in its credential."""

    tenant_id: Id
    media_id: UUID
    farm_id: Id
    barn_id: Id
    device_id: DeviceId
    mime_type: ContentType
    size_bytes: Annotated[int, Meta(ge=1, lt=2**53)]
    sha256: Sha256
    captured_at: Timestamp
    session_id: UUID | None = None

    def __post_init__(self) -> None:
        keep_utc(self, "captured_at")


class CloudPresignAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`stored`: the cloud has it, and there is nothing to send. `wanted`: PUT it to the URL, with exactly these headers."""

    state: Literal["wanted", "stored"]
    upload_url: Annotated[str, Meta(max_length=4096)] | None = None
    required_headers: dict[str, str] | None = None
    expires_at: Timestamp | None = None

    def __post_init__(self) -> None:
        keep_utc(self, "expires_at")
        given = {self.upload_url is None, self.required_headers is None, self.expires_at is None}
        if given != {self.state == "stored"}:
            raise ValueError("upload_url, required_headers and expires_at come with `wanted`, and only with it")


class CloudMediaState(Struct, frozen=True, kw_only=True):
    """The answer to `complete`: size and SHA-256 of the stored bytes were compared. Whatever else is an error."""

    state: Literal["stored"]


class WantedPicture(Struct, frozen=True, kw_only=True):
    """Announced and never arrived, or arrived once and lost. Whichever edge has it sends it again."""

    tenant_id: Id
    media_id: UUID


class WantedPictures(Struct, frozen=True, kw_only=True):
    """What the cloud asks its edges for, of their tenants. `next` continues where this page stopped; a null one is the end."""

    pictures: list[WantedPicture]
    next: str | None


class MediaStored(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`media.stored`. We write `bucket` and `object_key`; the older form with a `path` is still read."""

    media_id: UUID
    mime_type: MimeType
    size_bytes: SizeBytes
    bucket: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    object_key: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    path: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    sha256: Sha256 | None = None
    etag: Annotated[str, Meta(max_length=255)] | None = None
    captured_at: Timestamp | None = None

    def __post_init__(self) -> None:
        if (self.bucket is None) != (self.object_key is None):
            raise ValueError("bucket and object_key belong together")
        if self.object_key is None and self.path is None:
            raise ValueError("Object missing required field `object_key`")
        keep_utc(self, "captured_at")


def object_key(
    *,
    tenant_id: str,
    farm_id: str,
    barn_id: str,
    device_id: str,
    media_id: UUID,
    captured_at: datetime,
    extension: Extension,
) -> str:
    """Always made by the server, from parts that cannot leave their folder."""
    if extension not in EXTENSION_OF.values():
        raise ValueError(f"extension {extension[:16]!r} is not one of jpg, png, webp")
    day = to_utc(captured_at)
    return (
        f"tenants/{check_id('tenant_id', tenant_id)}/farms/{check_id('farm_id', farm_id)}"
        f"/barns/{check_id('barn_id', barn_id)}/devices/{check_device_id(device_id)}"
        f"/images/{day.year:04d}/{day.month:02d}/{day.day:02d}/{media_id}.{extension}"
    )


class ObjectName(Struct, frozen=True, kw_only=True):
    """What an object's key alone says about the picture. Of the time it has the day, in UTC."""

    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    media_id: UUID
    mime_type: ContentType
    captured_on: datetime

    @property
    def key(self) -> str:
        return object_key(
            tenant_id=self.tenant_id,
            farm_id=self.farm_id,
            barn_id=self.barn_id,
            device_id=self.device_id,
            media_id=self.media_id,
            captured_at=self.captured_on,
            extension=EXTENSION_OF[self.mime_type],
        )


def read_object_key(key: str) -> ObjectName | None:
    """The other way round. None unless `object_key` makes this very key of what was read: nothing else is one of ours."""
    parts = _KEY.fullmatch(key)
    if parts is None:
        return None
    types: dict[str, ContentType] = {extension: content_type for content_type, extension in EXTENSION_OF.items()}
    try:
        name = ObjectName(
            tenant_id=parts["tenant_id"],
            farm_id=parts["farm_id"],
            barn_id=parts["barn_id"],
            device_id=parts["device_id"],
            media_id=UUID(parts["media_id"]),
            mime_type=types[parts["extension"]],
            captured_on=datetime.strptime(parts["day"], "%Y/%m/%d").replace(tzinfo=UTC),
        )
        made = name.key
    except ValueError:
        return None
    return name if made == key else None
