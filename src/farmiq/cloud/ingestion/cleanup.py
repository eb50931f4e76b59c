"""Months of the dedupe table: made ahead, and forgotten when no edge will send their events again.

And what was discarded from the dead letters, and which edge began a weigh session, both kept for a while.
"""

from datetime import datetime, timedelta
from functools import partial
from typing import Final

from farmiq.cloud.ingestion import store
from farmiq.cloud.ingestion.settings import (
    DedupeRetentionSettings,
    DiscardRetentionSettings,
    SessionOwnerRetentionSettings,
)
from farmiq.kit.jobs import Report, Work
from farmiq.kit.month_partitions import Partition, drop, make_months, month_after, partitions
from farmiq.kit.postgres import Connection
from farmiq.kit.sweep import sweep

TABLE: Final = "ingest_dedupe"
DERIVED_IDS: Final = "ingest_dedupe_default"
MONTHS_READY: Final = 3


async def prepare_months(work: Work) -> Report:
    """This month and the next two. Without them everything would gather in the default partition."""
    today = work.clock.now().date()
    return await make_months(work, TABLE, [month_after(today, months) for months in range(MONTHS_READY)])


async def forget_events(settings: DedupeRetentionSettings, work: Work) -> Report:
    """Drop months whose newest event came before the retention; delete the others' old rows, which have ids of no month.

    An event that comes once more after that is published once more, and its consumers recognise it.
    """
    cutoff = work.cutoff(timedelta(days=settings.ingest_dedupe_retention_days))
    past = [month for month in await partitions(work.connection, TABLE) if month.upper_at <= cutoff]
    dropped = [month.name for month in past if await _forget(work, month, cutoff)]
    rows = await sweep(work, DERIVED_IDS, "first_seen_at", cutoff)
    return {"dropped": len(dropped), "kept": len(past) - len(dropped), "rows": rows, "dropped_partitions": dropped}


async def forget_discarded(settings: DiscardRetentionSettings, work: Work) -> Report:
    """The messages, and not the fact that somebody discarded them. Also that letters were settled: by then none of them is left
    in a queue."""
    cutoff = work.cutoff(timedelta(days=settings.discarded_letters_retention_days))
    return {
        "rows": await sweep(work, "discarded_letters", "discarded_at", cutoff),
        "settled": await sweep(work, "dead_letters", "settled_at", cutoff),
    }


async def forget_session_owners(
    settings: SessionOwnerRetentionSettings, dedupe: DedupeRetentionSettings, work: Work
) -> Report:
    """Which edge began a weigh session, when no edge tells of it any more. A session that is stored is judged by its device also
    after that; one that is not, and comes once more, belongs to the owner of its device or to whoever sends it."""
    days = max(settings.session_owner_retention_days, dedupe.ingest_dedupe_retention_days)
    cutoff = work.cutoff(timedelta(days=days))
    return {"rows": await sweep(work, "session_owners", "first_seen_at", cutoff)}


async def _forget(work: Work, month: Partition, cutoff: datetime) -> bool:
    is_quiet = partial(_has_nothing_since, month, cutoff)
    if not await is_quiet(work.connection):
        return False
    return work.is_dry_run or await drop(work.connection, TABLE, month, still_true=is_quiet)


async def _has_nothing_since(month: Partition, cutoff: datetime, connection: Connection) -> bool:
    """An event may come long after its id was made, so a month is as old as its newest arrival."""
    newest = await store.newest(connection, month.name)
    return newest is None or newest < cutoff
