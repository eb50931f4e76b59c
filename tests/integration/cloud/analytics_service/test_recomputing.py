"""Late data compute again what they change, and only that; whatever happens on the way, no change is forgotten."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from farmiq.cloud.analytics_service import marks, results, rows
from farmiq.cloud.analytics_service.barn_day import DAYS_BEFORE, Judgement
from farmiq.cloud.analytics_service.marks import MarkedDay
from farmiq.cloud.analytics_service.worker import DayFailed
from farmiq.contracts.telemetry import pack_of
from farmiq.contracts.timestamps import from_us
from farmiq.kit.amqp import Delivery
from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin
from support import analytics_events as events
from support.analytics_service import HOURS_RETENTION_DAYS, Analytics
from support.telemetry import HERE, START_US, batch_of

NOW = datetime(2026, 3, 15, 23, 30, tzinfo=UTC)
TODAY = NOW.replace(hour=0, minute=0)
NEIGHBOUR = Origin("demo", "farm-1", "barn-2", "node-2")


def days_of_hours(days: int, *, until: datetime = TODAY, leave_out: tuple[int, ...] = ()) -> list[Delivery]:
    """Hourly means up to the end of the day that begins at `until`; on that day some hours are left out."""
    start_at = until - timedelta(days=days)
    hours = [start_at + timedelta(hours=hour) for hour in range((days + 1) * 24)]
    return [
        events.hour(at, 20.0 + at.hour / 10 + 0.05 * ((at.day * 5 + at.hour) % 3))
        for at in hours
        if at < until or at.hour not in leave_out
    ]


async def computed(pool: Pool) -> dict[tuple[str, date], datetime]:
    found = await pool.fetch("SELECT barn_id, day, computed_at FROM analytics_kpis WHERE scope = 'barn'")
    return {(row["barn_id"], row["day"]): row["computed_at"] for row in found}


async def kinds(analytics: Analytics) -> list[tuple[Any, ...]]:
    """Kind and whether it is cleared."""
    return [(one[3], one[-1]) for one in await analytics.anomalies()]


async def test_a_hole_that_late_data_fill_is_cleared_and_keeps_its_identity(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW)
    late = tuple(range(3, 9))
    await analytics.take(days_of_hours(5, leave_out=late))
    await analytics.compute()
    assert await kinds(analytics) == [("dropout", False)]
    ((first_id, *_),) = await analytics.anomalies()
    kpi = (await analytics.kpis())["barn-1", "2026-03-15", "barn", ""]
    assert kpi["data"]["completeness"] == pytest.approx(17 / 23)

    analytics.now = NOW + timedelta(seconds=20)
    await analytics.take([events.hour(TODAY + timedelta(hours=3), 20.3)])
    await analytics.compute()
    ((same_id, *_, explanation, _evidence, _count, is_cleared),) = [
        (one[0], *one[11:]) for one in await analytics.anomalies()
    ]
    assert same_id == first_id
    assert "5 hours" in explanation
    assert not is_cleared

    analytics.now = NOW + timedelta(seconds=40)
    await analytics.take([events.hour(TODAY + timedelta(hours=hour), 20.0 + hour / 10) for hour in late])
    await analytics.compute()
    assert await kinds(analytics) == [("dropout", True)]
    kpi = (await analytics.kpis())["barn-1", "2026-03-15", "barn", ""]
    assert kpi["data"]["completeness"] == 1.0

    await cloud_pool.execute(
        "DELETE FROM analytics_hours WHERE hour_at >= $1 AND hour_at < $2", TODAY, TODAY + timedelta(hours=9)
    )
    async with cloud_pool.acquire() as connection:
        await marks.mark(connection, [marks.Touched("demo", "farm-1", "barn-1", TODAY.date(), TODAY.date())])
    await analytics.compute()
    ((again_id, *_, is_cleared),) = await analytics.anomalies()
    assert again_id == first_id
    assert not is_cleared
    assert await cloud_pool.fetchval("SELECT detected_at FROM analytics_anomalies") == NOW


async def test_only_the_days_that_a_change_reaches_are_computed_again(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW)
    days = 30
    await analytics.take(days_of_hours(days))
    await analytics.take([events.hour(TODAY, 18.0, origin=NEIGHBOUR)])
    await analytics.compute()
    before = await computed(cloud_pool)
    assert len(before) == days + 2  # and the neighbour's one

    analytics.now = later = NOW + timedelta(minutes=5)
    changed = TODAY - timedelta(days=20)
    await analytics.take([events.hour(changed + timedelta(hours=4), 24.0, revision=999)])
    assert await analytics.compute() == DAYS_BEFORE + 1
    again = {day for (_barn, day), at in (await computed(cloud_pool)).items() if at == later}
    assert again == {(changed + timedelta(days=day)).date() for day in range(DAYS_BEFORE + 1)}

    # The same once more changes nothing, and nothing is computed.
    await analytics.take([events.hour(changed + timedelta(hours=4), 23.0, revision=500)])
    assert await analytics.compute() == 0


async def test_a_late_weight_changes_the_growth_of_every_later_day(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW)
    for days_ago in (0, 1, 2):
        for animal in range(3):
            session, at = uuid4(), TODAY - timedelta(days=days_ago) + timedelta(hours=9, minutes=animal)
            await analytics.take(
                [events.created(session, at), events.finalized(session, at, 100.0 - days_ago + animal)]
            )
    await analytics.compute()
    gain = (await analytics.kpis())["barn-1", "2026-03-15", "batch", "b1"]["growth"]["batch"]
    assert (gain["daily_gain_kg"], gain["days"], gain["weights"]) == (1.0, 3, 9)

    # An edge that was away tells of a weighing ten days ago.
    old, at = uuid4(), TODAY - timedelta(days=10, hours=-8)
    await analytics.take([events.finalized(old, at, 90.0)])
    await analytics.compute()
    unnamed = (await analytics.kpis())["barn-1", "2026-03-05", "batch", ""]
    assert unnamed["weights"]["animals_weighed"] == 1
    await analytics.take([events.created(old, at - timedelta(minutes=1))])
    await analytics.compute()
    kpis = await analytics.kpis()
    assert ("barn-1", "2026-03-05", "batch", "") not in kpis
    assert kpis["barn-1", "2026-03-05", "batch", "b1"]["growth"] is None
    for day, weights in (("2026-03-13", 4), ("2026-03-14", 7), ("2026-03-15", 10)):
        gain = kpis["barn-1", day, "batch", "b1"]["growth"]["batch"]
        assert (gain["days"], gain["weights"]) == (int(day[-2:]) - 4, weights)


async def test_an_inference_that_comes_after_midnight_belongs_to_its_sessions_day(cloud_pool: Pool) -> None:
    analytics, session = Analytics(cloud_pool, NOW), uuid4()
    await analytics.take([events.created(session, TODAY), events.finalized(session, TODAY, 100.0)])
    await analytics.compute()
    assert (await analytics.kpis())["barn-1", "2026-03-15", "batch", "b1"]["vision"] is None
    analytics.now = NOW + timedelta(days=1)
    await analytics.take([events.seen(session, TODAY + timedelta(days=1, hours=1), 104.0)])
    await analytics.compute()
    vision = (await analytics.kpis())["barn-1", "2026-03-15", "batch", "b1"]["vision"]
    assert vision["mean_error_kg"] == 4.0


async def test_a_session_that_was_told_in_another_barn_leaves_the_first(cloud_pool: Pool) -> None:
    analytics, session = Analytics(cloud_pool, NOW), uuid4()
    await analytics.take([events.finalized(session, TODAY, 100.0)])
    await analytics.compute()
    assert ("barn-1", "2026-03-15", "barn", "") in await analytics.kpis()
    moved = Origin("demo", "farm-1", "barn-2", "scale-1")
    await analytics.take([events.finalized(session, TODAY + timedelta(hours=1), 100.0, origin=moved)])
    await analytics.compute()
    assert [key[0] for key in await analytics.kpis()] == ["barn-2", "barn-2"]


async def test_of_several_ends_the_highest_revision_counts_and_a_cancelled_session_weighs_nothing(
    cloud_pool: Pool,
) -> None:
    analytics, session, other = Analytics(cloud_pool, NOW), uuid4(), uuid4()
    later = TODAY + timedelta(hours=1)
    await analytics.take([events.finalized(session, TODAY, 90.0, revision=2), events.finalized(other, TODAY, 50.0)])
    await analytics.take(
        [events.finalized(session, later, 100.0, revision=1), events.cancelled(other, later, revision=2)]
    )
    await analytics.compute()
    weights = (await analytics.kpis())["barn-1", "2026-03-15", "barn", ""]["weights"]
    assert (weights["sessions"], weights["mean_kg"]) == (1, 90.0)


async def test_a_mark_made_while_its_day_is_computed_survives(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW)
    await analytics.take([events.hour(TODAY, 20.0)])
    async with cloud_pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        day = await marks.take(connection, is_newest=False, quiet_seconds=0.0)
        assert day == MarkedDay("demo", "farm-1", "barn-1", TODAY.date())
        found = await rows.barn_day(connection, day, analytics.rules.calendar, NOW)
        assert [len(one.hours) for one in found.hours] == [1]
        # Whoever merges does not wait for whoever computes, and another worker takes another day.
        await asyncio.wait_for(analytics.take([events.hour(TODAY + timedelta(hours=1), 21.0)]), 10)
        async with cloud_pool.acquire() as other, other.transaction():
            beside = await marks.take(other, is_newest=False, quiet_seconds=0.0)
            assert beside is None  # the only other mark is of the same day
        await results.replace(connection, day, Judgement([], []), NOW)
        await transaction.commit()
    assert await analytics.marks() == [("demo", "barn-1", TODAY.date())]
    await analytics.compute()
    assert (await analytics.kpis())["barn-1", "2026-03-15", "barn", ""]["data"]["samples"] == 120


async def test_a_day_cut_before_its_commit_is_computed_again(cloud_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    analytics = Analytics(cloud_pool, NOW)
    await analytics.take([events.hour(TODAY, 20.0)])
    marked = await analytics.marks()

    async def cut(*_arguments: object) -> None:
        raise ConnectionResetError("cut")

    with monkeypatch.context() as patched:
        patched.setattr(results, "replace", cut)
        with pytest.raises(ConnectionResetError):
            await analytics.compute()
    assert await analytics.marks() == marked
    assert await analytics.kpis() == {}
    assert await analytics.compute() == len(marked)
    assert len(await analytics.kpis()) == 1


async def test_a_day_that_fails_does_not_keep_the_others_waiting(
    cloud_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics = Analytics(cloud_pool, NOW)
    await analytics.take([events.hour(TODAY, 20.0), events.hour(TODAY, 21.0, origin=NEIGHBOUR)])
    original = rows.barn_day

    async def broken(connection: Any, day: MarkedDay, *rest: Any) -> Any:
        if day.barn_id == "barn-1":
            raise ZeroDivisionError("a bug")
        return await original(connection, day, *rest)

    monkeypatch.setattr(rows, "barn_day", broken)
    failures = 0
    while True:
        try:
            if not await analytics.recomputer.compute_next(NOW, is_newest=True, quiet_seconds=0.0):
                break
        except DayFailed as failed:
            failures += 1
            await analytics.recomputer.postpone(failed)
    assert failures == 1
    assert [key[0] for key in await analytics.kpis()] == ["barn-2"]
    assert {mark[1] for mark in await analytics.marks()} == {"barn-1"}
    assert analytics.registry.get_sample_value("farmiq_analytics_days_failed_total") == 1


async def test_days_too_old_to_be_computed_whole_stay_as_they_are(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW)
    oldest = TODAY - timedelta(days=HOURS_RETENTION_DAYS - DAYS_BEFORE)
    await analytics.take([events.hour(oldest - timedelta(days=DAYS_BEFORE + 1), 20.0)])
    assert await analytics.marks() == []
    await analytics.take([events.hour(oldest - timedelta(days=1), 20.0)])
    assert (await analytics.marks())[0] == ("demo", "barn-1", oldest.date())
    await analytics.compute()
    before = await analytics.kpis()

    analytics.now = NOW + timedelta(days=1)
    async with cloud_pool.acquire() as connection:
        await marks.mark(connection, [marks.Touched("demo", "farm-1", "barn-1", oldest.date(), oldest.date())])
    await cloud_pool.execute("DELETE FROM analytics_hours")
    assert await analytics.compute() == 1
    assert await analytics.kpis() == before


async def test_a_wild_clock_marks_no_day(cloud_pool: Pool) -> None:
    analytics, session = Analytics(cloud_pool, NOW), uuid4()
    for at in (
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2106, 2, 7, 6, tzinfo=UTC),
        datetime(9999, 12, 30, 5, tzinfo=UTC),
    ):
        await analytics.take([events.hour(at, 20.0), events.loss(at, at, 3)])
    await analytics.take([events.finalized(session, datetime(1970, 1, 1, tzinfo=UTC), 5.0)])
    today = TODAY.date()
    # A weight of 1970 is one of every later day's growth, as far back as days are computed.
    assert len(await analytics.marks()) == HOURS_RETENTION_DAYS - DAYS_BEFORE + 1
    assert (await analytics.marks())[-1] == ("demo", "barn-1", today)


async def test_the_farms_day_is_that_of_its_clock(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW, {"FARM_TIMEZONE": "Asia/Bangkok"})
    session = uuid4()
    await analytics.take(
        [
            events.hour(TODAY + timedelta(hours=17), 20.0, origin=HERE),
            events.finalized(session, TODAY - timedelta(hours=7), 90.0),
        ]
    )
    await analytics.compute()
    found = await analytics.kpis()
    assert found["barn-1", "2026-03-15", "barn", ""]["weights"]["animals_weighed"] == 1
    assert found["barn-1", "2026-03-16", "barn", ""]["comfort"]["hours_measured"] == 1


async def test_shortly_before_midnight_tomorrow_is_marked_too(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW + timedelta(minutes=25))
    await analytics.take([events.hour(TODAY - timedelta(days=1), 20.0)])
    assert [mark[2] for mark in await analytics.marks()] == [TODAY.date() + timedelta(days=day) for day in (-1, 0, 1)]


async def test_a_device_that_was_carried_to_another_barn_is_not_missed(cloud_pool: Pool) -> None:
    analytics, moved = Analytics(cloud_pool, NOW), Origin("demo", "farm-1", "barn-2", "node-1")
    await analytics.take(days_of_hours(5, leave_out=tuple(range(6, 24))))
    await analytics.take([events.pack([TODAY + timedelta(hours=5)], [20.0])])
    await analytics.compute()
    assert await kinds(analytics) == [("dropout", False)]
    await analytics.take([events.pack([TODAY + timedelta(hours=7)], [20.0], origin=moved)])
    await analytics.take([events.hour(TODAY, 20.4, revision=999)])
    await analytics.compute()
    assert await kinds(analytics) == [("dropout", True)]
    data = (await analytics.kpis())["barn-1", "2026-03-15", "barn", ""]["data"]
    assert (data["hours_expected"], data["completeness"]) == (6, 1.0)


async def test_the_owner_of_the_samples_says_what_is_stored_and_missing(cloud_pool: Pool) -> None:
    stream, at = uuid4(), from_us(START_US)
    analytics = Analytics(cloud_pool, at + timedelta(hours=2))
    batch = batch_of(stream, 1, 60)
    async with cloud_pool.acquire() as connection, connection.transaction():
        runs = [StreamBatch(HERE, pack_of(batch, 1, 20)), StreamBatch(HERE, pack_of(batch, 31, 60))]
        await admit_batches(connection, runs, analytics.now)
    await analytics.take([events.hour(at.replace(minute=0, second=0), 20.0), events.loss(at, at, 7)])
    await analytics.compute()
    data = (await analytics.kpis())["barn-1", at.date().isoformat(), "barn", ""]["data"]
    assert (data["samples_stored"], data["samples_missing"], data["samples_declared_lost"]) == (50, 10, 7)
