from collections.abc import Mapping

from farmiq.kit.jobs import Job
from farmiq.timeseries.partitions import prepare_months

HOUR_SECONDS = 3600.0


def jobs(_environ: Mapping[str, str]) -> list[Job]:
    """The cloud keeps what it was sent: there is nothing to clean up here."""
    return [Job("cloud-telemetry-partitions", HOUR_SECONDS, "make the months of telemetry_raw ahead", prepare_months)]
