"""Known answers, worked out by hand, and what must hold for every farm."""

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.sizing import (
    BadFarm,
    Farm,
    Kept,
    edge_bytes,
    edge_runway_seconds,
    measured,
    node_runway_seconds,
    raw_days_that_fit,
    size_of,
)
from farmiq.sizing.farm import DAY_SECONDS, HOUR_SECONDS
from farmiq.sizing.runway import LONGEST_SECONDS

KB, GB = 1000, 10**9


def farms() -> st.SearchStrategy[Farm]:
    days = st.floats(min_value=0, max_value=1000)
    kept = st.builds(Kept, raw_days=days, aggregate_days=days, outbox_days=days, picture_days=days)
    return st.builds(
        Farm,
        nodes=st.integers(min_value=0, max_value=10_000),
        channels=st.integers(min_value=0, max_value=2000),
        interval_seconds=st.floats(min_value=0.01, max_value=DAY_SECONDS),
        stations=st.integers(min_value=0, max_value=100),
        pictures_per_day=st.floats(min_value=0, max_value=10_000),
        picture_bytes=st.integers(min_value=0, max_value=10_000_000),
        outage_seconds=st.floats(min_value=0, max_value=400 * DAY_SECONDS),
        catch_up_seconds=st.floats(min_value=1, max_value=30 * DAY_SECONDS),
        kept=kept,
    )


def figures(farm: Farm) -> list[float]:
    sizes = size_of(farm)
    line = (sizes.uplink.live_bytes_per_second, sizes.uplink.backlog_bytes, sizes.uplink.needed_bytes_per_second)
    return [sizes.node.spool_bytes, sizes.station.queue_bytes, sizes.edge.total, *line]


# --- Known answers -------------------------------------------------------------------------------------------------------------


def test_the_ticket_node_of_ten_channels_needs_75_mb_for_48_hours() -> None:
    node = size_of(Farm(nodes=1, channels=10, interval_seconds=1, outage_seconds=48 * HOUR_SECONDS)).node
    # 10 samples/s of 40 bytes and a header of 512 bytes an hour, for 49 hours, and what is reserved ahead.
    assert node.spool_bytes == pytest.approx(10 * 40 * 49 * 3600 + 512 * 49 + 4 * 1024 * 1024 + 80 * 1024)
    assert node.spool_bytes_per_day == pytest.approx(10 * 40 * 86_400 + 512 * 24)


def test_a_live_batch_holds_what_the_channels_give_in_200_ms() -> None:
    assert Farm(channels=10, interval_seconds=1).batch_samples == 10
    assert Farm(channels=10, interval_seconds=60).batch_samples == 10
    assert Farm(channels=10, interval_seconds=0.1).batch_samples == 20
    assert Farm(nodes=3, channels=10, interval_seconds=0.1).batches_per_second == pytest.approx(15)
    assert Farm(channels=1200, interval_seconds=1).batch_samples == 400  # three messages of at most 500


def test_a_year_of_minutes_hours_and_days_of_one_channel_is_365_times_1465_buckets() -> None:
    edge = edge_bytes(Farm(nodes=1, channels=1, interval_seconds=1))
    assert edge.aggregates == pytest.approx(365 * 1465 * measured.AGGREGATE_BYTES_PER_BUCKET)
    slow = edge_bytes(Farm(nodes=1, channels=1, interval_seconds=3600))
    assert slow.aggregates == pytest.approx(365 * (24 + 24 + 1) * measured.AGGREGATE_BYTES_PER_BUCKET)


def test_an_outage_within_the_retention_costs_only_outbox() -> None:
    without = edge_bytes(Farm(outage_seconds=0))
    with_it = edge_bytes(Farm(outage_seconds=10 * DAY_SECONDS))
    assert with_it.raw == without.raw
    assert with_it.outbox == pytest.approx(without.outbox * (30 + 10) / 30)


def test_samples_that_the_cloud_lacks_stay_past_their_retention() -> None:
    short, long = (edge_bytes(Farm(outage_seconds=days * DAY_SECONDS)).raw for days in (90, 180))
    assert long == pytest.approx(short * (180 + 31) / (90 + 31))


