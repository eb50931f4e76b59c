"""Each event twice and in any order gives the same tables, and the same tables give the same days."""

import random
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from farmiq.kit.amqp import Delivery
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support import analytics_events as events
from support.analytics_service import FACTS, Analytics
from support.telemetry import HERE

NOW = datetime(2026, 3, 15, 20, tzinfo=UTC)
TODAY = NOW.replace(hour=0)
ELSEWHERE = Origin("other", "farm-1", "barn-1", "node-1")


def weighed(number: int, days_ago: int) -> list[Delivery]:
    """A session with everything that may be told of it, and one beginning and one end too many."""
    session, result = uuid4(), uuid4()
    at = TODAY - timedelta(days=days_ago) + timedelta(hours=8, minutes=number)
    return [
        events.created(session, at, f"b{number % 2}", 99.0),
        events.created(session, at + timedelta(seconds=1), "wrong"),
        events.weight(session, at, 100.0 + number),
        events.weight(session, at + timedelta(seconds=5), 101.0 + number),
        events.finalized(session, at + timedelta(minutes=1), None, None),
        events.finalized(session, at + timedelta(minutes=2), 100.0 + number - days_ago, result),
        *([events.cancelled(session, at, revision=2)] if number == 5 else []),
        events.seen(session, at, 103.0 + number, result=result),
        events.seen(session, at, 140.0, confidence=0.99),
    ]


def measured() -> list[Delivery]:
    hours = [TODAY - timedelta(hours=hour) for hour in range(0, 96, 3)]
    return [
        *(
            events.hour(at, 20.0 + index % 4, origin=origin)
            for index, at in enumerate(hours)
            for origin in (HERE, ELSEWHERE)
        ),
        # Corrections, and two of one revision that only their counts and ids tell apart.
        events.hour(hours[3], 31.0, revision=140),
        events.hour(hours[3], 32.0, revision=130),
        events.hour(hours[4], 33.0),
        events.hour(hours[4], 34.0),
        events.pack([TODAY + timedelta(hours=hour) for hour in (1, 5, 3, 2)], [1.0, 2.0, 3.0, 4.0]),
        events.pack([TODAY + timedelta(hours=hour) for hour in (4, 5, 3, 5)], [5.0, 9.0, 7.0, 8.0]),
        events.loss(TODAY - timedelta(days=2), TODAY, 500),
    ]


async def clear(pool: Pool) -> None:
    await pool.execute(f"TRUNCATE {', '.join(FACTS)}, analytics_marks, analytics_kpis, analytics_anomalies")


async def test_each_event_twice_and_in_any_order_gives_the_same_tables_and_days(cloud_pool: Pool) -> None:
    told = [*measured(), *(one for number in range(6) for one in weighed(number, number % 3))]
    expected = None
    for seed in range(4):
        await clear(cloud_pool)
        analytics, shuffle = Analytics(cloud_pool, NOW), random.Random(seed)
        mixed = shuffle.sample(told * 2, len(told) * 2) if seed else told
        at = 0
        while at < len(mixed):
            size = shuffle.randint(1, 40)
            await analytics.take(mixed[at : at + size])
            at += size
            if shuffle.random() < 0.15:
                await analytics.compute()
        await analytics.compute()
        found = (
            await analytics.facts(),
            await analytics.kpis(),
            await analytics.kpis("other"),
            _open(await analytics.anomalies()),
        )
        expected = expected or found
        assert found == expected
    assert expected is not None
    facts, kpis, *_ = expected
    assert {table: len(rows) for table, rows in facts.items()} == {
        "analytics_hours": 64,
        "analytics_series": 2,
        "analytics_sessions": 6,
        "analytics_weights": 12,
        "analytics_inferences": 12,
        "analytics_losses": 1,
    }
    assert kpis["barn-1", "2026-03-15", "batch", "b0"]["weights"]["animals_weighed"] == 1


def _open(anomalies: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """What was there for a moment, while something had not come yet, is cleared."""
    return [one for one in anomalies if not one[-1]]


async def test_corrections_count_by_their_revision_and_never_backwards(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW)
    for revision, mean in ((41, 20.0), (61, 25.0), (51, 22.0)):
        await analytics.take([events.hour(TODAY, mean, revision=revision)])
    ((*_, found),) = [tuple(row) for row in await cloud_pool.fetch("SELECT revision, mean_value FROM analytics_hours")]
    assert found == 25.0


async def test_tenants_are_apart_even_when_they_name_everything_alike(cloud_pool: Pool) -> None:
    analytics, session = Analytics(cloud_pool, NOW), uuid4()
    theirs = Origin("other", "farm-1", "barn-1", "scale-1")
    await analytics.take(
        [
            events.created(session, TODAY, "b1"),
            events.finalized(session, TODAY, 100.0),
            events.finalized(session, TODAY, 55.0, origin=theirs),
            events.hour(TODAY, 20.0),
            events.hour(TODAY, 30.0, origin=ELSEWHERE),
        ]
    )
    await analytics.compute()
    for tenant_id, kilograms, degrees in (("demo", 100.0, 20.0), ("other", 55.0, 30.0)):
        barn = (await analytics.kpis(tenant_id))["barn-1", "2026-03-15", "barn", ""]
        assert barn["weights"]["mean_kg"] == kilograms
        assert barn["comfort"]["temperature_mean_c"] == degrees
    batches = await cloud_pool.fetch("SELECT tenant_id, batch_id FROM analytics_kpis WHERE scope = 'batch' ORDER BY 1")
    assert [tuple(row) for row in batches] == [("demo", "b1"), ("other", "")]


async def test_a_pack_of_many_channels_is_one_row_each(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW)
    packs = [events.pack([NOW - timedelta(seconds=second) for second in range(200)], [1.0] * 200) for _ in range(50)]
    await analytics.take(packs)
    rows = await cloud_pool.fetch("SELECT metric_type, heard_at FROM analytics_series ORDER BY 1")
    assert [tuple(row) for row in rows] == [("humidity", NOW - timedelta(seconds=1)), ("temperature", NOW)]
    assert await analytics.marks() == []
