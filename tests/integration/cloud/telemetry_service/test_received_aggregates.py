"""An edge may send aggregates, samples or both. A bucket shows whichever counted more, and never their sum."""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from farmiq.cloud.telemetry_service.received import totals
from farmiq.contracts import bus, event_types
from farmiq.contracts.telemetry import TelemetryAggregated, TelemetryIngested, pack_of
from farmiq.contracts.timestamps import from_us
from farmiq.kit.amqp import Delivery
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.cloud_storing import OF_EDGE, delivery, store
from support.cloud_storing import store_all as take
from support.telemetry import ELSEWHERE, HERE, START_US, batch_of, bus_body

HOUR_US = 3_600_000_000
HOUR = from_us(START_US - START_US % HOUR_US)


def aggregate(
    count: int, *, window: str = "1h", start_at: datetime | None = HOUR, total: float | None = None
) -> TelemetryAggregated:
    """`count` samples of channel t1, each of 1000: nothing that the samples of `batch_of` could give."""
    return TelemetryAggregated(
        metric_type="temperature",
        aggregation_window=window,
        avg_value=1000.0,
        min_value=1000.0,
        max_value=1000.0,
        unit="C",
        count=count,
        sum_value=1000.0 * count if total is None else total,
        bucket_start_at=start_at,
        sensor="t1",
    )


def from_edge(payload: TelemetryAggregated, origin: Origin = HERE, headers: dict[str, str] = OF_EDGE) -> Delivery:
    return delivery(bus_body(event_types.TELEMETRY_AGGREGATED, payload, origin), headers)


def pack(stream: UUID, first: int, last: int) -> Delivery:
    """Even sequences are samples of channel t1."""
    payload = pack_of(batch_of(stream, 1, 200), first, last)
    return delivery(bus_body(event_types.TELEMETRY_BATCH_INGESTED, payload))


async def shown(pool: Pool, window: str = "1h", device_id: str = "node-1") -> list[tuple[int, float, float, float]]:
    """Count, sum, minimum and maximum of the buckets of channel t1."""
    rows = await pool.fetch(
        "SELECT count, sum_value, min_value, max_value FROM telemetry_agg WHERE device_id = $1 AND metric_type = 'temperature'"
        " AND sensor = 't1' AND \"window\" = $2 ORDER BY bucket_start_at",
        device_id,
        window,
    )
    return [tuple(row) for row in rows]


def of_samples(first: int, last: int) -> tuple[int, float, float, float]:
    values = [float(seq) for seq in range(first, last + 1) if seq % 2 == 0]
    return len(values), sum(values), min(values), max(values)


async def test_without_samples_a_bucket_is_what_the_edge_sent_last(cloud_pool: Pool) -> None:
    for order in ((10, 25, 17), (25, 10, 25), (17, 25, 10)):
        await cloud_pool.execute("TRUNCATE telemetry_agg, received_buckets")
        for count in order:
            await take(cloud_pool, from_edge(aggregate(count)))
        assert await shown(cloud_pool) == [(max(order), 1000.0 * max(order), 1000.0, 1000.0)]
        assert await shown(cloud_pool, "1d") == await shown(cloud_pool)
    row = await cloud_pool.fetchrow(
        "SELECT bucket_end_at - bucket_start_at AS width, farm_id, avg_value FROM telemetry_agg WHERE \"window\" = '1h'"
    )
    assert row is not None
    assert (row["width"].total_seconds(), row["farm_id"], row["avg_value"]) == (3600.0, "farm-1", 1000.0)


async def test_in_mode_both_the_samples_are_never_added_to_what_the_edge_counted(cloud_pool: Pool) -> None:
    stream = uuid4()
    await take(cloud_pool, from_edge(aggregate(50)))
    await take(cloud_pool, pack(stream, 1, 40))
    # 20 samples against 50 that the edge has counted: the rest is still on its way.
    assert await shown(cloud_pool) == [(50, 50_000.0, 1000.0, 1000.0)]
    await take(cloud_pool, pack(stream, 41, 100), from_edge(aggregate(50)))
    assert await shown(cloud_pool) == [of_samples(1, 100)]
    assert await cloud_pool.fetchval("SELECT count(*) FROM received_buckets") == 0
    assert await cloud_pool.fetchval("SELECT sum(count) FROM telemetry_agg WHERE \"window\" = '1h'") == 100


async def test_what_the_samples_gave_survives_an_edge_that_counted_more(cloud_pool: Pool) -> None:
    stream = uuid4()
    await take(cloud_pool, pack(stream, 1, 100))
    await take(cloud_pool, from_edge(aggregate(60)))
    await take(cloud_pool, from_edge(aggregate(70)))
    assert await shown(cloud_pool) == [(70, 70_000.0, 1000.0, 1000.0)]
    await take(cloud_pool, pack(stream, 101, 160))
    assert await shown(cloud_pool) == [of_samples(1, 160)]


def mixture(stream: UUID) -> list[Delivery]:
    return [
        *(pack(stream, first, first + 19) for first in range(1, 161, 20)),
        *(from_edge(aggregate(count)) for count in (20, 75, 79)),
        from_edge(aggregate(200, window="1d", start_at=HOUR.replace(hour=0))),
        from_edge(aggregate(5), ELSEWHERE),
    ]


async def test_in_any_order_and_delivered_again_the_tables_are_the_same(cloud_pool: Pool) -> None:
    deliveries = mixture(uuid4())
    for seed in range(6):
        await cloud_pool.execute("TRUNCATE telemetry_raw, telemetry_agg, received_buckets, streams, stream_content")
        rng = random.Random(seed)
        shuffled = rng.sample(deliveries * 2, len(deliveries) * 2)
        while shuffled:
            step = rng.randint(1, 5)
            await take(cloud_pool, *shuffled[:step])
            shuffled = shuffled[step:]
        await check_mixture(cloud_pool)


