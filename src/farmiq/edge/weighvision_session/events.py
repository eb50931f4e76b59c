"""What a station said about one of its sessions, as the gateway hands it over."""

from datetime import datetime
from uuid import UUID

import msgspec

from farmiq.contracts.weighvision import (
    ImageCaptured,
    StationSessionCancelled,
    StationSessionCreated,
    StationSessionFinalized,
    WeightRecorded,
)
from farmiq.timeseries.stream import Origin

Said = StationSessionCreated | WeightRecorded | ImageCaptured | StationSessionFinalized | StationSessionCancelled


class SessionEvent(msgspec.Struct, frozen=True):
    """`at` is the station's clock. The origin's device is the station: its credential and its topic have one name."""

    origin: Origin
    session_id: UUID
    event_id: UUID
    at: datetime
    said: Said


class StoredPicture(msgspec.Struct, frozen=True):
    """A picture whose bytes were read back and agreed. `session_id` is what was said when its upload was signed."""

    origin: Origin
    media_id: UUID
    session_id: UUID | None
    stored_at: datetime
    trace_id: str | None = None


class InferenceResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said of a picture, or of a whole session when `media_id` is empty.

    A model that was put to work later has a higher `model_generation`; its word replaces that of the models before it.
    """

    id: UUID
    origin: Origin
    occurred_at: datetime
    predicted_weight_kg: float
    confidence: float
    model_version: str
    model_generation: int = 0
    media_id: UUID | None = None
    session_id: UUID | None = None
    trace_id: str | None = None
