"""What the node says of itself: to the edge, and in a file for whoever stands beside it."""

import asyncio
from pathlib import Path
from uuid import UUID

from msgspec.structs import replace

from farmiq import __version__
from farmiq.contracts.decoding import encode
from farmiq.contracts.status import DeviceStatus, LossRange
from farmiq.contracts.timestamps import to_us
from farmiq.device.node_forwarder.batches import Messages
from farmiq.device.node_forwarder.pace import Pace
from farmiq.device.node_forwarder.publisher import Publisher
from farmiq.device.node_forwarder.recorder import Recorder
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.kit.ids import new_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import BrokerAway, MqttClient
from farmiq.spool import FRAME_BYTES, Loss, SpoolError

FILE_SECONDS = 1.0
PUBLISH_EVERY = 10  # files for one message
RANGES_MAX = 64
FORMER_MAX = 64

STATUS_FILE = "status.json"

log = get_logger(__name__)


class Figures:
    """What the node knows of itself at one moment."""

    def __init__(self, life: Lifetime, settings: ForwarderSettings, recorder: Recorder, publisher: Publisher) -> None:
        self._clock = life.clock
        self._settings = settings
        self._recorder = recorder
        self._publisher = publisher
        self._started_at = life.clock.monotonic()
        self._pace = Pace()

    def take(self) -> DeviceStatus:
        spool, usage, condition = self._recorder.spool, self._recorder.spool.usage(), self._recorder.condition
        now = self._clock.monotonic()
        self._pace.look(now, spool.safe_seq, usage.unacked_samples)
        losses = spool.losses.all()
        offset = spool.streams.current.offset  # figures of the stream are its own numbers
        is_draining = self._publisher.is_replaying
        return DeviceStatus(
            state="online",
            software_version=__version__,
            stream_id=spool.stream_id,
            former_streams=spool.former_streams[-FORMER_MAX:],
            boot_id=self._recorder.boot_id,
            epoch=UUID(spool.acked.epoch) if spool.acked.epoch else None,
            uptime_seconds=round(now - self._started_at, 1),
            spool_bytes=usage.spool_bytes,
            spool_bytes_max=usage.cap_bytes,
            segments_open=usage.open_segments,
            segments_closed=usage.closed_segments,
            oldest_sample_age_seconds=self._age_seconds(usage.oldest_unacked_wall_us),
            written_bytes_per_sample=_ratio(usage.written_bytes, usage.written_samples),
            last_captured_seq=max(0, spool.safe_seq - offset),
            last_published_seq=max(0, self._publisher.published_seq - offset),
            last_acked_seq=max(0, spool.acked.seq - offset),
            unacked_count=usage.unacked_samples,
            not_captured_count=condition.not_captured,
            faulty_sensors=condition.faulty_sensors,
            dropped_count=sum(loss.count for loss in losses),
            dropped_ranges=[_range_of(loss) for loss in losses[-RANGES_MAX:]],
            replay_state="draining" if is_draining else "idle",
            replay_msgs_per_sec=self._settings.replay_msgs_per_sec,
            replay_bytes_per_sec=self._settings.replay_bytes_per_sec,
            replay_window_samples=self._publisher.window.samples,
            drain_seconds_estimated=_rounded(self._pace.drain_seconds()) if is_draining else None,
            runway_seconds=_rounded(self._pace.runway_seconds(usage.room_bytes, FRAME_BYTES)),
            put_off_code=self._publisher.put_off_code,
        )

    def _age_seconds(self, wall_us: int | None) -> float | None:
        """Never below zero: a clock that was set back makes a sample look as if it came from the future."""
        return None if wall_us is None else max(0.0, round((to_us(self._clock.now()) - wall_us) / 1_000_000, 1))


async def report(
    life: Lifetime,
    settings: ForwarderSettings,
    mqtt: MqttClient,
    recorder: Recorder,
    figures: Figures,
    messages: Messages,
) -> None:
    """Until the service is asked to stop. On a path of its own: it never waits behind the replay."""
    path = Path(settings.node_forwarder_spool_dir) / STATUS_FILE
    turn, connections = 0, 0
    told: set[UUID] = set()
    is_running = True
    while is_running:
        try:
            status = await recorder.run(figures.take)
            await asyncio.to_thread(_replace, path, encode(status))
        except (
            OSError,
            SpoolError,
        ) as error:  # a full or failing disk takes no status, and must not take the forwarder
            log.warning("status_not_written", reason=str(error))
            status = DeviceStatus(state="online", software_version=__version__)
        _tell_losses(recorder, told)
        node_time = recorder.node_time
        is_request = mqtt.is_connected and node_time.is_request_due
        if is_request or turn % PUBLISH_EVERY == 0 or mqtt.connections != connections:
            connections, event_id = mqtt.connections, new_id()
            if is_request:
                node_time.requested(event_id)
            await _publish(mqtt, messages, replace(status, time_request=is_request), event_id)
        turn += 1
        is_running = await life.pause(FILE_SECONDS)
    await _publish(mqtt, messages, DeviceStatus(state="offline", software_version=__version__), new_id())


def _range_of(loss: Loss) -> LossRange:
    return LossRange(first_seq=loss.first_seq - loss.offset, last_seq=loss.last_seq - loss.offset)


def _ratio(total: int, count: int) -> float | None:
    return round(total / count, 1) if count else None


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _tell_losses(recorder: Recorder, told: set[UUID]) -> None:
    for loss in recorder.spool.losses.outstanding():
        if loss.loss_id not in told:
            told.add(loss.loss_id)
            log.error("samples_lost", first_seq=loss.first_seq, last_seq=loss.last_seq, cause=loss.cause)


async def _publish(mqtt: MqttClient, messages: Messages, status: DeviceStatus, event_id: UUID) -> None:
    try:
        async with asyncio.timeout(FILE_SECONDS):
            await mqtt.publish(messages.status_topic, messages.status(status, event_id), retain=True)
    except (BrokerAway, TimeoutError):
        return  # the will says "offline", and the next connection says it again


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all for whoever reads it. Not synced: after a power cut there is a new one within a second."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
