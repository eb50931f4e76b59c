from collections.abc import Mapping
from functools import partial

from farmiq.cloud.telemetry_service.cleanup import (
    delete_expired_weighings,
    drop_expired_events,
    forget_sync_batches,
    prepare_event_months,
)
from farmiq.cloud.telemetry_service.settings import EventRetentionSettings
from farmiq.kit.jobs import Job
from farmiq.kit.settings import load
from farmiq.timeseries.partitions import prepare_months

HOUR_SECONDS = 3600.0


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings = load(EventRetentionSettings, environ)
    return [
        Job("cloud-telemetry-partitions", HOUR_SECONDS, "make the months of telemetry_raw ahead", prepare_months),
        Job("cloud-event-partitions", HOUR_SECONDS, "make the months of device_events ahead", prepare_event_months),
        Job(
            "cloud-event-retention",
            HOUR_SECONDS,
            "drop months of device_events past DEVICE_EVENT_RETENTION_DAYS",
            partial(drop_expired_events, settings),
        ),
        Job(
            "cloud-sync-batch-retention",
            6 * HOUR_SECONDS,
            "delete sync_batches past SYNC_BATCH_RETENTION_DAYS",
            partial(forget_sync_batches, settings),
        ),
        Job(
            "cloud-weighing-retention",
            6 * HOUR_SECONDS,
            "delete weighings past WEIGHING_RETENTION_DAYS, if it is set",
            partial(delete_expired_weighings, settings),
        ),
    ]
