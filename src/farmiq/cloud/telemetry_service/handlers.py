"""What happens to a micro-batch from the bus: one transaction for everything in it."""

from collections.abc import Sequence, Set
from datetime import datetime
from typing import TypeVar

import msgspec

from farmiq.cloud.telemetry_service import received, unsent
from farmiq.cloud.telemetry_service.event_store import store_events, store_sync_reports
from farmiq.cloud.telemetry_service.measurements import DeclaredLoss, EdgeAggregate
from farmiq.cloud.telemetry_service.messages import OtherEvent, Said, SyncReport, Weighing
from farmiq.cloud.telemetry_service.weighing_store import store_weighings
from farmiq.contracts.telemetry import NO_LONGER_AT_EDGE, Lane
from farmiq.kit.bus_worker import Refusal
from farmiq.kit.postgres import Connection, Pool
from farmiq.timeseries.admission import Admission, admit_batches, admit_readings, declare_lost, declare_missing
from farmiq.timeseries.delay import last_sample
from farmiq.timeseries.rollup import Bucket
from farmiq.timeseries.samples import SingleReading, StreamBatch

T = TypeVar("T")


class Written(msgspec.Struct, frozen=True):
    """Committed. A refusal, or None, for each item, how many samples were new, and the last one of each batch that had some."""

    refusals: list[Refusal | None]
    samples_stored: int
    newest: list[tuple[Lane, datetime]]


async def store(pool: Pool, items: Sequence[Said], received_at: datetime, plan: unsent.Plan) -> Written:
    """One transaction. What does not go into the database is raised, and nothing of the batch is stored then."""
    sampled = {_device(item) for item in items if isinstance(item, StreamBatch | SingleReading)}
    alone = {_device(item) for item in items if isinstance(item, EdgeAggregate)}
    while True:
        async with pool.acquire() as connection, connection.transaction():
            aggregating = await received.lock_devices(connection, sampled, alone)
            if not aggregating:
                written = await _write_measurements(connection, items, alone, received_at, plan)
                await store_weighings(connection, _of(items, Weighing), received_at)
                await store_sync_reports(connection, _of(items, SyncReport), received_at)
                await store_events(connection, _of(items, OtherEvent), received_at)
                return written
        alone |= aggregating


async def _write_measurements(
    connection: Connection,
    items: Sequence[Said],
    alone: Set[received.Device],
    received_at: datetime,
    plan: unsent.Plan,
) -> Written:
    batches, readings = _of(items, StreamBatch), _of(items, SingleReading)
    samples: list[StreamBatch | SingleReading] = [*batches, *readings]
    aggregates = [(item.bucket, item.tally) for item in _of(items, EdgeAggregate)]
    taken_out = await received.take_out(connection, [item for item in samples if _device(item) in alone], aggregates)
    touched: set[Bucket] = set(taken_out.buckets)
    admissions = await admit_batches(connection, batches, received_at, touched=touched)
    fresh = await admit_readings(connection, readings, received_at, touched)
    await received.show(connection, taken_out)
    await unsent.mark(connection, touched, received_at, plan)
    declared = [await _declare(connection, item) for item in _of(items, DeclaredLoss)]
    stored = sum(end - first for admission in admissions for first, end in admission.stored) + len(fresh)
    new = [batch for batch, admission in zip(batches, admissions, strict=True) if admission.stored]
    newest = [*map(last_sample, new), *map(last_sample, fresh)]
    return Written(_refusals(items, admissions, declared), stored, newest)


def _refusals(
    items: Sequence[Said], admissions: Sequence[Admission], declared: Sequence[Admission]
) -> list[Refusal | None]:
    of_batches, of_losses = iter(admissions), iter(declared)
    answers: list[Admission | None] = [
        next(of_batches)
        if isinstance(item, StreamBatch)
        else next(of_losses)
        if isinstance(item, DeclaredLoss)
        else None
        for item in items
    ]
    return [
        Refusal(answer.refusal, "the stream belongs to another device") if answer and answer.refusal else None
        for answer in answers
    ]


def _of(items: Sequence[Said], kind: type[T]) -> list[T]:
    return [item for item in items if isinstance(item, kind)]


def _device(item: StreamBatch | SingleReading | EdgeAggregate) -> received.Device:
    return item.origin.tenant_id, item.origin.device_id


async def _declare(connection: Connection, item: DeclaredLoss) -> Admission:
    if item.loss.reason == NO_LONGER_AT_EDGE:
        return await declare_missing(connection, item.origin, item.event_id, item.loss)
    return await declare_lost(connection, item.origin, item.event_id, item.loss)
