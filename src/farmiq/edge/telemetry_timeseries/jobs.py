from collections.abc import Mapping
from functools import partial

from farmiq.edge.telemetry_timeseries.cleanup import delete_expired_aggregates, drop_expired_raw
from farmiq.edge.telemetry_timeseries.settings import RetentionSettings
from farmiq.kit.jobs import Job
from farmiq.kit.settings import load
from farmiq.timeseries.partitions import prepare_months

HOUR_SECONDS = 3600.0


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings = load(RetentionSettings, environ)
    return [
        Job("telemetry-partitions", HOUR_SECONDS, "make the months of telemetry_raw ahead", prepare_months),
        Job(
            "telemetry-retention",
            HOUR_SECONDS,
            "drop months of telemetry_raw past TELEMETRY_RAW_RETENTION_DAYS that the cloud has",
            partial(drop_expired_raw, settings),
        ),
        Job(
            "telemetry-agg-retention",
            6 * HOUR_SECONDS,
            "delete telemetry_agg rows past TELEMETRY_AGG_RETENTION_DAYS",
            partial(delete_expired_aggregates, settings),
        ),
    ]
