"""What happens to a micro-batch of messages: one transaction, and one bad message costs only itself."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from farmiq.contracts.ack import EVENT_ID_REUSED, NOT_REGISTERED, NOT_STORABLE, STREAM_CONTRADICTED, AckResult
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import Lane, TelemetryLoss
from farmiq.edge import disk
from farmiq.edge.ingress_gateway import put_off, store
from farmiq.edge.ingress_gateway.acknowledgements import TimeRequest, Verdict
from farmiq.edge.ingress_gateway.quotas import Reason, Sender, Throttled, sender_of
from farmiq.edge.ingress_gateway.routing import route
from farmiq.edge.ingress_gateway.screening import Refusal, Screened, fingerprint, refuse, screen
from farmiq.edge.telemetry_timeseries import intake
from farmiq.edge.telemetry_timeseries.liveness import Heard, newest_of
from farmiq.edge.telemetry_timeseries.sync_mode import SyncPlan
from farmiq.kit.errors import Rejected
from farmiq.kit.ids import new_trace_id
from farmiq.kit.logging import get_logger
from farmiq.kit.micro_batch import together_or_alone
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Connection, Pool
from farmiq.timeseries.admission import Locked
from farmiq.timeseries.delay import last_sample
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin, StreamKey, StreamLimit

Judged = Screened | Refusal

log = get_logger(__name__)

STREAMS_RETRY_AFTER_SECONDS = 300.0


class Outcome(msgspec.Struct, frozen=True):
    """What was committed, and what the devices may be told."""

    epoch: UUID
    marks: list[intake.Mark]
    verdicts: list[Verdict]
    samples_stored: int
    duplicates: int
    refusals: list[Refusal]
    traces_made: list[Screened]
    newest: list[tuple[Lane, datetime]]
    """The last sample of each batch that was new, for how long it took."""
    put_off: list[Throttled] = []
    """Not taken now, and nothing is kept of it: the devices send it again."""
    contradicted: list[intake.Mark] = []
    """Streams of which other samples are stored than were sent now."""
    commits: int = 0
    """The number of the transaction that stored all this."""
    reported: list[str] = []
    """Devices that sent their status: they are told which epoch speaks."""
    time_requests: list[TimeRequest] = []


async def ingest(
    pool: Pool,
    messages: Sequence[Message],
    received_at: datetime,
    sync: SyncPlan = intake.RAW,
    streams_max: StreamLimit | None = None,
    is_shut: Callable[[Sender], bool] | None = None,
) -> list[Outcome]:
    """Store messages, together if possible. When this returns, every one of them is committed, kept as rejected, or put off.

    Of senders that are shut only what needs no room is taken.
    """

    async def commit(items: Sequence[tuple[Message, Judged]]) -> Outcome:
        return await _commit(pool, items, received_at, sync, streams_max)

    async def set_aside(item: tuple[Message, Judged], error: Exception) -> Outcome:
        message, judged = item
        if isinstance(judged, Refusal):
            raise error  # the table of rejected messages refuses: that is our fault, not the message's
        code = error.code if isinstance(error, Rejected) else NOT_STORABLE
        return await _commit(pool, [(message, refuse(judged, code, str(error)[:300]))], received_at, sync, streams_max)

    judged = [
        (message, screen(message.topic, message.payload, is_retained=message.is_retained)) for message in messages
    ]
    passed: Counter[Sender] = Counter()
    if is_shut is not None:
        judged, passed = await _without_room(pool, judged, is_shut)
    outcomes = await together_or_alone(judged, commit, set_aside)
    outcomes[-1].put_off.extend(_put_off(passed, "disk", disk.RETRY_AFTER_SECONDS))
    return outcomes


async def _without_room(
    pool: Pool, judged: Sequence[tuple[Message, Judged]], is_shut: Callable[[Sender], bool]
) -> tuple[list[tuple[Message, Judged]], Counter[Sender]]:
    """What may go in while the disk is below its floor, and how many messages of whom may not.

    A repetition is answered, so that its device can delete it. Losses and states take next to nothing, and say what is going on.
    """
    shut = [item for item in judged if is_shut(sender_of(item[0].topic))]
    screened = [answer for _, answer in shut if isinstance(answer, Screened)]
    async with pool.acquire() as connection:
        kept = await store.seen_for(connection, [message for message in screened if message.is_told_by_id])
        covered = await store.covered(connection, screened)
    passed: Counter[Sender] = Counter()
    left_out: set[int] = set()
    for item in shut:
        message, answer = item
        if not isinstance(answer, Screened) or not (_needs_no_room(answer, kept) or answer in covered):
            passed[sender_of(message.topic)] += 1
            left_out.add(id(item))
    return [item for item in judged if id(item) not in left_out], passed


def _needs_no_room(message: Screened, kept: Mapping[store.Key, tuple[str | None, str | None]]) -> bool:
    if isinstance(message.body, DeviceStatus | TelemetryLoss):
        return True
    key = (message.origin.tenant_id, message.event_id)
    return message.is_told_by_id and key in kept and _is_repetition(message, *kept[key])


def _put_off(senders: Counter[Sender], reason: Reason, retry_after_seconds: float) -> list[Throttled]:
    return [Throttled(sender, count, retry_after_seconds, reason=reason) for sender, count in senders.items()]


async def _commit(
    pool: Pool,
    judged: Sequence[tuple[Message, Judged]],
    received_at: datetime,
    sync: SyncPlan,
    streams_max: StreamLimit | None,
) -> Outcome:
    async with pool.acquire() as connection, connection.transaction():
        epoch, commits, known = await store.door(connection, _devices_of(judged))
        answers = [_check_provisioning(answer, known) for _, answer in judged]
        screened = [answer for answer in answers if isinstance(answer, Screened)]
        fresh, repeated = _split(screened, await store.first_seen(connection, screened, received_at))
        reused = await _refuse_reused(connection, repeated)
        taken = [message for message in screened if message not in reused]
        statuses = _statuses(fresh)
        replaced = await intake.replaced_streams(connection, statuses)
        wanted = _streams_of(taken) | {key: origin for key, (origin, _) in replaced.items()}
        streams = await intake.lock_streams(connection, wanted, streams_max)
        beyond = {message for message in taken if (key := _stream_key(message)) is not None and key not in streams}
        taken = [message for message in taken if message not in beyond]
        fresh, repeated = ([one for one in some if one not in beyond] for some in (fresh, repeated))
        stored, refused = await route(connection, taken, set(fresh), streams, received_at, sync)
        declared = await intake.declare_replaced(connection, replaced, new_trace_id(), received_at, streams)
        await intake.hear(connection, _signs(screened, set(fresh), refused), received_at)
        await store.forget(connection, [*beyond, *(message for message in fresh if message in refused)])
        refused |= reused
        kept = [
            (message, refusal)
            for (message, _), answer in zip(judged, answers, strict=True)
            if (refusal := answer if isinstance(answer, Refusal) else refused.get(answer)) is not None
        ]
        await store.keep_rejected(connection, kept, received_at)
        await put_off.tell(connection, [refusal for _, refusal in kept])
        told = _streams_of(message for message in taken if message not in refused)
        contradicted = _streams_of(one for one, refusal in refused.items() if refusal.code == STREAM_CONTRADICTED)
        committed = await intake.known_streams(connection, _reported_streams(statuses, streams))
        marks = await intake.marks(connection, {key: streams[key] for key in told} | committed)
        other = await intake.marks(connection, {key: streams[key] for key in contradicted if key in streams})
    if declared:
        log.error("samples_of_replaced_spools_lost", samples=declared)
    refusals = [refusal for _, refusal in kept]
    accepted = [message for message in fresh if message not in refused]
    repeated = [message for message in repeated if message not in refused]
    return Outcome(
        epoch,
        marks,
        _verdicts(accepted, repeated, refusals),
        stored,
        len(repeated),
        refusals,
        [message for message in accepted if message.is_trace_made],
        [last_sample(message.body) for message in accepted if isinstance(message.body, StreamBatch | SingleReading)],
        [
            *_put_off(Counter(_sender(message) for message in beyond), "streams", STREAMS_RETRY_AFTER_SECONDS),
            *put_off.limits(refusals),
        ],
        other,
        commits,
        sorted({origin.device_id for origin, _ in statuses}),
        _time_requests(accepted, received_at),
    )


def _statuses(fresh: Sequence[Screened]) -> list[tuple[Origin, DeviceStatus]]:
    """What devices say of themselves now. What the broker kept for new subscribers may be long over."""
    return [
        (message.origin, message.body)
        for message in fresh
        if isinstance(message.body, DeviceStatus) and message.body.state == "online" and not message.is_retained
    ]


def _reported_streams(statuses: Sequence[tuple[Origin, DeviceStatus]], locked: Locked) -> dict[StreamKey, Origin]:
    """Streams that devices say they hold: they are told how far the edge has them, also when they send nothing of them."""
    return {
        (origin.tenant_id, stream_id): origin
        for origin, status in statuses
        for stream_id in (status.stream_id, *status.former_streams)
        if stream_id is not None and (origin.tenant_id, stream_id) not in locked
    }


def _time_requests(messages: Sequence[Screened], received_at: datetime) -> list[TimeRequest]:
    """Not of a status that the broker kept: nobody waits for that response any more."""
    return [
        TimeRequest(message.origin.device_id, message.event_id, received_at)
        for message in messages
        if isinstance(message.body, DeviceStatus) and message.body.time_request and not message.is_retained
    ]


def _devices_of(judged: Sequence[tuple[Message, Judged]]) -> list[str]:
    return sorted({answer.origin.device_id for _, answer in judged if isinstance(answer, Screened)})


def _check_provisioning(answer: Judged, known: Mapping[Origin, str]) -> Judged:
    if isinstance(answer, Refusal):
        return answer
    station = known.get(answer.origin)
    if station is None:
        refusal = refuse(answer, NOT_REGISTERED, "this device is not registered for this tenant, farm and barn")
    elif answer.station_id in (None, station):
        return answer
    else:
        refusal = refuse(answer, "topic_mismatch", f"station {answer.station_id} in the topic is not this device's")
    # Whoever sent it may write under the station's name. The device in the body may be somebody else, who must not be told that
    # an event of his is refused.
    return refusal if answer.station_id is None else msgspec.structs.replace(refusal, device_id=answer.station_id)


def _split(messages: Sequence[Screened], new_keys: set[store.Key]) -> tuple[list[Screened], list[Screened]]:
    """Those to be stored now, and those that were here before. A message twice in one batch is one of each."""
    fresh: list[Screened] = []
    repeated: list[Screened] = []
    unused = set(new_keys)
    for message in messages:
        key = (message.origin.tenant_id, message.event_id)
        if key in unused:
            unused.discard(key)
            fresh.append(message)
        else:
            repeated.append(message)
    return fresh, repeated


async def _refuse_reused(connection: Connection, repeated: Sequence[Screened]) -> dict[Screened, Refusal]:
    """Those whose id was first seen on something else. Told to be duplicates, they would be gone without a trace."""
    asked = [message for message in repeated if message.is_told_by_id]
    first = await store.seen_for(connection, asked)
    return {
        message: refuse(message, EVENT_ID_REUSED, "another message of this tenant had this event id before")
        for message in asked
        if not _is_repetition(message, *first.get((message.origin.tenant_id, message.event_id), (None, None)))
    }


def _is_repetition(message: Screened, device_id: str | None, content_hash: str | None) -> bool:
    """What is not known of the first one (it was kept by an earlier release, or forgotten just now) can't speak against it."""
    return device_id in (None, message.origin.device_id) and content_hash in (None, fingerprint(message))


