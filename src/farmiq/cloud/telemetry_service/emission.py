"""From a changed aggregate to `telemetry.aggregated` on the bus: published and confirmed first, taken off the list after that."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec

from farmiq.cloud import bus_users, drain
from farmiq.cloud.naming import naming
from farmiq.cloud.telemetry_service import unsent
from farmiq.contracts import bus, event_types
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import bus_envelope
from farmiq.kit.amqp import Outgoing, Publisher
from farmiq.kit.errors import Transient
from farmiq.kit.ids import Naming
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Pool
from farmiq.timeseries.announcement import aggregate_of

PAGE_BUCKETS: Final = 500
HOLD_SECONDS: Final = 60.0
"""How long the buckets of a page are one replica's. Longer than a publisher waits for its confirms."""

# Frozen: the ids of everything that 0.1.0 told are derived from it.
AGGREGATES: Final = UUID("b0a7d6a2-6c1b-5e0f-8f6e-0c8a5d3f9e21")

log = get_logger(__name__)


async def tell_due(pool: Pool, publisher: Publisher, now: datetime) -> int:
    """Tell the bus of up to a page of aggregates that are due. Answers how many were told.

    Killed after the confirms, the same buckets are told again: under the same ids, if they are still as they were.
    Raises `Drained`.
    """
    async with pool.acquire() as gate, gate.transaction():
        await drain.enter(gate)
        async with pool.acquire() as connection:
            taken = await unsent.take(connection, now, PAGE_BUCKETS, HOLD_SECONDS)
            rows = [dict(row) for row in await unsent.buckets(connection, list(taken))] if taken else []
            tenants = await bus_users.tenants(connection) if rows else frozenset()
            names = await naming(connection)
        failures = await _publish(publisher, rows, tenants, names)
    async with pool.acquire() as connection:
        await unsent.told(connection, {key: changes for key, changes in taken.items() if key not in failures})
        await unsent.give_back(connection, list(failures), now)
    for failure in failures.values():
        raise failure
    if len(rows) < len(taken):
        log.error(
            "aggregates_lost_before_told", count=len(taken) - len(rows)
        )  # nothing deletes aggregates in the cloud
    return len(taken)


async def _publish(
    publisher: Publisher, rows: Sequence[Mapping[str, Any]], tenants: frozenset[str], names: Naming
) -> dict[unsent.Key, Transient]:
    """Why a bucket has to be published again. Those of `tenants` are copied for the users who read along."""
    answers = await publisher.publish_many([message_of(row, names) for row in rows])
    failures = {_key(row): answer for row, answer in zip(rows, answers, strict=True) if answer is not None}
    copied = [row for row in rows if row["tenant_id"] in tenants and _key(row) not in failures]
    copies = [bus_users.copy_for(row["tenant_id"], message_of(row, names)) for row in copied]
    answers = await bus_users.publish_copies(publisher, copies)
    return failures | {_key(row): answer for row, answer in zip(copied, answers, strict=True) if answer is not None}


def message_of(row: Mapping[str, Any], names: Naming) -> Outgoing:
    """The same bucket with the same content is the same message, byte for byte; every correction is a new one."""
    revision = revision_of(row)
    parts = (*_key(row), revision)
    event_id = names.name(
        row["bucket_start_at"], lambda: uuid5(AGGREGATES, msgspec.json.encode(parts).decode()), "aggregate", *parts
    )
    envelope = bus_envelope(
        aggregate_of(row, revision),
        event_id=event_id,
        event_type=event_types.TELEMETRY_AGGREGATED,
        tenant_id=row["tenant_id"],
        farm_id=row["farm_id"],
        barn_id=row["barn_id"],
        device_id=row["device_id"],
        # The start, because cut to the window it names the bucket, as the end would not.
        occurred_at=row["bucket_start_at"],
        trace_id=event_id.hex,
    )
    return Outgoing(
        bus.TELEMETRY_EXCHANGE,
        event_types.TELEMETRY_AGGREGATED,
        encode(envelope),
        str(event_id),
        {"x-trace-id": event_id.hex},
    )


def revision_of(row: Mapping[str, Any]) -> int:
    """Larger after every change of a bucket: samples are only ever added, and where they have come to as many as an edge
    had counted, they take the place of the edge's word."""
    return 2 * int(row["count"]) + (0 if row["is_from_edge"] else 1)


def _key(row: Mapping[str, Any]) -> unsent.Key:
    return (
        row["tenant_id"], row["device_id"], row["metric_type"], row["window"], row["bucket_start_at"], row["sensor"],
        row["unit"],
    )  # fmt: skip
