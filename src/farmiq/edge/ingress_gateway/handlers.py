"""What happens to a micro-batch of messages: one transaction, and one bad message costs only itself."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import TelemetryLoss
from farmiq.edge.ingress_gateway import devices, store
from farmiq.edge.ingress_gateway.acknowledgements import Verdict
from farmiq.edge.ingress_gateway.screening import Refusal, Screened, refuse, screen
from farmiq.edge.telemetry_timeseries import intake
from farmiq.edge.telemetry_timeseries.liveness import Heard
from farmiq.kit.errors import Rejected
from farmiq.kit.micro_batch import together_or_alone
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Connection, Pool
from farmiq.timeseries.samples import SingleReading, StreamBatch

Judged = Screened | Refusal


class Outcome(msgspec.Struct, frozen=True):
    """What was committed, and what the devices may be told."""

    epoch: UUID
    marks: list[intake.Mark]
    verdicts: list[Verdict]
    samples_stored: int
    duplicates: int
    refusals: list[Refusal]


async def ingest(pool: Pool, messages: Sequence[Message], received_at: datetime) -> list[Outcome]:
    """Store messages, together if possible. When this returns, every one of them is committed or kept as rejected."""

    async def commit(items: Sequence[tuple[Message, Judged]]) -> Outcome:
        return await _commit(pool, items, received_at)

    async def set_aside(item: tuple[Message, Judged], error: Exception) -> Outcome:
        message, judged = item
        if isinstance(judged, Refusal):
            raise error  # the table of rejected messages refuses: that is our fault, not the message's
        code = error.code if isinstance(error, Rejected) else "not_storable"
        return await _commit(pool, [(message, refuse(judged, code, str(error)[:300]))], received_at)

    judged = [(message, screen(message.topic, message.payload)) for message in messages]
    return await together_or_alone(judged, commit, set_aside)


async def _commit(pool: Pool, judged: Sequence[tuple[Message, Judged]], received_at: datetime) -> Outcome:
    async with pool.acquire() as connection, connection.transaction():
        answers = await _check_provisioning(connection, [answer for _, answer in judged])
        screened = [answer for answer in answers if isinstance(answer, Screened)]
        fresh, repeated = _split(screened, await store.first_seen(connection, screened, received_at))
        stored, refused = await _route(connection, fresh, received_at)
        await store.forget(connection, list(refused))
        kept = [
            (message, refusal)
            for (message, _), answer in zip(judged, answers, strict=True)
            if (refusal := answer if isinstance(answer, Refusal) else refused.get(answer)) is not None
        ]
        await store.keep_rejected(connection, kept, received_at)
        taken = [message for message in screened if message not in refused]
        marks = await intake.marks(connection, sorted({stream for m in taken if (stream := _stream_of(m)) is not None}))
        epoch = await store.epoch(connection)
    refusals = [refusal for _, refusal in kept]
    accepted = [message for message in fresh if message not in refused]
    return Outcome(epoch, marks, _verdicts(accepted, repeated, refusals), stored, len(repeated), refusals)


async def _check_provisioning(connection: Connection, judged: Sequence[Judged]) -> list[Judged]:
    known = await devices.provisioned(
        connection, sorted({answer.origin.device_id for answer in judged if isinstance(answer, Screened)})
    )
    return [
        refuse(answer, "not_provisioned", "this device is not registered for this tenant, farm and barn")
        if isinstance(answer, Screened) and answer.origin not in known
        else answer
        for answer in judged
    ]


def _split(messages: Sequence[Screened], new_keys: set[tuple[str, UUID]]) -> tuple[list[Screened], list[Screened]]:
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


async def _route(
    connection: Connection, fresh: Sequence[Screened], received_at: datetime
) -> tuple[int, dict[Screened, Refusal]]:
    """Hand each message to the owner of what it holds: how many samples are new, and what the owner would not take."""
    refusals: dict[Screened, str | None] = {}
    batches = [(message, message.body) for message in fresh if isinstance(message.body, StreamBatch)]
    admissions = await intake.store_batches(connection, [(body, m.trace_id) for m, body in batches], received_at)
    for (message, _), admission in zip(batches, admissions, strict=True):
        refusals[message] = admission.refusal
    readings = [(message.body, message.trace_id) for message in fresh if isinstance(message.body, SingleReading)]
    readings_stored = await intake.store_readings(connection, readings, received_at)
    for message in fresh:
        if isinstance(message.body, TelemetryLoss):
            loss = await intake.record_loss(
                connection, message.origin, message.event_id, message.trace_id, message.body
            )
            refusals[message] = loss.refusal
    statuses = [
        Heard(message.origin, status=message.body) for message in fresh if isinstance(message.body, DeviceStatus)
    ]
    await intake.hear(connection, statuses, received_at)
    stored = sum(end - first for admission in admissions for first, end in admission.stored) + readings_stored
    return stored, {
        message: refuse(message, code, "the owner would not take it") for message, code in refusals.items() if code
    }


def _stream_of(message: Screened) -> UUID | None:
    match message.body:
        case StreamBatch(batch=batch):
            return batch.stream_id
        case TelemetryLoss(stream_id=stream_id):
            return stream_id
    return None


def _verdicts(accepted: Sequence[Screened], repeated: Sequence[Screened], refusals: Sequence[Refusal]) -> list[Verdict]:
    """Batches are acknowledged by their stream's mark and status by nothing; everything else by its event id."""
    verdicts = [
        Verdict(message.origin.device_id, message.event_id, "stored") for message in accepted if _is_told_by_id(message)
    ]
    verdicts += [
        Verdict(message.origin.device_id, message.event_id, "duplicate")
        for message in repeated
        if _is_told_by_id(message)
    ]
    verdicts += [
        Verdict(refusal.device_id, refusal.event_id, "rejected", refusal.code)
        for refusal in refusals
        if refusal.device_id is not None and refusal.event_id is not None
    ]
    return verdicts


def _is_told_by_id(message: Screened) -> bool:
    return isinstance(message.body, SingleReading | TelemetryLoss)
