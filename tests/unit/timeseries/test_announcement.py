from datetime import datetime, timedelta

from farmiq.contracts.timestamps import to_us
from farmiq.timeseries.announcement import with_due_times
from farmiq.timeseries.rollup import Bucket
from support.telemetry import HERE, NOW


def due_in_seconds(bucket_start: datetime, window: str = "1m", settle_seconds: float = 30) -> float:
    bucket = Bucket(HERE, "temperature", "", "C", window, to_us(bucket_start))
    ((_, due_at),) = with_due_times([bucket], NOW, settle_seconds)
    return (due_at - NOW).total_seconds()


def test_an_open_window_is_due_once_it_has_closed_and_settled() -> None:
    assert due_in_seconds(NOW - timedelta(seconds=20)) == 40 + 30


def test_a_window_that_late_samples_opened_again_is_due_after_the_settling_time() -> None:
    assert due_in_seconds(NOW - timedelta(days=2)) == 30


def test_a_window_in_the_far_future_does_not_wait_for_its_end() -> None:
    assert due_in_seconds(NOW + timedelta(days=30_000)) == 60 + 30
    assert due_in_seconds(NOW + timedelta(days=30_000), "1d", 5) == 86_400 + 5


def test_buckets_of_several_windows_are_each_due_after_their_own() -> None:
    buckets = [Bucket(HERE, "temperature", "", "C", window, to_us(NOW)) for window in ("1d", "1h", "1m")]
    waits = {bucket.window: (due_at - NOW).total_seconds() for bucket, due_at in with_due_times(buckets, NOW, 1)}
    assert waits == {"1m": 61, "1h": 3601, "1d": 86_401}