async def test_written_by_many_consumers_at_once_the_tables_are_the_same(cloud_pool: Pool) -> None:
    deliveries = mixture(uuid4())

    async def consumer(given: Sequence[Delivery]) -> None:
        for one in given:
            await take(cloud_pool, one)

    shuffled = random.Random(7).sample(deliveries * 4, len(deliveries) * 4)
    await asyncio.gather(*(consumer(shuffled[number::6]) for number in range(6)))
    await check_mixture(cloud_pool)


async def check_mixture(pool: Pool) -> None:
    assert await shown(pool) == [of_samples(1, 160)]
    assert await shown(pool, "1d") == [(200, 200_000.0, 1000.0, 1000.0)]
    assert await shown(pool, device_id="node-9") == [(5, 5000.0, 1000.0, 1000.0)]
    raw = await pool.fetch('SELECT "window", device_id, raw_count, raw_sum_value FROM received_buckets ORDER BY 1, 2')
    assert [tuple(row) for row in raw] == [
        ("1d", "node-1", *of_samples(1, 160)[:2]),
        ("1d", "node-9", 0, 0.0),
        ("1h", "node-9", 0, 0.0),
    ]
    assert await pool.fetchval("SELECT count(*) FROM telemetry_raw") == 160


async def test_an_edge_that_sends_minutes_has_hours_and_days_too(cloud_pool: Pool) -> None:
    minutes = [aggregate(number + 1, window="1m", start_at=HOUR + timedelta(minutes=number)) for number in range(3)]
    for given in (minutes, [*minutes[::-1], aggregate(2, window="1m")]):
        await cloud_pool.execute("TRUNCATE telemetry_agg, received_buckets")
        for payload in given:
            await take(cloud_pool, from_edge(payload))
        expected = sum(max(one.count or 0 for one in given if one.bucket_start_at == at) for at in starts_of(given))
        assert await shown(cloud_pool) == [(expected, 1000.0 * expected, 1000.0, 1000.0)]
        assert await shown(cloud_pool, "1d") == await shown(cloud_pool)


def starts_of(given: Sequence[TelemetryAggregated]) -> set[datetime | None]:
    return {one.bucket_start_at for one in given}


async def test_an_hour_is_made_of_samples_in_one_minute_and_of_the_edges_word_in_another(cloud_pool: Pool) -> None:
    stream = uuid4()
    at = START_US + 2_000_000
    minute = from_us(at - at % 60_000_000)
    later = minute + timedelta(minutes=30)
    deliveries = [pack(stream, 1, 2), from_edge(aggregate(7, window="1m", start_at=later))]
    for order in (deliveries, deliveries[::-1]):
        await cloud_pool.execute("TRUNCATE telemetry_raw, telemetry_agg, received_buckets, streams, stream_content")
        for one in order:
            await take(cloud_pool, one)
        assert await shown(cloud_pool, "1m") == [(1, 2.0, 2.0, 2.0), (7, 7000.0, 1000.0, 1000.0)]
        assert await shown(cloud_pool, "1d") == [(8, 7002.0, 2.0, 1000.0)]


async def test_totals_count_the_samples_that_are_here_and_apart_from_them_what_an_edge_counted(
    cloud_pool: Pool,
) -> None:
    async def stored_and_elsewhere() -> tuple[int, int]:
        async with cloud_pool.acquire() as connection:
            found = await totals(connection)
        return found["stored"], found["counted_elsewhere"]

    stream, day = uuid4(), HOUR.replace(hour=0)
    await take(cloud_pool, from_edge(aggregate(50)), from_edge(aggregate(60, window="1d", start_at=day)))
    assert await stored_and_elsewhere() == (0, 60)
    await take(cloud_pool, pack(stream, 1, 40))
    assert await stored_and_elsewhere() == (40, 40)
    await take(cloud_pool, pack(stream, 41, 160))
    assert await stored_and_elsewhere() == (160, 0)


async def test_what_this_service_emitted_and_what_has_a_pack_is_passed_over(cloud_pool: Pool) -> None:
    sample = TelemetryIngested(metric_type="temperature", metric_value=26.0, unit="C")
    expanded = {**OF_EDGE, bus.EXPANDED_HEADER: str(uuid4())}
    await take(
        cloud_pool,
        from_edge(aggregate(9), headers={}),
        delivery(bus_body(event_types.TELEMETRY_INGESTED, sample), expanded),
    )
    for table in ("telemetry_agg", "telemetry_raw", "received_buckets", "device_events"):
        assert await cloud_pool.fetchval(f"SELECT count(*) FROM {table}") == 0  # noqa: S608 - ours


@pytest.mark.parametrize(
    "payload",
    [
        aggregate(0),
        aggregate(3, window="5m"),
        aggregate(3, start_at=HOUR.replace(minute=1)),
        aggregate(3, window="1d", start_at=datetime(2026, 1, 1, 7, tzinfo=UTC)),
    ],
    ids=["nothing counted", "no such window", "not on the hour", "not at midnight"],
)
async def test_an_aggregate_that_fits_no_bucket_is_dead_lettered_alone(
    cloud_pool: Pool, payload: TelemetryAggregated
) -> None:
    bad, good = from_edge(payload), from_edge(aggregate(4))
    failures = await store(cloud_pool, bad, good)
    assert [(one.code, one.delivery is bad) for one in failures] == [("schema", True)]
    assert await shown(cloud_pool) == [(4, 4000.0, 1000.0, 1000.0)]
