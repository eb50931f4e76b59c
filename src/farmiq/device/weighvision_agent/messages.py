"""Everything that this station says, in its envelope and on its topic. An event is written once, with its id, and sent as it is
however often."""

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from farmiq.contracts import event_types, topics
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import MqttEnvelope
from farmiq.contracts.station import STATION_LOSS, StationLoss
from farmiq.contracts.telemetry import Reading
from farmiq.contracts.timestamps import to_us
from farmiq.contracts.weighvision import (
    ImageCaptured,
    StationSessionCreated,
    StationSessionFinalized,
    WeightRecorded,
)
from farmiq.device.weighvision_agent.settings import StationSettings
from farmiq.kit.ids import new_id, new_trace_id

WEIGHT_METRIC = "weight"


class Event(Struct, frozen=True, kw_only=True):
    """Ready to be queued."""

    event_id: UUID
    event_type: str
    topic: str
    ts_us: int
    body: bytes
    session_id: UUID | None = None
    picture_id: UUID | None = None


class Messages:
    def __init__(self, settings: StationSettings) -> None:
        self._settings = settings
        self._place = {"tenant_id": settings.tenant_id, "farm_id": settings.farm_id, "barn_id": settings.barn_id}
        self.status_topic = topics.StatusTopic(**self._place, device_id=settings.device_id).path
        self.ack_topic = topics.AckTopic(device_id=settings.device_id).path

    def created(self, session_id: UUID, at: datetime, trace_id: str, payload: StationSessionCreated) -> Event:
        return self._of_session(session_id, event_types.SESSION_CREATED, at, trace_id, payload)

    def weight(self, session_id: UUID, at: datetime, trace_id: str, weight_kg: float) -> Event:
        said = WeightRecorded(weight_kg=weight_kg)
        return self._of_session(session_id, event_types.WEIGHT_RECORDED, at, trace_id, said)

    def finalized(self, session_id: UUID, at: datetime, trace_id: str, image_count: int, weight_kg: float) -> Event:
        said = StationSessionFinalized(image_count=image_count, final_weight_kg=weight_kg)
        return self._of_session(session_id, event_types.SESSION_FINALIZED, at, trace_id, said)

    def image(
        self, picture_id: UUID, session_id: UUID | None, at: datetime, trace_id: str, captured: ImageCaptured
    ) -> Event:
        if session_id is not None:
            event = self._of_session(session_id, event_types.IMAGE_CAPTURED, at, trace_id, captured)
        else:
            topic = self._event_topic(event_types.IMAGE_CAPTURED)
            event = self._event(topic, event_types.IMAGE_CAPTURED, at, trace_id, captured)
        return msgspec.structs.replace(event, picture_id=picture_id)

    def reading(self, at: datetime, trace_id: str, weight_kg: float) -> Event:
        """What the scale shows beside a scheduled picture: no session, so it is telemetry."""
        topic = topics.TelemetryTopic(**self._place, device_id=self._settings.device_id, metric=WEIGHT_METRIC).path
        said = Reading(value=weight_kg, unit="kg")
        return self._event(topic, event_types.TELEMETRY_READING, at, trace_id, said)

    def loss(self, loss: StationLoss, event_id: UUID | None = None) -> Event:
        topic = self._event_topic(STATION_LOSS)
        return self._event(topic, STATION_LOSS, loss.dropped_at, new_trace_id(), loss, event_id)

    def status(self, status: Struct, at: datetime) -> bytes:
        return self._event(self.status_topic, event_types.DEVICE_STATUS, at, new_trace_id(), status).body

    def _event_topic(self, event_type: str) -> str:
        return topics.EventTopic(**self._place, device_id=self._settings.device_id, event_type=event_type).path

    def _of_session(self, session_id: UUID, event_type: str, at: datetime, trace_id: str, payload: Struct) -> Event:
        topic = topics.WeighvisionTopic(
            **self._place, station_id=self._settings.station, session_id=session_id, event_type=event_type
        )
        event = self._event(topic.path, event_type, at, trace_id, payload)
        return msgspec.structs.replace(event, session_id=session_id)

    def _event(
        self, topic: str, event_type: str, at: datetime, trace_id: str, payload: Struct, event_id: UUID | None = None
    ) -> Event:
        event_id = event_id or new_id()
        envelope = MqttEnvelope(
            event_id=event_id,
            trace_id=trace_id,
            tenant_id=self._settings.tenant_id,
            device_id=self._settings.device_id,
            event_type=event_type,
            ts=at,
            payload=Raw(encode(payload)),
        )
        return Event(event_id=event_id, event_type=event_type, topic=topic, ts_us=to_us(at), body=encode(envelope))
