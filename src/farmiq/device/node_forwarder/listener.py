"""Hears the edge's acknowledgements, and lets go of what they cover."""

from farmiq.contracts.ack import EVENT_ID_REUSED, NOT_NOW, DeviceAck, StreamHeld
from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.device.node_forwarder.acks import AckReader, Meaning
from farmiq.device.node_forwarder.lanes import Lanes
from farmiq.device.node_forwarder.publisher import Publisher
from farmiq.device.node_forwarder.recorder import Recorder
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import Message, MqttClient
from farmiq.spool import HeldBoot, SpoolError

ACK_BYTES_MAX = 256 * 1024

log = get_logger(__name__)


async def listen(mqtt: MqttClient, recorder: Recorder, lanes: Lanes, publisher: Publisher) -> None:
    """Until cancelled. An acknowledgement that is missed costs a repetition, never a sample."""
    reader = _reader(recorder, publisher)
    while messages := await mqtt.next_batch(100, 0.0):
        for message in messages:
            try:
                await _hear(message, reader, recorder, lanes, publisher)
            except SpoolError as error:
                log.error("ack_not_taken", reason=str(error))  # noqa: TRY400 - the edge says it again
                # What was believed may not be on disk: a new epoch must count as new again.
                reader = _reader(recorder, publisher)
        mqtt.acknowledge(messages)


def _reader(recorder: Recorder, publisher: Publisher) -> AckReader:
    return AckReader(recorder.spool.acked.epoch, publisher.monotonic)


async def _hear(message: Message, reader: AckReader, recorder: Recorder, lanes: Lanes, publisher: Publisher) -> None:
    try:
        ack = decode(DeviceAck, message.payload, max_bytes=ACK_BYTES_MAX)
    except MalformedMessage as reason:
        log.error("ack_refused", reason=str(reason))  # noqa: TRY400 - an answer to a message, not a crash
        return
    recorder.node_time.take(ack)
    if ack.stream_id is not None:
        written, known = recorder.spool.stream_id, recorder.spool.acked.epoch
        is_believable = await _is_of_this_spool(_marks(ack), recorder, lanes, publisher)
        # What began a new stream must not tell of a new database as well: the next word of that one does.
        if is_believable and (recorder.spool.stream_id == written or known in ("", str(ack.epoch))):
            await _take_marks(ack, reader, recorder, lanes, publisher)
    for held in ack.contradicted or ():
        await _is_of_this_spool(held, recorder, lanes, publisher, is_refuted=True)
    if isinstance(ack.retry_after_seconds, float):
        publisher.hold_back(ack.retry_after_seconds)
    for one in ack.put_off or ():
        publisher.put_off(one.code)
    # Last, and only from the database that is believed by now: what another one was told about losses is gone with it, and
    # the node would keep quiet about a hole for ever.
    if reader.is_of_the_living(ack):
        await _settle_losses(ack, recorder, publisher)


def _marks(ack: DeviceAck) -> StreamHeld:
    assert ack.stream_id is not None  # noqa: S101 - the caller has looked
    return StreamHeld(stream_id=ack.stream_id, acked_seq=ack.acked_seq, received=ack.received, boots=ack.boots or [])


async def _is_of_this_spool(
    held: StreamHeld, recorder: Recorder, lanes: Lanes, publisher: Publisher, *, is_refuted: bool = False
) -> bool:
    """Whether these marks may be believed. Where the edge has other samples under numbers of the newest stream, this disk was set
    back, or a copy of it goes on elsewhere: what the edge can't have begins a new stream, and the marks are of the old one."""
    spool = recorder.spool
    if held.stream_id != spool.stream_id:
        return True

    def begin() -> tuple[int, bool] | None:
        if held.stream_id != spool.stream_id:
            return None
        covered = [(1, held.acked_seq), *held.received] if held.acked_seq else held.received
        boots = [HeldBoot(one.boot_id, one.first_seq, one.last_seq, one.last_t) for one in held.boots]
        first_seq = spool.first_unlike(boots, covered, is_refuted=is_refuted)
        if first_seq is None:
            return None
        is_begun = spool.synced_seq >= spool.streams.current.first_seq
        if is_begun:
            spool.begin_stream(first_seq)
        return first_seq, is_begun

    match await recorder.run(begin):
        case None:
            publisher.compared()
            return True
        case first_seq, True:
            log.warning("stream_begun", reason="the edge has other samples under these numbers: this disk was set back",
                        was=str(held.stream_id), now=str(spool.stream_id), first_seq=first_seq)  # fmt: skip
            lanes.went_back(spool.acked.seq, spool.received)
            publisher.went_back()
            publisher.compared()
            return True
    # A stream that has nothing in it yet can't be set back.
    log.error("ack_refused", reason="it names what was never written", acked_seq=held.acked_seq)
    return False


async def _take_marks(
    ack: DeviceAck, reader: AckReader, recorder: Recorder, lanes: Lanes, publisher: Publisher
) -> None:
    spool = recorder.spool
    stream_ids = [spool.stream_id, *spool.former_streams]
    believed_seq = spool.mark_of(ack.stream_id) if ack.stream_id in stream_ids else 0
    match reader.read(ack, stream_ids, believed_seq):
        case Meaning.PROGRESS:
            await _progress(ack, recorder, lanes, publisher)
        case Meaning.WENT_BACK:
            await _go_back(ack, recorder, lanes, publisher)
        case meaning:
            log.debug("ack_ignored", meaning=meaning.value)


async def _progress(ack: DeviceAck, recorder: Recorder, lanes: Lanes, publisher: Publisher) -> None:
    spool, before = recorder.spool, recorder.spool.acked.seq
    await recorder.run(lambda: spool.acknowledge(ack.acked_seq, ack.received, ack.stream_id))
    acked_seq = spool.acked.seq
    lanes.acknowledged(acked_seq, spool.received)
    publisher.acknowledged(acked_seq, spool.received, is_progress=acked_seq > before)
    if acked_seq > before:
        await recorder.run(spool.trim)


async def _go_back(ack: DeviceAck, recorder: Recorder, lanes: Lanes, publisher: Publisher) -> None:
    spool, was = recorder.spool, recorder.spool.acked
    epoch = str(ack.epoch)
    await recorder.run(lambda: spool.go_back(ack.acked_seq, epoch, ack.received, ack.stream_id))
    if was.epoch == epoch:
        log.warning("edge_went_back", epoch=epoch, acked_before=was.seq, acked_now=spool.acked.seq)
    elif was.epoch:
        log.warning("edge_epoch_changed", was=was.epoch, now=epoch, acked_before=was.seq, acked_now=spool.acked.seq)
    lanes.went_back(spool.acked.seq, spool.received)
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
