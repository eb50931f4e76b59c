"""Hears the edge's acknowledgements, and lets go of what they cover."""

from farmiq.contracts.ack import EVENT_ID_REUSED, NOT_NOW, DeviceAck
from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.device.node_forwarder.acks import AckReader, Meaning, is_absurd, mark_to_believe
from farmiq.device.node_forwarder.lanes import Lanes
from farmiq.device.node_forwarder.publisher import Publisher
from farmiq.device.node_forwarder.recorder import Recorder
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import Message, MqttClient
from farmiq.spool import SpoolError

ACK_BYTES_MAX = 256 * 1024

log = get_logger(__name__)


async def listen(mqtt: MqttClient, recorder: Recorder, lanes: Lanes, publisher: Publisher) -> None:
    """Until cancelled. An acknowledgement that is missed costs a repetition, never a sample."""
    reader = _reader(recorder)
    while messages := await mqtt.next_batch(100, 0.0):
        for message in messages:
            try:
                await _hear(message, reader, recorder, lanes, publisher)
            except SpoolError as error:
                log.error("ack_not_taken", reason=str(error))  # noqa: TRY400 - the edge says it again
                # What was believed may not be on disk: a new epoch must count as new again.
                reader = _reader(recorder)
        mqtt.acknowledge(messages)


def _reader(recorder: Recorder) -> AckReader:
    return AckReader(recorder.spool.stream_id, recorder.spool.acked.epoch)


async def _hear(message: Message, reader: AckReader, recorder: Recorder, lanes: Lanes, publisher: Publisher) -> None:
    try:
        ack = decode(DeviceAck, message.payload, max_bytes=ACK_BYTES_MAX)
    except MalformedMessage as reason:
        log.error("ack_refused", reason=str(reason))  # noqa: TRY400 - an answer to a message, not a crash
        return
    recorder.node_time.take(ack)
    if ack.stream_id == recorder.spool.stream_id and is_absurd(ack, recorder.spool.synced_seq):
        # Either a fault at the edge, or this disk was set back and numbers samples anew that the edge takes for old ones.
        log.error("ack_refused", reason="it names what was never written", acked_seq=ack.acked_seq)
    else:
        await _take_marks(ack, reader, recorder, lanes, publisher)
    if isinstance(ack.retry_after_seconds, float):
        publisher.hold_back(ack.retry_after_seconds)
    for one in ack.put_off or ():
        publisher.put_off(one.code)
    # Last, and only from the database that is believed by now: what another one was told about losses is gone with it, and
    # the node would keep quiet about a hole for ever.
    if reader.is_of_the_living(ack):
        await _settle_losses(ack, recorder, publisher)


async def _take_marks(
    ack: DeviceAck, reader: AckReader, recorder: Recorder, lanes: Lanes, publisher: Publisher
) -> None:
    match reader.read(ack):
        case Meaning.PROGRESS:
            await _progress(ack, recorder, lanes, publisher)
        case Meaning.NEW_EPOCH:
            await _go_back(ack, recorder, lanes, publisher)
        case meaning:
            log.debug("ack_ignored", meaning=meaning.value)


async def _progress(ack: DeviceAck, recorder: Recorder, lanes: Lanes, publisher: Publisher) -> None:
    before = recorder.spool.acked.seq
    await recorder.run(lambda: recorder.spool.acknowledge(ack.acked_seq, ack.received))
    acked_seq = recorder.spool.acked.seq
    lanes.acknowledged(acked_seq, ack.received)
    publisher.acknowledged(acked_seq, ack.received, is_progress=acked_seq > before)
    if acked_seq > before:
        await recorder.run(recorder.spool.trim)


async def _go_back(ack: DeviceAck, recorder: Recorder, lanes: Lanes, publisher: Publisher) -> None:
    was = recorder.spool.acked
    believed = mark_to_believe(ack, was)
    await recorder.run(lambda: recorder.spool.go_back(believed, str(ack.epoch), ack.received))
    if was.epoch:
        log.warning("edge_epoch_changed", was=was.epoch, now=str(ack.epoch), acked_before=was.seq, acked_now=believed)
    lanes.went_back(recorder.spool.acked.seq, ack.received)
    publisher.went_back()


async def _settle_losses(ack: DeviceAck, recorder: Recorder, publisher: Publisher) -> None:
    """Those that the edge has. A refusal acknowledges none, whatever its reason: nobody else knows of the hole."""
    refused = {event.event_id: event.code for event in ack.events if event.result == "rejected"}
    for event_id, code in refused.items():
        log.error("loss_refused", event_id=str(event_id), code=code)
        if code in NOT_NOW:
            publisher.put_off(str(code))
    refused |= {one.event_id: one.code for one in ack.put_off or ()}
    outstanding = {loss.loss_id for loss in recorder.spool.losses.outstanding()}
    publisher.losses_refused(outstanding & refused.keys())
    if stored := [event.event_id for event in ack.events if event.result != "rejected"]:
        await recorder.run(lambda: recorder.spool.losses.acknowledge(stored))
    if occupied := [event_id for event_id, code in refused.items() if code == EVENT_ID_REUSED]:
        await recorder.run(lambda: recorder.spool.losses.rename(occupied))
