"""What happens to a micro-batch from the bus: one transaction, and one bad message costs only itself."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from farmiq.cloud.telemetry_service.measurements import DeclaredLoss, Measured, measured
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


async def store(pool: Pool, deliveries: Sequence[Delivery], received_at: datetime) -> list[Outcome]:
    """Store messages, together if possible. Every delivery is in exactly one of the outcomes."""

    async def commit(items: Sequence[Item]) -> Outcome:
        return await _commit(pool, items, received_at)

    async def set_aside(item: Item, error: Exception) -> Outcome:
        code = error.code if isinstance(error, Rejected) else "not_storable"
        return Outcome([], [Poison(item[0], code, str(error)[:300])])

    items, malformed = _read(deliveries)
    outcomes = await together_or_alone(items, commit, set_aside) if items else []
    return [*outcomes, Outcome([], malformed)] if malformed else outcomes


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
    batches = [(delivery, item) for delivery, item in items if isinstance(item, StreamBatch)]
    readings = [item for _, item in items if isinstance(item, SingleReading)]
    losses = [(delivery, item) for delivery, item in items if isinstance(item, DeclaredLoss)]
    async with pool.acquire() as connection, connection.transaction():
        admissions = await admit_batches(connection, [batch for _, batch in batches], received_at)
        fresh = await admit_readings(connection, readings, received_at)
        declared = [await _declare(connection, item) for _, item in losses]
    answers = zip([delivery for delivery, _ in [*batches, *losses]], [*admissions, *declared], strict=True)
    poison = [
        Poison(delivery, admission.refusal, "the stream belongs to another device")
        for delivery, admission in answers
        if admission.refusal is not None
    ]
    refused = {id(one.delivery) for one in poison}
    stored = sum(end - first for admission in admissions for first, end in admission.stored) + len(fresh)
    return Outcome([delivery for delivery, _ in items if id(delivery) not in refused], poison, stored)


async def _declare(connection: Connection, item: DeclaredLoss) -> Admission:
    return await declare_lost(connection, item.origin, item.event_id, item.loss)
