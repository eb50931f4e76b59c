"""What the node says of itself: to the edge, and in a file for whoever stands beside it."""

import asyncio
from pathlib import Path
from uuid import UUID

from farmiq import __version__
from farmiq.contracts.decoding import encode
from farmiq.contracts.status import DeviceStatus
from farmiq.device.node_forwarder.batches import Messages
from farmiq.device.node_forwarder.lanes import Lanes
from farmiq.device.node_forwarder.recorder import Recorder
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import BrokerAway, MqttClient

FILE_SECONDS = 1.0
PUBLISH_EVERY = 10  # files for one message

STATUS_FILE = "status.json"

log = get_logger(__name__)


async def report(
    life: Lifetime, settings: ForwarderSettings, mqtt: MqttClient, recorder: Recorder, lanes: Lanes, messages: Messages
) -> None:
    """Until the service is asked to stop. On a path of its own: it never waits behind the replay."""
    path = Path(settings.node_forwarder_spool_dir) / STATUS_FILE
    started_at = life.clock.monotonic()
    turn, connections = 0, 0
    told: set[UUID] = set()
    is_running = True
    while is_running:
        status = await recorder.run(lambda: figures(settings, recorder, lanes, life.clock.monotonic() - started_at))
        await asyncio.to_thread(_replace, path, encode(status))
        _tell_losses(recorder, told)
        if turn % PUBLISH_EVERY == 0 or mqtt.connections != connections:
            connections = mqtt.connections
            await _publish(mqtt, messages, status)
        turn += 1
        is_running = await life.pause(FILE_SECONDS)
    await _publish(mqtt, messages, DeviceStatus(state="offline", software_version=__version__))


def figures(settings: ForwarderSettings, recorder: Recorder, lanes: Lanes, uptime_seconds: float) -> DeviceStatus:
    spool = recorder.spool
    usage = spool.usage()
    return DeviceStatus(
        state="online",
        software_version=__version__,
        stream_id=spool.stream_id,
        uptime_seconds=round(uptime_seconds, 1),
        spool_bytes=usage.spool_bytes,
        spool_bytes_max=usage.cap_bytes,
        segments_open=usage.open_segments,
        segments_closed=usage.closed_segments,
        last_captured_seq=spool.safe_seq,
        last_published_seq=lanes.published_seq,
        last_acked_seq=spool.acked.seq,
        not_captured_count=recorder.not_captured,
        dropped_count=sum(loss.count for loss in spool.losses.all()),
        replay_state="draining" if lanes.is_replaying else "idle",
        replay_msgs_per_sec=settings.replay_msgs_per_sec,
        replay_bytes_per_sec=settings.replay_bytes_per_sec,
    )


def _tell_losses(recorder: Recorder, told: set[UUID]) -> None:
    for loss in recorder.spool.losses.outstanding():
        if loss.loss_id not in told:
            told.add(loss.loss_id)
            log.error("samples_lost", first_seq=loss.first_seq, last_seq=loss.last_seq, cause=loss.cause)


async def _publish(mqtt: MqttClient, messages: Messages, status: DeviceStatus) -> None:
    try:
        async with asyncio.timeout(FILE_SECONDS):
            await mqtt.publish(messages.status_topic, messages.status(status), retain=True)
    except (BrokerAway, TimeoutError):
        return  # the will says "offline", and the next connection says it again


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all for whoever reads it. Not synced: after a power cut there is a new one within a second."""
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:  # a full disk takes no status, and must not take the forwarder with it
        log.warning("status_not_written", reason=str(error))
