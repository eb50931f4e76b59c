"""Pictures: the presign call, `media.stored`, and where an object lies."""

from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from farmiq.contracts.ids import DeviceId, Id, Sha256, TraceId, check_device_id, check_id
from farmiq.contracts.timestamps import Timestamp, keep_utc, to_utc
from farmiq.contracts.weighvision import MimeType, SizeBytes

ContentType = Literal["image/jpeg", "image/png", "image/webp"]
Extension = Literal["jpg", "png", "webp"]

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
