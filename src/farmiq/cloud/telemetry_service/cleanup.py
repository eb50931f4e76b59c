"""What the jobs of this service do. Samples and their aggregates stay: the cloud keeps what it was sent."""

from datetime import timedelta
from typing import Final

from farmiq.cloud.telemetry_service.settings import EventRetentionSettings
from farmiq.kit.jobs import Report, Work
from farmiq.kit.month_partitions import drop, partitions
from farmiq.kit.sweep import sweep
from farmiq.timeseries.partitions import prepare_months

EVENTS: Final = "device_events"
UNDATED_EVENTS: Final = "device_events_default"

# The parts of a session before the session: cut in between, there is still one to say what its parts were.
WEIGHINGS: Final = (
    ("recorded_weights", "received_at"),
    ("captured_images", "received_at"),
    ("inference_results", "created_at"),
    ("weight_sessions", "created_at"),
)


async def prepare_event_months(work: Work) -> Report:
    return await prepare_months(work, EVENTS)


async def drop_expired_events(settings: EventRetentionSettings, work: Work) -> Report:
    """Drop months past their retention, and events without a believable time that came in before it."""
    cutoff = work.cutoff(timedelta(days=settings.device_event_retention_days))
    past = [month for month in await partitions(work.connection, EVENTS) if month.upper_at <= cutoff]
    dropped = [month.name for month in past if work.is_dry_run or await drop(work.connection, EVENTS, month)]
    rows = await sweep(work, UNDATED_EVENTS, "received_at", cutoff)
    return {
        "dropped": len(dropped),
        "postponed": len(past) - len(dropped),
        "undated_rows": rows,
        "dropped_partitions": dropped,
    }


async def forget_sync_batches(settings: EventRetentionSettings, work: Work) -> Report:
    cutoff = work.cutoff(timedelta(days=settings.sync_batch_retention_days))
    return {"rows": await sweep(work, "sync_batches", "received_at", cutoff)}


async def delete_expired_weighings(settings: EventRetentionSettings, work: Work) -> Report:
    """What has come in before the retention. With 0 days nothing is deleted."""
    if not settings.weighing_retention_days:
        return {table: 0 for table, _ in WEIGHINGS}
    cutoff = work.cutoff(timedelta(days=settings.weighing_retention_days))
    return {table: await sweep(work, table, key, cutoff) for table, key in WEIGHINGS}
