"""From a changed aggregate to the event that tells the cloud: in one transaction, so that each change is told once."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.contracts.timestamps import to_us
from farmiq.edge.own_events import append_own, naming
from farmiq.edge.telemetry_timeseries import store
from farmiq.edge.telemetry_timeseries.priorities import PRIORITY
from farmiq.edge.telemetry_timeseries.sync_mode import is_recent
from farmiq.kit.ids import Naming, new_trace_id
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Pool
from farmiq.timeseries.announcement import aggregate_of

PAGE_BUCKETS = 500

# Frozen: the ids of everything that 0.1.0 sent are derived from it.
AGGREGATES: Final = UUID("6f1d0c5e-2b6a-5c1e-9d55-3f6c7c0a41b7")

log = get_logger(__name__)


async def emit_due(pool: Pool, now: datetime) -> int:
    """Tell the cloud of up to a page of aggregates that are due. Answers how many were taken off the list.

    Killed before the commit, nothing has happened; after it, the list is shorter and the events are in the outbox.
    """
    async with pool.acquire() as connection, connection.transaction():
        keys = await store.take_due(connection, now, PAGE_BUCKETS)
        if not keys:
            return 0
        rows = await store.buckets(connection, keys)
        names = await naming(connection)
        await append_own(connection, [event_of(dict(row), now, names) for row in rows])
    if len(rows) < len(keys):
        # Only retention takes aggregates away, and it has been told to leave these.
        log.error("aggregates_lost_before_sent", count=len(keys) - len(rows))
    return len(keys)


def event_of(row: Mapping[str, Any], now: datetime, names: Naming) -> outbox.Event:
    """The same bucket with the same content is the same event; every correction is a new one."""
    return outbox.Event(
        id=_id_of(row, names),
        tenant_id=row["tenant_id"],
        farm_id=row["farm_id"],
        barn_id=row["barn_id"],
        device_id=row["device_id"],
        event_type=event_types.TELEMETRY_AGGREGATED,
        # The start, because cut to the window it names the bucket, as the end would not.
        occurred_at=row["bucket_start_at"],
        trace_id=new_trace_id(),
        payload=aggregate_of(row),
        priority=PRIORITY["live" if is_recent(row["bucket_start_at"], row["window"], now) else "replay"],
    )


def _id_of(row: Mapping[str, Any], names: Naming) -> UUID:
    content = [
        row["tenant_id"], row["device_id"], row["metric_type"], row["sensor"], row["unit"], row["window"],
        to_us(row["bucket_start_at"]), row["count"], row["sum_value"], row["min_value"], row["max_value"],
    ]  # fmt: skip
    return names.name(
        row["bucket_start_at"], lambda: uuid5(AGGREGATES, msgspec.json.encode(content).decode()), "aggregate", *content
    )
