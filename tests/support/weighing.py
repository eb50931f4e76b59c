"""A weigh station's messages, and the pictures that it uploads."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

import msgspec

from farmiq.contracts import event_types
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import mqtt_envelope
from farmiq.contracts.weighvision import (
    ImageCaptured,
    StationSessionCancelled,
    StationSessionCreated,
    StationSessionFinalized,
    WeightRecorded,
)
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.media_store import store as pictures
from farmiq.edge.media_store.picture import NewPicture
from farmiq.edge.weighvision_session import intake
from farmiq.edge.weighvision_session.events import InferenceResult, Said, SessionEvent, StoredPicture
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.gateway import forget_announcements
from support.telemetry import raw_message

STATION = Origin("demo", "farm-1", "barn-1", "station-1")
NEIGHBOUR = Origin("demo", "farm-1", "barn-1", "station-2")
ELSEWHERE = Origin("other", "farm-9", "barn-9", "station-9")

BEGAN_AT = datetime(2025, 6, 16, 8, tzinfo=UTC)
"""By the station's clock."""
HEARD_AT = datetime(2025, 6, 17, 9, tzinfo=UTC)
"""By the edge's clock: the station was offline for a day."""

_TYPE_OF: dict[type[msgspec.Struct], str] = {
    StationSessionCreated: event_types.SESSION_CREATED,
    WeightRecorded: event_types.WEIGHT_RECORDED,
    ImageCaptured: event_types.IMAGE_CAPTURED,
    StationSessionFinalized: event_types.SESSION_FINALIZED,
    StationSessionCancelled: event_types.SESSION_CANCELLED,
}


class Weighing:
    """One session of one station. The same words always have the same event ids."""

    def __init__(self, session_id: UUID | None = None, origin: Origin = STATION) -> None:
        self.id = session_id or new_id()
        self.origin = origin

    def media_id(self, number: int) -> UUID:
        return uuid5(self.id, f"picture {number}")

    def created(self, second: int = 0, **fields: object) -> SessionEvent:
        return self.said(second, StationSessionCreated(**{"batch_id": "batch-7"} | fields))  # type: ignore[arg-type]  # a test's own fields

    def weight(self, second: int, weight_kg: float) -> SessionEvent:
        return self.said(second, WeightRecorded(weight_kg=weight_kg))

    def image(self, second: int, number: int) -> SessionEvent:
        return self.said(second, ImageCaptured(media_id=self.media_id(number), content_type="image/jpeg"))

    def finalized(self, second: int, image_count: int, final_weight_kg: float | None = None) -> SessionEvent:
        return self.said(second, StationSessionFinalized(image_count=image_count, final_weight_kg=final_weight_kg))

    def cancelled(self, second: int, reason: str | None = None) -> SessionEvent:
        return self.said(second, StationSessionCancelled(reason=reason))

    def said(self, second: int, said: Said) -> SessionEvent:
        at = BEGAN_AT + timedelta(seconds=second)
        return SessionEvent(self.origin, self.id, uuid5(self.id, f"{second} {said}"), at, said)

    def stored(self, number: int, at: datetime = HEARD_AT) -> StoredPicture:
        return StoredPicture(self.origin, self.media_id(number), self.id, at, "trace-2")

    def result(self, number: int, confidence: float, generation: int = 0, weight_kg: float = 121.3) -> InferenceResult:
        return InferenceResult(
            id=uuid5(self.id, f"result {number} {confidence} {generation}"),
            origin=self.origin,
            occurred_at=BEGAN_AT,
            predicted_weight_kg=weight_kg,
            confidence=confidence,
            model_version=f"weighvision-v1.{generation}.0",
            model_generation=generation,
            media_id=self.media_id(number),
            session_id=self.id,
        )


def message_of(event: SessionEvent, *, trace_id: str = "trace-1") -> Message:
    """As the station publishes it, on its session's topic."""
    origin, event_type = event.origin, _TYPE_OF[type(event.said)]
    envelope = mqtt_envelope(
        event.said,
        event_id=event.event_id,
        event_type=event_type,
        tenant_id=origin.tenant_id,
        device_id=origin.device_id,
        ts=event.at,
        trace_id=trace_id,
    )
    place = f"{origin.tenant_id}/{origin.farm_id}/{origin.barn_id}/{origin.device_id}"
    return raw_message(f"iot/weighvision/{place}/session/{event.session_id}/{event_type}", encode(envelope))


async def register_stations(pool: Pool, *origins: Origin) -> None:
    async with pool.acquire() as connection:
        for origin in origins or (STATION, NEIGHBOUR, ELSEWHERE):
            await devices.register(
                connection,
                tenant_id=origin.tenant_id,
                farm_id=origin.farm_id,
                barn_id=origin.barn_id,
                device_id=origin.device_id,
                kind="weigh-station",
            )
        await forget_announcements(connection)


async def presign(pool: Pool, origin: Origin, media_id: UUID, session_id: UUID | None = None) -> None:
    """As the media store does it before it hands out a URL."""
    await presign_each(pool, origin, [(media_id, session_id)])


async def presign_each(pool: Pool, origin: Origin, wanted: Sequence[tuple[UUID, UUID | None]]) -> None:
    """Pictures with their sessions, all in one transaction."""
    async with pool.acquire() as connection, connection.transaction():
        for media_id, session_id in wanted:
            await pictures.add(connection, _new_picture(origin, media_id, session_id), first_check_seconds=60.0)


def _new_picture(origin: Origin, media_id: UUID, session_id: UUID | None) -> NewPicture:
    return NewPicture(
        media_id=media_id,
        origin=origin,
        station_id=origin.device_id,
        session_id=session_id,
        bucket="farmiq-media",
        object_key=f"tenants/{origin.tenant_id}/{media_id}.jpg",
        mime_type="image/jpeg",
        size_bytes=None,
        sha256=None,
        captured_at=BEGAN_AT,
        expires_at=HEARD_AT,
        trace_id="trace-2",
    )


async def store_picture(pool: Pool, *stored: StoredPicture) -> None:
    """As the media store does it once the bytes were read back: the picture's row, and its session in the same transaction."""
    async with pool.acquire() as connection, connection.transaction():
        for picture in sorted(stored, key=lambda one: one.media_id):
            row = await pictures.lock(connection, picture.media_id)
            assert row is not None, "no URL was signed for this picture"
            await connection.execute(
                "UPDATE media_objects SET state = 'stored', stored_at = $2 WHERE id = $1",
                picture.media_id,
                picture.stored_at,
            )
            await intake.picture_stored(connection, msgspec.structs.replace(picture, session_id=row.session_id))
