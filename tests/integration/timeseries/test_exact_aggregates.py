"""However samples come, the aggregates are what plain SQL makes of the rows that were stored."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from farmiq.contracts.telemetry import Channel, TelemetryBatch, pack_of
from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches, admit_readings
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin
from support.telemetry import HERE, NOW

CHANNELS = [
    Channel(metric="temperature", unit="C", sensor="t1"),
    Channel(metric="temperature", unit="C", sensor="t2"),
    Channel(metric="temperature", unit="F", sensor="t1"),
    Channel(metric="humidity"),
]
# Both sides of a minute, an hour, a day, a month and the epoch: where a sample falls into the wrong bucket if it ever does.
EDGES = [
    datetime(2026, 11, 1, tzinfo=UTC),
    datetime(2026, 11, 14, 12, tzinfo=UTC),
    datetime(2026, 11, 14, 12, 30, tzinfo=UTC),
    datetime(2026, 2, 28, 23, 59, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, tzinfo=UTC),
]
STRAIGHT = """
    SELECT 'node', w.name, metric_type, coalesce(sensor, ''), coalesce(unit, ''),
           date_bin(w.width, occurred_at, '1970-01-01Z'), date_bin(w.width, occurred_at, '1970-01-01Z') + w.width,
           count(*), sum(metric_value), sum(metric_value) / count(*), min(metric_value), max(metric_value)
      FROM telemetry_raw,
           (VALUES ('1m', interval '1 minute'), ('1h', interval '1 hour'), ('1d', interval '1 day')) AS w (name, width)
     WHERE tenant_id = $1 GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6
"""
KEPT = """
    SELECT 'node', "window", metric_type, sensor, unit, bucket_start_at, bucket_end_at, count, sum_value, avg_value,
           min_value, max_value
      FROM telemetry_agg WHERE tenant_id = $1 ORDER BY 1, 2, 3, 4, 5, 6
"""

# Quarters add up without rounding, in whatever order they come.
values = st.integers(-4_000_000, 4_000_000).map(lambda quarters: quarters / 4)
times = st.builds(
    lambda edge, us: int((edge - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) + us,
    st.sampled_from(EDGES),
    st.sampled_from([-60_000_001, -1, 0, 1, 59_999_999, 60_000_000, 3_600_000_000]) | st.integers(-(10**9), 10**9),
)


@st.composite
def streams(draw: st.DrawFn) -> TelemetryBatch:
    length = draw(st.integers(1, 25))
    return TelemetryBatch(
        stream_id=uuid4(),
        boot_id=uuid4(),
        lane="live",
        seq0=1,
        time_quality=2,
        channels=CHANNELS,
        t=draw(st.lists(times, min_size=length, max_size=length)),
        c=draw(st.lists(st.integers(0, len(CHANNELS) - 1), min_size=length, max_size=length)),
        v=draw(st.lists(values, min_size=length, max_size=length)),
    )


@st.composite
def deliveries(draw: st.DrawFn) -> list[list[TelemetryBatch]]:
    """Micro-batches of cuts of a few streams, in any order, any of them again; most of each stream comes in the end."""
    whole = draw(st.lists(streams(), min_size=1, max_size=3))
    cuts: list[TelemetryBatch] = [
        pack_of(batch, first, last)
        for batch in whole
        for first, last in draw(
            st.lists(st.tuples(st.integers(1, batch.count), st.integers(1, batch.count)).map(sorted), max_size=8)
        )
    ]
    cuts += draw(st.lists(st.sampled_from([*cuts, *whole]), max_size=6))
    cuts = draw(st.permutations([*cuts, *whole]))
    sizes = draw(st.lists(st.integers(1, 5), min_size=len(cuts), max_size=len(cuts)))
    groups = []
    while cuts:
        size = sizes.pop()
        groups.append(list(cuts[:size]))
        cuts = cuts[size:]
    return groups


async def assert_exact(pool: Pool, tenant_id: str) -> int:
    kept = [tuple(row) for row in await pool.fetch(KEPT, tenant_id)]
    assert kept == [tuple(row) for row in await pool.fetch(STRAIGHT, tenant_id)]
    return sum(row[7] for row in kept if row[1] == "1d")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=deliveries())
async def test_batches_cut_repeated_and_shuffled_give_the_aggregates_of_their_rows(
    edge_pool: Pool, groups: list[list[TelemetryBatch]]
) -> None:
    origin = Origin(f"t-{uuid4()}", "farm", "barn", "node")
    samples = {(batch.stream_id, seq) for group in groups for batch in group for seq in range(1, batch.last_seq + 1)}
    for group in groups:
        async with edge_pool.acquire() as connection, connection.transaction():
            await admit_batches(connection, [StreamBatch(origin, batch) for batch in group], NOW)
    assert await assert_exact(edge_pool, origin.tenant_id) == len(samples)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    readings=st.lists(st.tuples(st.sampled_from(range(8)), times, values, st.sampled_from(["C", ""])), max_size=20),
    cut=st.integers(1, 6),
)
async def test_single_readings_under_repeated_ids_give_the_aggregates_of_their_rows(
    edge_pool: Pool, readings: list[tuple[int, int, float, str]], cut: int
) -> None:
    """An id used again for another time is another row; it must not be one in the table and none in the aggregates."""
    origin = Origin(f"t-{uuid4()}", "farm", "barn", "node")
    ids = [uuid4() for _ in range(8)]
    items = [
        SingleReading(
            origin, ids[at], datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us), "co2", value, unit
        )
        for at, us, value, unit in readings
    ]
    first_of = {item.key: item for item in reversed(items)}
    items = [first_of[item.key] for item in items]  # with other content it would be refused
    for first in range(0, len(items), cut):
        async with edge_pool.acquire() as connection, connection.transaction():
            await admit_readings(connection, items[first : first + cut], NOW)
    stored = {(item.event_id, item.occurred_at) for item in items}
    assert await assert_exact(edge_pool, origin.tenant_id) == len(stored)


def one_reading(origin: Origin, event_id: UUID, value: float) -> SingleReading:
    return SingleReading(origin, event_id, NOW, "temperature", value, "C")


async def test_a_device_that_moved_within_the_minute_has_one_aggregate(any_pool: Pool) -> None:
    """A cloud's micro-batch may hold what it measured in both barns."""
    moved = replace(HERE, barn_id="barn-2")
    async with any_pool.acquire() as connection, connection.transaction():
        await admit_readings(connection, [one_reading(HERE, uuid4(), 20.0), one_reading(moved, uuid4(), 22.0)], NOW)
    rows = await any_pool.fetch("SELECT count, sum_value FROM telemetry_agg WHERE \"window\" = '1m'")
    assert [tuple(row) for row in rows] == [(2, 42.0)]


@pytest.mark.parametrize("together", [True, False])
async def test_values_whose_sum_leaves_the_numbers_are_stored_and_block_nothing(any_pool: Pool, together: bool) -> None:
    huge = [one_reading(HERE, uuid4(), value) for value in (0.0, 1.79e308, 1.7e308, -1.0)]
    for group in [huge] if together else [[one] for one in huge]:
        async with any_pool.acquire() as connection, connection.transaction():
            await admit_readings(connection, group, NOW)
    row = await any_pool.fetchrow(
        "SELECT count, min_value, max_value, sum_value BETWEEN 1e308 AND 1.79e308 AS is_bounded"
        " FROM telemetry_agg WHERE \"window\" = '1d'"
    )
    assert row is not None
    assert tuple(row) == (4, -1.0, 1.79e308, True)
