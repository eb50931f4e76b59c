"""Which months may go: never one that holds a moment within retention, never one that the cloud may not have."""

from datetime import UTC, date, datetime, time, timedelta

from hypothesis import given
from hypothesis import strategies as st

from farmiq.edge.telemetry_timeseries.retention import Span, Unsent, cutoff_of, expired, judge
from farmiq.edge.telemetry_timeseries.settings import RetentionSettings
from farmiq.kit.month_partitions import Partition, month_after
from farmiq.kit.settings import load

NOTHING = Unsent([], is_complete=True)


def start(month: date) -> datetime:
    return datetime.combine(month, time(), UTC)


def month_partition(month: date) -> Partition:
    return Partition(month.strftime("telemetry_raw_%Y_%m"), start(month), start(month_after(month)))


moments = st.integers(0, 24 * 365 * 86_400).map(
    lambda second: datetime(2016, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
)
months = st.builds(lambda moment: moment.date().replace(day=1), moments)
retention_days = st.integers(1, 2000)
partition_lists = st.lists(months, unique=True).map(lambda found: [month_partition(month) for month in sorted(found)])


@st.composite
def spans(draw: st.DrawFn) -> Span:
    first_at, created_at = draw(moments), draw(moments)
    return Span(first_at, first_at + draw(st.timedeltas(timedelta(0), timedelta(days=100))), created_at)


@given(now=moments, days=retention_days, there=partition_lists)
def test_a_month_that_holds_a_moment_within_retention_never_goes(
    now: datetime, days: int, there: list[Partition]
) -> None:
    for partition in expired(there, cutoff_of(now, days)):
        last_moment = partition.upper_at - timedelta(microseconds=1)
        assert now - last_moment > timedelta(days=days)


@given(now=moments, days=retention_days, there=partition_lists)
def test_every_month_wholly_past_retention_goes_when_the_cloud_has_everything(
    now: datetime, days: int, there: list[Partition]
) -> None:
    cutoff = cutoff_of(now, days)
    judgement = judge(there, cutoff, NOTHING)
    assert not judgement.held
    assert judgement.synced == [partition for partition in there if partition.upper_at <= cutoff]


@given(
    now=moments, days=retention_days, there=partition_lists, waiting=st.lists(spans(), max_size=5), at=st.floats(0, 1)
)
def test_no_month_goes_that_holds_a_sample_which_the_cloud_does_not_have(
    now: datetime, days: int, there: list[Partition], waiting: list[Span], at: float
) -> None:
    judgement = judge(there, cutoff_of(now, days), Unsent(waiting, is_complete=True))
    for span in waiting:
        sample_at = span.first_at + (span.last_at - span.first_at) * at
        assert not [partition for partition in judgement.synced if partition.lower_at <= sample_at < partition.upper_at]


@given(now=moments, days=retention_days, there=partition_lists, waiting=st.lists(spans(), max_size=3))
def test_nothing_goes_while_there_is_more_on_its_way_than_was_looked_at(
    now: datetime, days: int, there: list[Partition], waiting: list[Span]
) -> None:
    judgement = judge(there, cutoff_of(now, days), Unsent(waiting, is_complete=False))
    assert judgement.synced == []
    assert judgement.held == expired(there, cutoff_of(now, days))


def test_a_pack_that_ends_in_the_next_month_holds_both() -> None:
    january, february, march = (month_partition(date(2026, month, 1)) for month in (1, 2, 3))
    over_midnight = Span(
        february.lower_at - timedelta(seconds=1), february.lower_at, february.lower_at + timedelta(minutes=1)
    )
    judgement = judge(
        [january, february, march], datetime(2026, 9, 1, tzinfo=UTC), Unsent([over_midnight], is_complete=True)
    )
    assert (judgement.held, judgement.synced) == ([january, february], [march])


def test_the_defaults_are_the_documented_ones() -> None:
    settings = load(RetentionSettings, {})
    assert (settings.telemetry_raw_retention_days, settings.telemetry_agg_retention_days) == (90, 365)
    assert settings.retention_require_sync
    assert not load(RetentionSettings, {"RETENTION_REQUIRE_SYNC": "false"}).retention_require_sync
