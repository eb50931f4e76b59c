"""What happens to a micro-batch from the bus: one transaction, and one bad message costs only itself."""

from collections.abc import Sequence, Set
from datetime import datetime

import msgspec

from farmiq.cloud.telemetry_service import received
from farmiq.cloud.telemetry_service.measurements import DeclaredLoss, EdgeAggregate, Measured, measured
from farmiq.contracts import bus, event_types
from farmiq.contracts.decoding import MalformedMessage
from farmiq.kit.amqp import Delivery
from farmiq.kit.errors import Rejected
from farmiq.kit.micro_batch import together_or_alone
from farmiq.kit.postgres import Connection, Pool
from farmiq.timeseries.admission import Admission, admit_batches, admit_readings, declare_lost
from farmiq.timeseries.samples import SingleReading, StreamBatch

Item = tuple[Delivery, Measured]


class Poison(msgspec.Struct, frozen=True):
    """A message that will never be stored, and why."""

    delivery: Delivery
    code: str
    detail: str


class Outcome(msgspec.Struct, frozen=True):
    """Committed: these may be acknowledged, and those belong with the dead letters."""

    done: list[Delivery]
    poison: list[Poison]
    samples_stored: int = 0


class Written(msgspec.Struct, frozen=True):
    """What became of each batch and each loss, in their order, and how many readings were new."""

    batches: list[Admission]
    readings: int
    losses: list[Admission]


async def store(pool: Pool, deliveries: Sequence[Delivery], received_at: datetime) -> list[Outcome]:
    """Store messages, together if possible. Every delivery is in exactly one of the outcomes."""

    async def commit(items: Sequence[Item]) -> Outcome:
        return await _commit(pool, items, received_at)

    async def set_aside(item: Item, error: Exception) -> Outcome:
        code = error.code if isinstance(error, Rejected) else "not_storable"
        return Outcome([], [Poison(item[0], code, str(error)[:300])])

    passed = [delivery for delivery in deliveries if has_nothing_to_store(delivery)]
    items, malformed = _read([delivery for delivery in deliveries if not has_nothing_to_store(delivery)])
    outcomes = await together_or_alone(items, commit, set_aside) if items else []
    return [*outcomes, Outcome(passed, malformed)] if passed or malformed else outcomes


def has_nothing_to_store(delivery: Delivery) -> bool:
    """A sample whose pack comes here too, an aggregate that was made here, or word of a batch that an edge sent."""
    is_about_sync = delivery.routing_key in (event_types.SYNC_BATCH_SENT, event_types.SYNC_BATCH_ACKED)
    is_sample_of_pack = bus.EXPANDED_HEADER in delivery.headers
    is_own = delivery.routing_key == event_types.TELEMETRY_AGGREGATED and bus.EDGE_HEADER not in delivery.headers
    return is_about_sync or is_sample_of_pack or is_own


def _read(deliveries: Sequence[Delivery]) -> tuple[list[Item], list[Poison]]:
    items: list[Item] = []
    malformed: list[Poison] = []
    for delivery in deliveries:
        try:
            items.append((delivery, measured(delivery.body)))
        except MalformedMessage as reason:
            malformed.append(Poison(delivery, reason.code, reason.detail))
    return items, malformed


async def _commit(pool: Pool, items: Sequence[Item], received_at: datetime) -> Outcome:
    sampled = {_device(item) for _, item in items if isinstance(item, StreamBatch | SingleReading)}
    alone = {_device(item) for _, item in items if isinstance(item, EdgeAggregate)}
    while True:
        async with pool.acquire() as connection, connection.transaction():
            aggregating = await received.lock_devices(connection, sampled, alone)
            if not aggregating:
                written = await _write(connection, items, alone, received_at)
                break
        alone |= aggregating
    return _outcome(items, written)


async def _write(
    connection: Connection, items: Sequence[Item], alone: Set[received.Device], received_at: datetime
) -> Written:
    measurements = [item for _, item in items]
    batches = [item for item in measurements if isinstance(item, StreamBatch)]
    readings = [item for item in measurements if isinstance(item, SingleReading)]
    losses = [item for item in measurements if isinstance(item, DeclaredLoss)]
    aggregates = [(item.bucket, item.tally) for item in measurements if isinstance(item, EdgeAggregate)]
    taken_out = await received.take_out(
        connection,
        [item for item in measurements if isinstance(item, StreamBatch | SingleReading) and _device(item) in alone],
    )
    admissions = await admit_batches(connection, batches, received_at)
    fresh = await admit_readings(connection, readings, received_at)
    await received.show(connection, [*taken_out, *aggregates])
    declared = [await _declare(connection, item) for item in losses]
    return Written(admissions, len(fresh), declared)


def _outcome(items: Sequence[Item], written: Written) -> Outcome:
    answered = [delivery for kind in (StreamBatch, DeclaredLoss) for delivery, item in items if isinstance(item, kind)]
    answers = zip(answered, [*written.batches, *written.losses], strict=True)
    poison = [
        Poison(delivery, admission.refusal, "the stream belongs to another device")
        for delivery, admission in answers
        if admission.refusal is not None
    ]
    refused = {id(one.delivery) for one in poison}
    stored = sum(end - first for admission in written.batches for first, end in admission.stored) + written.readings
    return Outcome([delivery for delivery, _ in items if id(delivery) not in refused], poison, stored)


def _device(item: Measured) -> received.Device:
    return item.origin.tenant_id, item.origin.device_id


async def _declare(connection: Connection, item: DeclaredLoss) -> Admission:
    return await declare_lost(connection, item.origin, item.event_id, item.loss)
