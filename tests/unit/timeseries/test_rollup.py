from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from farmiq.contracts.telemetry import Channel, TelemetryBatch
from farmiq.timeseries.rollup import WINDOW_MICROSECONDS, Bucket, Tally, tally_batch, with_wider_windows
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin

HERE = Origin("demo", "farm-1", "barn-1", "node-1")
CHANNELS = [Channel(metric="temperature", unit="C", sensor="s1"), Channel(metric="humidity", unit="%")]
Sample = tuple[int, int, float]

# Whole numbers add up exactly in any order, so the totals can be compared for equality.
samples = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-(10**15), 4 * 10**15), st.integers(-1000, 1000).map(float)),
    min_size=1,
    max_size=40,
)


def batch_of(given_samples: list[Sample]) -> StreamBatch:
    channels, times, values = (list(column) for column in zip(*given_samples, strict=True))
    batch = TelemetryBatch(
        stream_id=UUID(int=1), boot_id=UUID(int=2), lane="live", seq0=1, time_quality=2, channels=CHANNELS,
        t=times, c=channels, v=values,
    )  # fmt: skip
    return StreamBatch(HERE, batch)


@given(samples, st.integers(0, 40))
def test_aggregates_do_not_depend_on_how_samples_are_cut_into_batches(given_samples: list[Sample], cut: int) -> None:
    item, end = batch_of(given_samples), len(given_samples) + 1
    middle = min(1 + cut, end)
    whole: dict[Bucket, Tally] = {}
    tally_batch(item, (1, end), whole)
    parts: dict[Bucket, Tally] = {}
    tally_batch(item, (middle, end), parts)
    tally_batch(item, (1, middle), parts)
    assert with_wider_windows(parts) == with_wider_windows(whole)


@given(samples)
def test_every_window_holds_every_sample_once(given_samples: list[Sample]) -> None:
    minutes: dict[Bucket, Tally] = {}
    tally_batch(batch_of(given_samples), (1, len(given_samples) + 1), minutes)
    aggregates = with_wider_windows(minutes)
    for window, width in WINDOW_MICROSECONDS.items():
        mine = [(bucket, tally) for bucket, tally in aggregates if bucket.window == window]
        assert sum(tally.samples for _, tally in mine) == len(given_samples)
        assert sum(tally.total for _, tally in mine) == sum(sample[2] for sample in given_samples)
        assert all(bucket.start_us % width == 0 for bucket, _ in mine)
    assert [bucket for bucket, _ in aggregates] == sorted(bucket for bucket, _ in aggregates)
