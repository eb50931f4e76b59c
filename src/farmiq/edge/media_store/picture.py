"""One picture, as its row has it."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import asyncpg
from msgspec import Struct

from farmiq.timeseries.stream import Origin

State = Literal["presigned", "stored", "refused", "missing"]
ShownState = Literal["presigned", "awaited", "stored", "refused", "missing"]


class Picture(Struct, frozen=True, kw_only=True):
    """Until it is stored, `size_bytes` and `sha256` are what the device said of it, if it said anything."""

    media_id: UUID
    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    station_id: str | None
    session_id: UUID | None
    bucket: str
    object_key: str
    mime_type: str
    size_bytes: int | None
    sha256: str | None
    captured_at: datetime
    created_at: datetime
    state: State
    expires_at: datetime | None
    announced_at: datetime | None
    next_check_at: datetime | None
    checks: int
    stored_at: datetime | None
    refused_at: datetime | None
    refused_reason: str | None
    refused_detail: str | None
    object_removed_at: datetime | None
    width_px: int | None
    height_px: int | None
    trace_id: str | None
    sent_size_bytes: int | None = None
    """Of what leaves the edge, when that is not the stored bytes: the same picture without its camera's notes."""
    sent_sha256: str | None = None
    is_adopted: bool = False
    """Its row was made from its object's key: time and session are known when somebody announces it."""
    declare_at: datetime | None = None
    """It is missing or refused, and is declared lost at this time unless its station sends it again."""
    declared_lost_at: datetime | None = None

    @property
    def origin(self) -> Origin:
        return Origin(self.tenant_id, self.farm_id, self.barn_id, self.device_id)

    @property
    def whole_since(self) -> datetime | None:
        """None while it is not whole: `stored_at` stays with a picture that was, and has been lost or changed."""
        return self.stored_at if self.state == "stored" else None

    @property
    def shown_state(self) -> ShownState:
        """A picture that somebody said is there, and is not yet known to be, is awaited."""
        return "awaited" if self.state == "presigned" and self.announced_at is not None else self.state


class NewPicture(Struct, frozen=True, kw_only=True):
    """What is known of a picture when its upload URL is signed."""

    media_id: UUID
    origin: Origin
    station_id: str | None
    session_id: UUID | None
    bucket: str
    object_key: str
    mime_type: str
    size_bytes: int | None
    sha256: str | None
    captured_at: datetime
    expires_at: datetime
    trace_id: str
    upload_token_hash: bytes | None = None


def picture_of(row: asyncpg.Record) -> Picture:
    return Picture(**{name: row[name] for name in Picture.__struct_fields__})
