from hypothesis import given
from hypothesis import strategies as st

from farmiq.timeseries.rollup import WINDOW_MICROSECONDS, Bucket, Tally, tally_minutes, with_wider_windows
from farmiq.timeseries.stream import Origin

HERE = Origin("demo", "farm-1", "barn-1", "node-1")

# Whole numbers add up exactly in any order, so the totals can be compared for equality.
samples = st.lists(
    st.tuples(
        st.sampled_from(["temperature", "humidity"]),
        st.just("s1"),
        st.just("C"),
        st.integers(-(10**15), 4 * 10**15),
        st.integers(-1000, 1000).map(float),
    ),
    min_size=1,
    max_size=40,
)


@given(samples, st.integers(0, 40))
def test_aggregates_do_not_depend_on_how_samples_are_cut_into_batches(
    given_samples: list[tuple[str, str, str, int, float]], cut: int
) -> None:
    whole: dict[Bucket, Tally] = {}
    tally_minutes(HERE, given_samples, whole)
    parts: dict[Bucket, Tally] = {}
    tally_minutes(HERE, given_samples[cut:], parts)
    tally_minutes(HERE, given_samples[:cut], parts)
    assert with_wider_windows(parts) == with_wider_windows(whole)


@given(samples)
def test_every_window_holds_every_sample_once(given_samples: list[tuple[str, str, str, int, float]]) -> None:
    minutes: dict[Bucket, Tally] = {}
    tally_minutes(HERE, given_samples, minutes)
    aggregates = with_wider_windows(minutes)
    for window, width in WINDOW_MICROSECONDS.items():
        mine = [(bucket, tally) for bucket, tally in aggregates if bucket.window == window]
        assert sum(tally.samples for _, tally in mine) == len(given_samples)
        assert sum(tally.total for _, tally in mine) == sum(sample[4] for sample in given_samples)
        assert all(bucket.start_us % width == 0 for bucket, _ in mine)
    assert [bucket for bucket, _ in aggregates] == sorted(bucket for bucket, _ in aggregates)