def _signs(messages: Sequence[Screened], fresh: set[Screened], refused: dict[Screened, Refusal]) -> list[Heard]:
    """What these messages say about their devices' being there, in the order in which they came.

    A message that the broker kept for new subscribers, or that was seen before, was not sent just now. A goodbye counts in
    either case: what the broker keeps is the last word, and a device's last will has one id however often it dies.
    """
    signs = []
    for message in messages:
        status = message.body if isinstance(message.body, DeviceStatus) else None
        newest_us = {} if message in refused else newest_of(message.body)
        sign = Heard(message.origin, message.ts, newest_us, status)
        if sign.is_goodbye or (message in fresh and not message.is_retained):
            signs.append(sign)
    return signs


def _streams_of(messages: Iterable[Screened]) -> dict[StreamKey, Origin]:
    """The streams that these messages are about, each with who speaks of it."""
    return {key: message.origin for message in messages if (key := _stream_key(message)) is not None}


def _stream_key(message: Screened) -> StreamKey | None:
    match message.body:
        case StreamBatch(batch=batch):
            return message.origin.tenant_id, batch.stream_id
        case TelemetryLoss(stream_id=stream_id):
            return message.origin.tenant_id, stream_id
    return None


def _sender(message: Screened) -> Sender:
    return message.origin.tenant_id, message.origin.device_id


def _verdicts(accepted: Sequence[Screened], repeated: Sequence[Screened], refusals: Sequence[Refusal]) -> list[Verdict]:
    rejected = [
        Verdict(refusal.device_id, refusal.event_id, "put_off" if refusal.is_put_off else "rejected", refusal.code)
        for refusal in refusals
        if refusal.device_id is not None and refusal.event_id is not None
    ]
    return _told(accepted, "stored") + _told(repeated, "duplicate") + rejected


def _told(messages: Sequence[Screened], result: AckResult) -> list[Verdict]:
    return [
        Verdict(message.origin.device_id, message.event_id, result) for message in messages if message.is_told_by_id
    ]
