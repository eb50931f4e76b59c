"""One picture, as its row has it, and where its parts lie."""

from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct

State = Literal["announced", "stored", "refused", "missing"]

PICTURES_PREFIX: Final = "tenants/"
THUMBNAILS_PREFIX: Final = "thumbnails/"


class Picture(Struct, frozen=True, kw_only=True):
    """`announced`: an edge has told of it, and its bytes are not here or not compared. `missing`: they were here once."""

    tenant_id: str
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
    thumbnail_refused: str | None
    bucket: str | None
    object_key: str | None


def thumbnail_key(picture_key: str) -> str:
    """In the same order as the keys of the pictures, because a picture's id stands once in its folder."""
    return f"{THUMBNAILS_PREFIX}{picture_key.rpartition('.')[0]}.jpg"


def filename(picture: Picture) -> str:
    return f"{picture.media_id}.{picture.mime_type.rpartition('/')[2].replace('jpeg', 'jpg')}"
