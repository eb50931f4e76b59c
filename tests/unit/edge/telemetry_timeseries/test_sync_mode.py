from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from farmiq.contracts.timestamps import to_us
from farmiq.edge.ingress_gateway.settings import GatewaySettings
from farmiq.edge.telemetry_timeseries.sync_mode import (
    SyncPlan,
    is_recent,
    touched_by_batches,
    touched_by_readings,
    with_due_times,
)
from farmiq.kit.settings import BadSettings, load
from farmiq.timeseries.rollup import Bucket
from farmiq.timeseries.samples import SingleReading, StreamBatch
from support.telemetry import HERE, NOW, START_US, batch_of

PLAN = SyncPlan("aggregated", "1m", settle_seconds=30)
NEEDED = {"DATABASE_URL": "postgresql://x", "MQTT_URL": "mqtt://x", "ADMIN_TOKEN": "x"}
START = START_US - START_US % 60_000_000


def due_in_seconds(bucket_start: datetime, plan: SyncPlan = PLAN) -> float:
    bucket = Bucket(HERE, "temperature", "", "C", plan.window, to_us(bucket_start))
    ((_, due_at),) = with_due_times([bucket], NOW, plan)
    return (due_at - NOW).total_seconds()


def test_an_open_window_is_due_once_it_has_closed_and_settled() -> None:
    assert due_in_seconds(NOW - timedelta(seconds=20)) == 40 + 30


def test_a_window_that_late_samples_opened_again_is_due_after_the_settling_time() -> None:
    assert due_in_seconds(NOW - timedelta(days=2)) == 30


def test_a_window_in_the_far_future_does_not_wait_for_its_end() -> None:
    assert due_in_seconds(NOW + timedelta(days=30_000)) == 60 + 30
    assert due_in_seconds(NOW + timedelta(days=30_000), SyncPlan("both", "1d", 5)) == 86_400 + 5


def test_only_the_buckets_of_what_was_stored_are_touched() -> None:
    item = StreamBatch(HERE, batch_of(uuid4(), 1, 200))
    seqs_of_minute = [
        {(START_US + seq * 1_000_000) // 60_000_000 for seq in range(first, end)} for first, end in [(1, 3), (150, 151)]
    ]
    touched = touched_by_batches([(item, [(1, 3), (150, 151)])], "1m")
    assert {bucket.start_us // 60_000_000 for bucket in touched} == set.union(*seqs_of_minute)
    assert {(bucket.metric, bucket.sensor, bucket.unit) for bucket in touched} == {
        ("temperature", "t1", "C"),
        ("humidity", "", "%"),
    }
    assert touched_by_batches([(item, [])], "1m") == set()
    reading = SingleReading(HERE, uuid4(), NOW, "co2", 1.0, "ppm")
    assert touched_by_readings([reading, reading], "1h") == {Bucket(HERE, "co2", "", "ppm", "1h", to_us(NOW))}


def test_what_has_just_closed_goes_ahead_of_what_a_replay_opened() -> None:
    assert is_recent(NOW - timedelta(seconds=95), "1m", NOW)
    assert not is_recent(NOW - timedelta(minutes=4), "1m", NOW)
    assert is_recent(NOW - timedelta(minutes=4), "1h", NOW)


def test_the_mode_is_read_from_the_environment_and_raw_by_default() -> None:
    plan = load(GatewaySettings, NEEDED).sync_plan
    assert (plan.has_raw, plan.has_aggregates) == (True, False)
    both = load(GatewaySettings, NEEDED | {"TELEMETRY_SYNC_MODE": "both", "TELEMETRY_SYNC_WINDOW": "1h"}).sync_plan
    assert (both.has_raw, both.has_aggregates, both.window) == (True, True, "1h")
    only = load(GatewaySettings, NEEDED | {"TELEMETRY_SYNC_MODE": "aggregated"}).sync_plan
    assert (only.has_raw, only.has_aggregates) == (False, True)
    with pytest.raises(BadSettings, match=r"TELEMETRY_SYNC_MODE is 'some', .* raw, aggregated or both"):
        load(GatewaySettings, NEEDED | {"TELEMETRY_SYNC_MODE": "some"})
