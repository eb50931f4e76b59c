"""What the jobs of this service do, in order. Each step is a transaction of its own."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Final

import msgspec

from farmiq.contracts import event_types
from farmiq.contracts.timestamps import from_us
from farmiq.edge.alerts import close_alert, raise_alert
from farmiq.edge.sync_forwarder.intake import is_cloud_unsure
from farmiq.edge.telemetry_timeseries import expiry
from farmiq.edge.telemetry_timeseries.retention import Judgement, Span, Unsent, expired, judge
from farmiq.edge.telemetry_timeseries.settings import RetentionSettings
from farmiq.kit.jobs import Report, Work
from farmiq.kit.logging import get_logger
from farmiq.kit.month_partitions import Partition, drop, partitions
from farmiq.kit.postgres import Connection
from farmiq.kit.sweep import STEP_PAUSE_SECONDS, STEP_ROWS, sweep
from farmiq.outbox.unsent import UnsentEvent, unsent

RAW: Final = "telemetry_raw"
UNDATED: Final = "telemetry_raw_default"
UNSENT_EXAMINED_MAX: Final = 5000
"""With more than this on its way, the sync is behind, and nothing is dropped until it has caught up."""
MEASURED: Final = (
    event_types.TELEMETRY_BATCH_INGESTED,
    event_types.TELEMETRY_INGESTED,
    event_types.TELEMETRY_AGGREGATED,
    event_types.TELEMETRY_LOSS,
)
HELD_ALERT: Final = "telemetry-retention:held"

log = get_logger(__name__)


async def drop_expired_raw(settings: RetentionSettings, work: Work) -> Report:
    """Drop months past their retention, and samples without a believable time that came in before it."""
    cutoff = work.cutoff(timedelta(days=settings.telemetry_raw_retention_days))
    there = await partitions(work.connection, RAW)
    is_any_undated = await work.connection.fetchval(
        f"SELECT EXISTS (SELECT FROM {UNDATED} WHERE ingested_at < $1)",  # noqa: S608 - a constant
        cutoff,
    )
    if not expired(there, cutoff) and not is_any_undated:
        await _tell_held(work, [], is_undated_held=False)
        return {"dropped": 0, "held": 0, "forced": 0, "postponed": 0, "undated_rows": 0}
    unsent = await _unsent(work.connection)
    if await is_cloud_unsure(work.connection):
        # It may want them again: then they are made into events anew from what is here.
        unsent = Unsent(unsent.spans, is_complete=False)
    judgement = judge(there, cutoff, unsent)
    may_force = not settings.retention_require_sync
    is_undated_held = is_any_undated and unsent.came_before(cutoff) and not may_force
    undated_rows = 0 if is_undated_held else await sweep(work, UNDATED, "ingested_at", cutoff)
    if undated_rows and unsent.came_before(cutoff) and not work.is_dry_run:
        log.error("unsent_samples_deleted", rows=undated_rows, setting="RETENTION_REQUIRE_SYNC=false")
    report = await _drop(work, judgement, may_force=may_force)
    await _tell_held(work, [] if may_force else judgement.held, is_undated_held=is_undated_held)
    return report | {"undated_rows": undated_rows}


async def delete_expired_aggregates(settings: RetentionSettings, work: Work) -> Report:
    """Delete aggregates past their retention, device by device.

    The cloud makes its own from the samples. Where it is told of ours, the event carries the whole aggregate.
    """
    cutoff = work.cutoff(timedelta(days=settings.telemetry_agg_retention_days))
    removed = 0
    for device in await expiry.devices(work.connection):
        while True:
            step = await expiry.delete_aggregates(work, device, cutoff, STEP_ROWS)
            removed += step
            if step < STEP_ROWS or work.is_dry_run:
                break
            await asyncio.sleep(STEP_PAUSE_SECONDS)
    return {"rows": removed}


async def _drop(work: Work, judgement: Judgement, *, may_force: bool) -> Report:
    forced = judgement.held if may_force else []
    dropped: list[str] = []
    for partition in sorted([*judgement.synced, *forced], key=lambda partition: partition.lower_at):
        if work.is_dry_run or await drop(work.connection, RAW, partition):
            dropped.append(partition.name)
            if not work.is_dry_run:
                await _tell_dropped(work.connection, partition, is_forced=partition in forced)
    return {
        "dropped": len(dropped),
        "held": len(judgement.held) - len(forced),
        "forced": sum(partition.name in dropped for partition in forced),
        "postponed": len(judgement.synced) + len(forced) - len(dropped),
        "dropped_partitions": dropped,
        "held_partitions": [partition.name for partition in judgement.held if partition not in forced],
    }


async def _tell_dropped(connection: Connection, partition: Partition, *, is_forced: bool) -> None:
    if not is_forced:
        log.info("partition_dropped", partition=partition.name)
        return
    log.error("unsent_partition_dropped", partition=partition.name, setting="RETENTION_REQUIRE_SYNC=false")
    evidence = {"partition": partition.name, "from": partition.lower_at, "to": partition.upper_at}
    subject = f"{partition.name} was dropped before the cloud had all of it"
    await raise_alert(connection, "retention_forced", subject, f"telemetry-retention:{partition.name}", evidence)


async def _tell_held(work: Work, held: Sequence[Partition], *, is_undated_held: bool) -> None:
    names = [partition.name for partition in held] + ([UNDATED] if is_undated_held else [])
    if work.is_dry_run:
        return
    if not names:
        await close_alert(work.connection, HELD_ALERT)
        return
    log.warning("partitions_held", partitions=names, reason="not everything in them is in the cloud")
    subject = f"{len(names)} partitions are past their retention and not all in the cloud"
    await raise_alert(work.connection, "retention_held", subject, HELD_ALERT, {"partitions": names})


async def _unsent(connection: Connection) -> Unsent:
    """Read to the end or to the limit. One event more than the limit shows that there is more."""
    async with aclosing(unsent(connection, MEASURED, field="t", limit=UNSENT_EXAMINED_MAX + 1)) as events:
        spans = [_span(event) async for event in events]
    return Unsent(spans, is_complete=len(spans) <= UNSENT_EXAMINED_MAX)


def _span(event: UnsentEvent) -> Span:
    """A pack is filed under its first sample and may end in another month, or go back to one: its own times decide."""
    at = event.occurred_at or event.created_at
    if event.event_type != event_types.TELEMETRY_BATCH_INGESTED or event.field is None:
        return Span(at, at, event.created_at)
    times_us = msgspec.json.decode(event.field, type=list[int])
    return Span(from_us(min(times_us)), from_us(max(times_us)), event.created_at)
