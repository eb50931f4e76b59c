"""A node with a clock of its own: what it says, when it says it said it, and the will that its broker publishes."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from farmiq.contracts import event_types, topics
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import DevicePayload, mqtt_envelope
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import Channel, TelemetryBatch
from farmiq.contracts.timestamps import to_us
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.timeseries.stream import Origin
from support.telemetry import HERE, raw_message


class SetClock(Clock):
    """Stands still until somebody moves it."""

    def __init__(self, now: datetime) -> None:
        self.at = now

    def now(self) -> datetime:
        return self.at


class SpeakingNode:
    def __init__(self, origin: Origin = HERE, connected_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.origin = origin
        self.stream = uuid4()
        self.next_seq = 1
        self._place = {
            "tenant_id": origin.tenant_id,
            "farm_id": origin.farm_id,
            "barn_id": origin.barn_id,
            "device_id": origin.device_id,
        }
        # As the real one: made when the process starts, and given to the broker with every connection.
        self.will = self.status(connected_at, DeviceStatus(state="offline"))

    def sample(
        self, said_at: datetime, measured_at: datetime | UnsetType = UNSET, *, sensor: str = "t1", value: float = 20.0
    ) -> Message:
        at = said_at if isinstance(measured_at, UnsetType) else measured_at
        batch = TelemetryBatch(
            stream_id=self.stream,
            boot_id=UUID(int=1),
            lane="live",
            seq0=self.next_seq,
            time_quality=2,
            channels=[Channel(metric="temperature", unit="C", sensor=sensor)],
            t=[to_us(at)],
            c=[0],
            v=[value],
        )
        self.next_seq += 1
        topic = topics.TelemetryBatchTopic(**self._place).path
        return self._message(topic, event_types.TELEMETRY_BATCH, batch, said_at)

    def status(self, said_at: datetime, status: DeviceStatus | None = None) -> Message:
        topic = topics.StatusTopic(**self._place).path
        said = status or DeviceStatus(state="online", stream_id=self.stream, last_captured_seq=self.next_seq - 1)
        return self._message(topic, event_types.DEVICE_STATUS, said, said_at)

    def _message(self, topic: str, event_type: str, payload: DevicePayload, said_at: datetime) -> Message:
        envelope = mqtt_envelope(
            payload,
            event_id=new_id(),
            event_type=event_type,
            tenant_id=self.origin.tenant_id,
            device_id=self.origin.device_id,
            ts=said_at,
        )
        return raw_message(topic, encode(envelope))


def retained(message: Message) -> Message:
    """As the broker hands it to a new subscriber."""
    return replace(message, is_retained=True)
