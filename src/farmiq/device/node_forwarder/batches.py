"""Frames of the spool, and its losses, as messages for the edge."""

from collections.abc import Callable
from itertools import takewhile
from uuid import UUID

from msgspec import UNSET, UnsetType

from farmiq.contracts import event_types, topics
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import DevicePayload, mqtt_envelope
from farmiq.contracts.limits import MQTT_MESSAGE_BYTES_MAX
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import Channel, Lane, TelemetryBatch, TelemetryLoss, TimeSegment
from farmiq.contracts.timestamps import from_us
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id, new_trace_id
from farmiq.spool import Loss, Run

Correction = Callable[[Run], list[TimeSegment] | UnsetType]


class Messages:
    """Everything that this node says, in its envelope and on its topic."""

    def __init__(self, settings: ForwarderSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        place = {
            "tenant_id": settings.tenant_id,
            "farm_id": settings.farm_id,
            "barn_id": settings.barn_id,
            "device_id": settings.device_id,
        }
        self.batch_topic = topics.TelemetryBatchTopic(**place).path
        self.loss_topic = topics.EventTopic(**place, event_type=event_types.TELEMETRY_LOSS).path
        self.status_topic = topics.StatusTopic(**place).path
        self.ack_topic = topics.AckTopic(device_id=settings.device_id).path

    def batch(self, run: Run, lane: Lane, correction: Correction | None = None) -> tuple[bytes, int]:
        """The front of a run as one message that the edge takes, and the last sequence of the spool in it."""
        frames = run.frames
        while True:
            batch = batch_of(Run(run.header, frames, run.offset), lane, correction)
            message = self._envelope(batch, event_types.TELEMETRY_BATCH, new_id())
            if len(message) <= MQTT_MESSAGE_BYTES_MAX or len(frames) == 1:
                return message, batch.last_seq + run.offset
            frames = frames[: max(1, min(len(frames), len(batch.t)) // 2)]

    def loss(self, loss: Loss) -> bytes:
        """Under the loss's own id, so that it counts once however often it is sent."""
        return self._envelope(loss_of(loss), event_types.TELEMETRY_LOSS, loss.loss_id)

    def status(self, status: DeviceStatus, event_id: UUID | None = None) -> bytes:
        return self._envelope(status, event_types.DEVICE_STATUS, event_id or new_id())

    def _envelope(self, payload: DevicePayload, event_type: str, event_id: UUID) -> bytes:
        return encode(
            mqtt_envelope(
                payload,
                event_id=event_id,
                event_type=event_type,
                tenant_id=self._settings.tenant_id,
                device_id=self._settings.device_id,
                ts=self._clock.now(),
                trace_id=new_trace_id(),
            )
        )


def batch_of(run: Run, lane: Lane, correction: Correction | None = None) -> TelemetryBatch:
    """A batch has one time quality, so it ends where the quality changes. Only the channels in use are named."""
    quality = run.frames[0].quality
    frames = list(takewhile(lambda frame: frame.quality == quality, run.frames))
    used = sorted({frame.channel for frame in frames})
    index = {channel: at for at, channel in enumerate(used)}
    table = [run.header.channels[channel] for channel in used]
    return TelemetryBatch(
        stream_id=run.header.stream_id,
        boot_id=run.header.boot_id,
        lane=lane,
        seq0=frames[0].seq - run.offset,
        time_quality=quality,
        channels=[Channel(metric=one.metric, unit=one.unit, sensor=one.sensor or None) for one in table],
        t=[frame.wall_us for frame in frames],
        c=[index[frame.channel] for frame in frames],
        v=[frame.value for frame in frames],
        time_correction=UNSET if correction is None else correction(Run(run.header, frames, run.offset)),
    )


def loss_of(loss: Loss) -> TelemetryLoss:
    return TelemetryLoss(
        stream_id=loss.stream_id,
        first_seq=loss.first_seq - loss.offset,
        last_seq=loss.last_seq - loss.offset,
        count=loss.count,
        reason=loss.cause,
        dropped_at=from_us(loss.dropped_at_us),
        first_ts=None if loss.first_wall_us is None else from_us(loss.first_wall_us),
        last_ts=None if loss.last_wall_us is None else from_us(loss.last_wall_us),
    )
