"""From `media.stored` on the bus to what it says about a picture. Decided from the message alone."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.envelope import BusEnvelope, payload_of
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.contracts.media import MediaStored


class Announcement(Struct, frozen=True, kw_only=True):
    """`source_*` and `path` say where the edge has it, which is nothing that we could read."""

    tenant_id: str
    media_id: UUID
    event_id: UUID
    occurred_at: datetime
    farm_id: str | None
    barn_id: str | None
    device_id: str | None
    session_id: UUID | None
    trace_id: str | None
    mime_type: str
    size_bytes: int
    sha256: str | None
    captured_at: datetime
    source_bucket: str | None
    source_object_key: str | None
    path: str | None


def announced(body: bytes) -> Announcement:
    """What the message says, or `MalformedMessage`."""
    envelope = decode(BusEnvelope, body, max_bytes=BUS_MESSAGE_BYTES_MAX)
    payload = payload_of(envelope)
    if not isinstance(payload, MediaStored):
        raise MalformedMessage("unknown_event_type", f"{envelope.event_type} is not stored here")
    return Announcement(
        tenant_id=envelope.tenant_id,
        media_id=payload.media_id,
        event_id=envelope.event_id,
        occurred_at=envelope.occurred_at,
        farm_id=envelope.farm_id,
        barn_id=envelope.barn_id,
        device_id=envelope.device_id,
        session_id=envelope.session_id,
        trace_id=envelope.trace_id,
        mime_type=payload.mime_type,
        size_bytes=payload.size_bytes,
        sha256=None if payload.sha256 is None else payload.sha256.lower(),
        captured_at=payload.captured_at or envelope.occurred_at,
        source_bucket=payload.bucket,
        source_object_key=payload.object_key,
        path=payload.path,
    )


def last_words(announcements: Iterable[Announcement]) -> list[Announcement]:
    """One for each picture, the latest, in the order in which rows are locked."""
    ordered = sorted(announcements, key=lambda one: (one.tenant_id, one.media_id, one.occurred_at, one.event_id))
    return list({(one.tenant_id, one.media_id): one for one in ordered}.values())
