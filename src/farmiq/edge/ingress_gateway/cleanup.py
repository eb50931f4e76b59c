"""What the gateway need not remember any longer."""

from datetime import datetime, timedelta
from typing import Final

from farmiq.edge.alerts import close_unseen
from farmiq.edge.ingress_gateway import put_off, refusals
from farmiq.edge.ingress_gateway.settings import CleanupSettings
from farmiq.kit.jobs import Report, Work
from farmiq.kit.postgres import Connection
from farmiq.kit.sweep import sweep

_OLDEST_KEPT: Final = "SELECT received_at FROM ingress_rejected ORDER BY received_at DESC, id OFFSET $1 LIMIT 1"


_EXCESS_OF_A_DEVICE: Final = """
    DELETE FROM ingress_rejected WHERE id IN (
      SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY tenant_id, device_id ORDER BY received_at DESC, id) AS place
          FROM ingress_rejected) AS ranked
       WHERE place > $1 LIMIT $2)
"""
_DELETED_AT_ONCE: Final = 5_000


async def forget_messages(settings: CleanupSettings, work: Work) -> Report:
    """First sights older than their TTL. What comes again after that is recognised by its stream, its row or its ledger."""
    before = work.cutoff(timedelta(hours=settings.ingress_dedupe_ttl_hours))
    return {"rows": await sweep(work, "ingress_dedupe", "first_seen_at", before)}


async def forget_rejected(settings: CleanupSettings, work: Work) -> Report:
    """Rejected messages that are too old, and the oldest of those that are too many, of one device or of all.
    What the broker refused is forgotten at the same age. An alert about a device that is put off ends when it asks no more."""
    by_age = work.cutoff(timedelta(hours=settings.ingress_rejected_ttl_hours))
    excess = await _forget_excess(work.connection, settings.ingress_rejected_rows_per_device_max)
    by_rows = await _too_many_before(work.connection, settings.ingress_rejected_rows_max)
    before = by_age if by_rows is None else max(by_age, by_rows)
    await refusals.forget(work.connection, by_age)
    await close_unseen(work.connection, put_off.KIND, work.clock.now() - put_off.OVER_AFTER)
    return {"rows": excess + await sweep(work, "ingress_rejected", "received_at", before)}


async def _forget_excess(connection: Connection, rows_max: int) -> int:
    """Of each device, and of those messages together that name none."""
    total = 0
    while True:
        tag = await connection.execute(_EXCESS_OF_A_DEVICE, rows_max, _DELETED_AT_ONCE)
        deleted = int(tag.rpartition(" ")[2])
        total += deleted
        if deleted < _DELETED_AT_ONCE:
            return total


async def _too_many_before(connection: Connection, rows_max: int) -> datetime | None:
    """Before when rows are in excess. Those of one micro-batch share their time and go together."""
    first_in_excess: datetime | None = await connection.fetchval(_OLDEST_KEPT, rows_max)
    return None if first_in_excess is None else first_in_excess + timedelta(microseconds=1)
