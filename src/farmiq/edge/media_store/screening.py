"""May this device have a URL for this picture? Decided from its credential and what it says."""

from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.media import EXTENSION_OF, PresignRequest, object_key
from farmiq.contracts.weighvision import ImageCaptured
from farmiq.edge.media_store.picture import Picture
from farmiq.kit.http_server import ApiError
from farmiq.timeseries.stream import Origin

UNKNOWN_MEDIA = "unknown_media"
OTHER_SESSION = "other_session"
OTHER_PICTURE = "other_picture"


class BytesOfDay(Struct, frozen=True):
    """What was asked for since midnight UTC, taken or refused; `seconds_left` until the next."""

    of_device: int
    of_tenant: int
    seconds_left: int


class DayLimit(Struct, frozen=True):
    of_device: int
    of_tenant: int

    def has_room(self, used: BytesOfDay, size_bytes: int) -> bool:
        return used.of_device + size_bytes <= self.of_device and used.of_tenant + size_bytes <= self.of_tenant


def stranger() -> ApiError:
    return ApiError(401, "unauthorized", "This route needs a device's HTTP token: Authorization: Bearer <token>")


def refuse_identity(origin: Origin, said: Origin) -> None:
    """The body may repeat what the credential says. It may not say anything else."""
    wrong = [name for name in Origin.__struct_fields__ if getattr(said, name) != getattr(origin, name)]
    if wrong:
        named = ", ".join(_camel(name) for name in wrong)
        raise ApiError(403, "identity_mismatch", f"The token belongs to another device than the body says: {named}")


def refuse_size(asked: PresignRequest, bytes_max: int) -> None:
    if asked.content_length is not None and asked.content_length > bytes_max:
        raise ApiError(
            413, "picture_too_large", f"contentLength is {asked.content_length}, at most {bytes_max} are taken"
        )


def key_of(origin: Origin, asked: PresignRequest, media_id: UUID) -> str:
    return object_key(
        tenant_id=origin.tenant_id,
        farm_id=origin.farm_id,
        barn_id=origin.barn_id,
        device_id=origin.device_id,
        media_id=media_id,
        captured_at=asked.captured_at,
        extension=EXTENSION_OF[asked.content_type],
    )


def contradiction(picture: Picture, captured: ImageCaptured, session_id: UUID | None) -> str | None:
    """The code under which an announcement is refused that does not fit the picture which it names."""
    if None not in (picture.session_id, session_id) and picture.session_id != session_id:
        return OTHER_SESSION
    said = (captured.content_type, captured.size_bytes, captured.sha256 and captured.sha256.lower())
    known = (picture.mime_type, picture.size_bytes, picture.sha256)
    if any(None not in pair and pair[0] != pair[1] for pair in zip(said, known, strict=True)):
        return OTHER_PICTURE
    return None


def content_url(base_url: str, media_id: UUID, token: str) -> str:
    """Where a device puts a picture of which it did not say enough for a URL of the object store."""
    parts = urlsplit(base_url)
    path = f"{parts.path.rstrip('/')}/api/v1/media/images/{media_id}/content"
    return urlunsplit(parts._replace(path=path, query=f"token={token}", fragment=""))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
