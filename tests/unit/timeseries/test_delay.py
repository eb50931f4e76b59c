from datetime import UTC, datetime
from uuid import UUID

from prometheus_client import CollectorRegistry

from farmiq.contracts.timestamps import from_us
from farmiq.timeseries.delay import SECONDS, delay_histogram, last_sample
from farmiq.timeseries.samples import SingleReading, StreamBatch
from support.telemetry import HERE, batch_of


def test_both_lanes_are_shown_from_the_start_and_apart() -> None:
    registry = CollectorRegistry()
    histogram = delay_histogram("farmiq_edge_delay_seconds", "sensor to the edge's database", registry)
    histogram.labels("replay").observe(90_000)
    counts = {
        lane: registry.get_sample_value("farmiq_edge_delay_seconds_count", {"lane": lane})
        for lane in ("live", "replay")
    }
    assert counts == {"live": 0, "replay": 1}
    assert max(SECONDS) == 7 * 86_400, "a week offline is told from a day"


def test_a_batch_is_as_late_as_its_last_sample() -> None:
    batch = batch_of(UUID(int=1), 1, 5)
    lane, at = last_sample(StreamBatch(HERE, batch))
    assert (lane, at) == (batch.lane, from_us(batch.t[-1]))


def test_a_single_reading_is_live() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    reading = SingleReading(HERE, UUID(int=1), at, "temperature", 20.0, "C")
    assert last_sample(reading) == ("live", at)
