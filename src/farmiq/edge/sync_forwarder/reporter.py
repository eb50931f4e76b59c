"""`sync.batch.sent` and `sync.batch.acked`: what the requests of a while added up to, told to the cloud as events.

One pair for a tenant in `SYNC_BATCH_EVENTS_SECONDS`, however many requests there were, and none while nothing else is sent: a
pair for each request would be most of the traffic of a farm whose events come one by one.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from farmiq.contracts import event_types
from farmiq.contracts.sync import SyncBatchAcked, SyncBatchSent
from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.store import Report
from farmiq.kit.ids import new_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.outbox import Event, append
from farmiq.outbox.wakeup import Wakeup

PRIORITY: Final = -100
"""Behind everything that was measured: a backlog is not held up by what is said about it."""

LOOK_SECONDS_MAX: Final = 10.0

log = get_logger(__name__)


async def report_batches(
    life: Lifetime, pool: Pool, wakeup: Wakeup, *, edge_cluster_id: str, every_seconds: float
) -> None:
    is_running = True
    while is_running:
        try:
            if await report_due(pool, edge_cluster_id, older_than_seconds=every_seconds, now=life.clock.now()):
                wakeup.poke()
        except RETRY as error:
            log.warning("batches_not_reported", reason=str(error) or type(error).__name__)
        is_running = await life.pause(min(LOOK_SECONDS_MAX, every_seconds))


async def report_due(pool: Pool, edge_cluster_id: str, *, older_than_seconds: float, now: datetime) -> int:
    """Append the pairs that are due. Returns how many tenants had one."""
    async with pool.acquire() as connection, connection.transaction():
        reports = await store.take_reports(connection, older_than_seconds=older_than_seconds)
        await append(
            connection, [event for report in reports for event in events_of(report, edge_cluster_id, now, new_id)]
        )
    return len(reports)


def events_of(report: Report, edge_cluster_id: str, now: datetime, make_id: Callable[[], UUID]) -> list[Event]:
    sent = SyncBatchSent(batch_id=report.batch_id, event_count=report.sent_count, edge_cluster_id=edge_cluster_id)
    acked = SyncBatchAcked(batch_id=report.batch_id, event_count=report.acked_count, status="acked")
    told = [(event_types.SYNC_BATCH_SENT, sent), (event_types.SYNC_BATCH_ACKED, acked)]
    if not report.acked_count:
        told.pop()
    return [
        Event(
            id=make_id(),
            tenant_id=report.tenant_id,
            event_type=event_type,
            occurred_at=now,
            payload=payload,
            priority=PRIORITY,
            trace_id=report.batch_id.replace("-", ""),
        )
        for event_type, payload in told
    ]
