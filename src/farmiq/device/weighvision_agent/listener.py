"""Hears the edge's acknowledgements, and lets go of what they name."""

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.device.weighvision_agent.acks import Epochs, Speaker
from farmiq.device.weighvision_agent.database import QueueFailed
from farmiq.device.weighvision_agent.publisher import Publisher
from farmiq.device.weighvision_agent.recorder import Recorder
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import Message, MqttClient

ACK_BYTES_MAX = 1024 * 1024

log = get_logger(__name__)


async def listen(mqtt: MqttClient, recorder: Recorder, publisher: Publisher) -> None:
    """Until cancelled. An acknowledgement that is missed costs a repetition, never an event."""
    epochs = Epochs(recorder.epoch, publisher.monotonic)
    while messages := await mqtt.next_batch(100, 0.0):
        for message in messages:
            try:
                await _hear(message, epochs, recorder, publisher)
            except QueueFailed as error:
                log.error("ack_not_taken", reason=str(error))  # noqa: TRY400 - the event is sent again, and the edge says it again
                # What was believed is not on disk: a new epoch must count as new again.
                epochs = Epochs(recorder.epoch, publisher.monotonic)
        mqtt.acknowledge(messages)


async def _hear(message: Message, epochs: Epochs, recorder: Recorder, publisher: Publisher) -> None:
    try:
        ack = decode(DeviceAck, message.payload, max_bytes=ACK_BYTES_MAX)
    except MalformedMessage as reason:
        log.error("ack_refused", reason=str(reason))  # noqa: TRY400 - an answer to a message, not a crash
        return
    speaker = epochs.hear(ack)
    if speaker is Speaker.DEAD:
        log.debug("ack_ignored", epoch=str(ack.epoch))
        return
    is_back = speaker in (Speaker.NEW, Speaker.WENT_BACK)
    settled = await recorder.settle(ack, is_back=is_back)
    if is_back:
        publisher.put_offs.end()
        publisher.start_over()
    publisher.settled(settled)
    for one in ack.put_off or ():
        publisher.put_off(one.code)  # also what was no event of the queue: the station's state
    if isinstance(ack.retry_after_seconds, float):
        publisher.hold_back(ack.retry_after_seconds)