def test_pictures_of_a_week_are_on_the_station_and_go_over_the_line_once() -> None:
    farm = Farm(
        nodes=0,
        stations=2,
        pictures_per_day=1000,
        picture_bytes=200 * KB,
        outage_seconds=7 * DAY_SECONDS,
        catch_up_seconds=DAY_SECONDS,
    )
    sizes = size_of(farm)
    assert (sizes.station.pictures, sizes.station.queue_bytes) == (7000, 1.4 * GB)
    assert sizes.uplink.backlog_bytes == pytest.approx(2.8 * GB)
    assert sizes.uplink.needed_bytes_per_second == pytest.approx(2.8 * GB / 86_400 + 0.4 * GB / 86_400)
    assert sizes.edge.pictures == pytest.approx(90 * 0.4 * GB)


def test_between_two_measured_batches_lies_a_straight_line() -> None:
    assert measured.MQTT_BYTES.of(30) == pytest.approx((1254.3 + 2290.1) / 2)
    assert measured.MQTT_BYTES.of(0) == measured.MQTT_BYTES.of(1)
    assert measured.MQTT_BYTES.of(900) == pytest.approx(measured.MQTT_BYTES.of(500))


def test_nothing_to_measure_needs_nothing_but_the_log_and_what_is_reserved() -> None:
    sizes = size_of(Farm(nodes=0, channels=0))
    assert sizes.node.spool_bytes == measured.SPOOL_BYTES_BESIDES
    assert sizes.edge.total == measured.WAL_BYTES_MAX
    assert sizes.uplink.needed_bytes_per_second == 0
    assert node_runway_seconds(Farm(channels=0), GB) == LONGEST_SECONDS


@dataclass(frozen=True)
class Wrong:
    name: str
    value: float


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong("nodes", -1),
        Wrong("interval_seconds", 0),
        Wrong("interval_seconds", float("nan")),
        Wrong("catch_up_seconds", 0),
        Wrong("outage_seconds", -1),
        Wrong("pictures_per_day", float("inf")),
    ],
    ids=lambda wrong: f"{wrong.name}={wrong.value}",
)
def test_a_farm_that_cannot_be_is_refused(wrong: Wrong) -> None:
    with pytest.raises(BadFarm):
        msgspec.structs.replace(Farm(), **{wrong.name: wrong.value})


# --- For every farm ------------------------------------------------------------------------------------------------------------


@given(farms(), st.sampled_from(["nodes", "stations", "pictures_per_day", "picture_bytes", "outage_seconds"]))
def test_more_of_anything_never_needs_less(farm: Farm, name: str) -> None:
    more = msgspec.structs.replace(farm, **{name: getattr(farm, name) * 2 + 1})
    assert all(after >= before * (1 - 1e-12) for before, after in zip(figures(farm), figures(more), strict=True))


@given(farms())
def test_more_time_to_catch_up_never_needs_a_wider_line(farm: Farm) -> None:
    slower = msgspec.structs.replace(farm, catch_up_seconds=farm.catch_up_seconds * 2)
    assert size_of(slower).uplink.needed_bytes_per_second <= size_of(farm).uplink.needed_bytes_per_second


@given(farms())
def test_a_spool_of_the_size_that_was_computed_lasts_for_the_outage(farm: Farm) -> None:
    wanted = min(farm.outage_seconds, LONGEST_SECONDS)
    assert node_runway_seconds(farm, size_of(farm).node.spool_bytes) >= wanted


@given(farms(), st.floats(min_value=0, max_value=1e15))
def test_the_runway_of_the_edge_is_the_longest_outage_that_fits(farm: Farm, disk_bytes: float) -> None:
    runway = edge_runway_seconds(farm, disk_bytes)
    at_once = edge_bytes(msgspec.structs.replace(farm, outage_seconds=0.0)).total
    if runway is None:
        assert at_once > disk_bytes
        return
    assert edge_bytes(msgspec.structs.replace(farm, outage_seconds=runway)).total <= disk_bytes
    if runway < LONGEST_SECONDS:
        longer = msgspec.structs.replace(farm, outage_seconds=runway * 1.001 + 1)
        assert edge_bytes(longer).total >= disk_bytes


@given(farms(), st.floats(min_value=0, max_value=1e14))
def test_the_days_that_fit_do_fit_and_one_more_does_not(farm: Farm, disk_bytes: float) -> None:
    days = raw_days_that_fit(farm, disk_bytes)
    if days is None:
        return
    fits, more = (
        edge_bytes(msgspec.structs.replace(farm, kept=msgspec.structs.replace(farm.kept, raw_days=float(number)))).total
        for number in (days, days + 1)
    )
    assert fits <= disk_bytes
    assert more > disk_bytes or days + 1 > farm.kept.raw_days
