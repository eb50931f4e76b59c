"""What the station says of itself: to the edge, and in a file for whoever stands beside it."""

import asyncio
from datetime import datetime
from pathlib import Path

from farmiq import __version__
from farmiq.contracts.decoding import encode
from farmiq.contracts.status import DeviceStatus, FailedSession
from farmiq.contracts.timestamps import to_us
from farmiq.device.weighvision_agent import declaring, event_store, picture_store
from farmiq.device.weighvision_agent.database import STATUS, QueueFailed
from farmiq.device.weighvision_agent.faults import Faults
from farmiq.device.weighvision_agent.messages import Messages
from farmiq.device.weighvision_agent.publisher import Publisher
from farmiq.device.weighvision_agent.queue import Queue
from farmiq.device.weighvision_agent.recorder import Recorder
from farmiq.device.weighvision_agent.settings import StationSettings
from farmiq.device.weighvision_agent.uploader import Uploader
from farmiq.device.weighvision_agent.weighing import Weigher
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import BrokerAway, MqttClient

FILE_SECONDS = 2.0
PUBLISH_EVERY = 5  # files for one message
FAILED_NAMED_MAX = 16

DISK = "disk"
"""Beside camera and scale: it takes nothing at this moment."""

log = get_logger(__name__)


def goodbye() -> DeviceStatus:
    return DeviceStatus(state="offline", software_version=__version__)


class Figures:
    """What the station knows of itself at one moment."""

    def __init__(
        self,
        life: Lifetime,
        settings: StationSettings,
        faults: Faults,
        weigher: Weigher,
        uploader: Uploader,
        publisher: Publisher,
    ) -> None:
        self._clock = life.clock
        self._settings = settings
        self._faults = faults
        self._weigher = weigher
        self._uploader = uploader
        self._publisher = publisher
        self._started_at = life.clock.monotonic()

    def take(self, queue: Queue) -> DeviceStatus:
        connection = queue.connection
        waiting, pictures = event_store.count_waiting(connection), picture_store.tally(connection)
        runway = queue.runway()
        failed, named = event_store.failed_sessions(connection, FAILED_NAMED_MAX)
        return DeviceStatus(
            state="online",
            software_version=__version__,
            epoch=queue.epoch,
            uptime_seconds=round(self._clock.monotonic() - self._started_at, 1),
            spool_bytes=picture_store.held_bytes(connection),
            spool_bytes_max=self._settings.weighvision_pictures_bytes_max,
            oldest_sample_age_seconds=self._age_seconds(event_store.oldest_waiting_us(connection), self._clock.now()),
            unacked_count=waiting,
            dropped_count=declaring.dropped(connection) + queue.untaken_count,
            replay_state="draining" if waiting else "idle",
            runway_seconds=None if runway is None else round(runway.total_seconds(), 1),
            replay_msgs_per_sec=self._settings.replay_msgs_per_sec,
            faulty_sensors=sorted([*self._faults.parts, *([DISK] if queue.untaken_count else [])]),
            pictures_waiting_count=pictures.get("waiting", 0) + pictures.get("presigned", 0),
            rejected_count=event_store.count_rejected(connection),
            failed_sessions_count=failed,
            failed_sessions=tuple(FailedSession(session_id, reason[:300]) for session_id, reason in named),
            unweighed_count=self._weigher.unweighed,
            upload_trouble=self._uploader.trouble[:300] or None,
            put_off_code=self._publisher.put_off_code,
        )

    @staticmethod
    def _age_seconds(ts_us: int | None, now: datetime) -> float | None:
        """Never below zero: a clock that was set back makes an event look as if it came from the future."""
        return None if ts_us is None else max(0.0, round((to_us(now) - ts_us) / 1_000_000, 1))


async def report(
    life: Lifetime, folder: Path, mqtt: MqttClient, recorder: Recorder, figures: Figures, messages: Messages
) -> None:
    """Until the service is asked to stop. On a path of its own: it never waits behind the replay."""
    turn, connections = 0, 0
    is_running = True
    while is_running:
        status = await taken(recorder, figures)
        try:
            await asyncio.to_thread(_replace, folder / STATUS, encode(status))
        except OSError as error:  # a full disk takes no status, and must not take the station
            log.warning("status_not_written", reason=str(error))
        if turn % PUBLISH_EVERY == 0 or mqtt.connections != connections:
            connections = mqtt.connections
            await _publish(mqtt, messages, status, life.clock.now())
        turn += 1
        is_running = await life.pause(FILE_SECONDS)
    await _publish(mqtt, messages, goodbye(), life.clock.now())


async def taken(recorder: Recorder, figures: Figures) -> DeviceStatus:
    """A queue that can't even be read has no figures; that the station is there is worth saying all the same."""
    try:
        return await recorder.run(figures.take)
    except QueueFailed as error:
        log.warning("status_not_taken", reason=str(error))
        return DeviceStatus(state="online", software_version=__version__, faulty_sensors=[DISK])


async def _publish(mqtt: MqttClient, messages: Messages, status: DeviceStatus, at: datetime) -> None:
    try:
        async with asyncio.timeout(FILE_SECONDS):
            await mqtt.publish(messages.status_topic, messages.status(status, at), retain=True)
    except (BrokerAway, TimeoutError):
        return  # the will says "offline", and the next connection says it again


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all for whoever reads it. Not synced: after a power cut there is a new one within seconds."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
