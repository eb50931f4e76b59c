"""How long samples take to get here, for the metrics of both tiers."""

from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from farmiq.contracts.telemetry import Lane
from farmiq.contracts.timestamps import from_us
from farmiq.timeseries.samples import SingleReading, StreamBatch

SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21_600, 86_400, 604_800)


def delay_histogram(name: str, way: str, registry: CollectorRegistry) -> Histogram:
    """One observation for each batch, which costs nothing; the lanes apart, or a drained backlog would look like slowness."""
    about = f"From the {way}, of the last sample of each batch, by lane."
    histogram = Histogram(name, about, ["lane"], buckets=SECONDS, registry=registry)
    for lane in ("live", "replay"):
        histogram.labels(lane)
    return histogram


def last_sample(item: StreamBatch | SingleReading) -> tuple[Lane, datetime]:
    if isinstance(item, SingleReading):
        return "live", item.occurred_at
    return item.batch.lane, from_us(item.batch.occurred_us[-1])
