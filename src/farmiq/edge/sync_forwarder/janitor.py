"""Old acknowledged rows leave the table, a page at a time."""

import asyncio
from typing import Final

from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.pictures import store as pictures
from farmiq.edge.sync_forwarder.settings import OutboxRetentionSettings
from farmiq.kit.jobs import Report, Work
from farmiq.outbox.retire import START, Retention, count_retirable, retire

PAGE_PAUSE_SECONDS: Final = 0.1


async def retire_acknowledged(settings: OutboxRetentionSettings, work: Work) -> Report:
    """Rows that are pending or on their way are never touched; dead letters stay until a person has decided."""
    if work.is_dry_run:
        retention = await _retention(settings, work)
        return {
            "rows": await count_retirable(work.connection, retention),
            "kept_tenants": len(retention.kept_tenants),
        }
    removed, after = 0, START
    while True:
        async with work.connection.transaction():
            retention = await _retention(settings, work)
            page = await retire(work.connection, after, retention)
        removed += page.removed
        if page.last_id is None:
            return {"rows": removed, "kept_tenants": len(retention.kept_tenants)}
        after = page.last_id
        await asyncio.sleep(PAGE_PAUSE_SECONDS)


async def _retention(settings: OutboxRetentionSettings, work: Work) -> Retention:
    """As long as nobody knows whether the cloud still has them, a tenant's rows may be all there is."""
    kept = await store.unsure_tenants(work.connection)
    return Retention(work.days(settings.outbox_retention_days), work.days(settings.outbox_event_retention_days), kept)


async def retire_sent_pictures(settings: OutboxRetentionSettings, work: Work) -> Report:
    """Those of pictures that are not here any more. What was given up stays until a person has decided."""
    retention_days = work.days(settings.outbox_retention_days)
    if work.is_dry_run:
        return {"rows": await pictures.count_retirable(work.connection, retention_days=retention_days)}
    removed = 0
    while count := await pictures.retire(work.connection, retention_days=retention_days):
        removed += count
        await asyncio.sleep(PAGE_PAUSE_SECONDS)
    return {"rows": removed}
