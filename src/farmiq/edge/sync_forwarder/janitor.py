"""Old acknowledged rows leave the table, a page at a time."""

import asyncio
from typing import Final

from farmiq.edge.sync_forwarder.pictures import store as pictures
from farmiq.edge.sync_forwarder.settings import OutboxRetentionSettings
from farmiq.kit.jobs import Report, Work
from farmiq.outbox.retire import START, count_retirable, retire

PAGE_PAUSE_SECONDS: Final = 0.1


async def retire_acknowledged(settings: OutboxRetentionSettings, work: Work) -> Report:
    """Rows that are pending or on their way are never touched; dead letters stay until a person has decided."""
    retention_days = settings.outbox_retention_days
    if work.is_dry_run:
        return {"rows": await count_retirable(work.connection, retention_days=retention_days)}
    removed, after = 0, START
    while True:
        page = await retire(work.connection, after, retention_days=retention_days)
        removed += page.removed
        if page.last_id is None:
            return {"rows": removed}
        after = page.last_id
        await asyncio.sleep(PAGE_PAUSE_SECONDS)


async def retire_sent_pictures(settings: OutboxRetentionSettings, work: Work) -> Report:
    """The rows, not the pictures: those are edge-media-store's. What was given up stays until a person has decided."""
    retention_days = settings.outbox_retention_days
    if work.is_dry_run:
        return {"rows": await pictures.count_retirable(work.connection, retention_days=retention_days)}
    removed = 0
    while count := await pictures.retire(work.connection, retention_days=retention_days):
        removed += count
        await asyncio.sleep(PAGE_PAUSE_SECONDS)
    return {"rows": removed}
