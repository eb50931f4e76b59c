"""A month goes when it is past its retention and in the cloud, and taking it away holds nobody up."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import asyncpg
import pytest

from farmiq.edge.telemetry_timeseries import cleanup
from farmiq.edge.telemetry_timeseries.jobs import jobs
from farmiq.kit import month_partitions
from farmiq.kit.jobs import Job
from farmiq.kit.postgres import Pool
from farmiq.outbox.unsent import UNSENT
from support.outbox_rows import fill_outbox
from support.stored_months import (
    StoppedClock,
    acknowledge,
    months_ago,
    partition_of,
    partitions_there,
    run_now,
    settle_outbox,
    start_of,
    store_month,
    store_samples,
)
from support.waiting import eventually

OLD = months_ago(5)
"""Past 90 days whatever the day of the month is."""


def job(name: str, **environ: str) -> Job:
    return next(one for one in jobs(environ) if one.name == name)


RETENTION = job("telemetry-retention")


async def alerts(pool: Pool) -> dict[str, str]:
    return {row["kind"]: row["status"] for row in await pool.fetch("SELECT kind, status FROM ops_alerts")}


async def raw_rows(pool: Pool) -> int:
    return int(await pool.fetchval("SELECT count(*) FROM telemetry_raw"))


async def test_this_month_and_the_next_two_are_made_ahead(edge_pool: Pool) -> None:
    later = StoppedClock(start_of(months_ago(-12)) + timedelta(days=14))
    made = {partition_of(months_ago(-12 - ahead)) for ahead in range(3)}
    assert not made & await partitions_there(edge_pool)
    assert await run_now(edge_pool, job("telemetry-partitions"), clock=later) == {"made": 3, "postponed": 0}
    assert made <= await partitions_there(edge_pool)
    assert await run_now(edge_pool, job("telemetry-partitions"), clock=later) == {"made": 0, "postponed": 0}


async def test_rows_that_wait_in_the_default_partition_get_their_month(edge_pool: Pool, edge_url: str) -> None:
    reader = await asyncpg.connect(edge_url)
    reading = reader.transaction()
    await reading.start()
    await reader.fetchval("SELECT count(*) FROM telemetry_raw")  # while it reads, no partition can be made
    await store_month(edge_pool, OLD)
    assert partition_of(OLD) not in await partitions_there(edge_pool)
    await reading.rollback()
    await reader.close()
    assert (await run_now(edge_pool, job("telemetry-partitions")))["made"] == 1
    assert await edge_pool.fetchval(f"SELECT count(*) FROM {partition_of(OLD)}") == 5  # noqa: S608 - ours


async def test_a_month_past_retention_goes_when_the_cloud_has_it_and_a_younger_one_stays(edge_pool: Pool) -> None:
    for month in (OLD, months_ago(1)):
        await store_month(edge_pool, month)
    await acknowledge(edge_pool)
    before = await partitions_there(edge_pool)
    foretold = await run_now(edge_pool, RETENTION, is_dry_run=True)
    assert await partitions_there(edge_pool) == before
    report = await run_now(edge_pool, RETENTION)
    assert report == foretold
    assert (report["dropped_partitions"], report["held"], report["forced"]) == ([partition_of(OLD)], 0, 0)
    assert before - await partitions_there(edge_pool) == {partition_of(OLD)}
    assert await raw_rows(edge_pool) == 5
    assert await alerts(edge_pool) == {}


async def test_a_month_is_kept_to_its_last_day(edge_pool: Pool) -> None:
    await store_month(edge_pool, OLD)
    await acknowledge(edge_pool)
    end_at = start_of(month_partitions.month_after(OLD)) + timedelta(days=90)
    almost = StoppedClock(end_at - timedelta(microseconds=1))
    assert (await run_now(edge_pool, RETENTION, clock=almost))["dropped"] == 0
    assert (await run_now(edge_pool, RETENTION, clock=StoppedClock(end_at)))["dropped"] == 1


@pytest.mark.parametrize("fate", [(), ("claimed",), ("claimed", "sending"), ("claimed", "dlq")])
async def test_what_the_cloud_does_not_have_holds_its_month_until_it_has_it(
    edge_pool: Pool, fate: tuple[str, ...]
) -> None:
    await store_month(edge_pool, OLD)
    await settle_outbox(edge_pool, *fate)
    report = await run_now(edge_pool, RETENTION)
    assert (report["held_partitions"], report["dropped"]) == ([partition_of(OLD)], 0)
    assert await alerts(edge_pool) == {"retention_held": "open"}
    assert await raw_rows(edge_pool) == 5

    await edge_pool.execute("UPDATE sync_outbox SET status = 'pending' WHERE status = 'dlq'")
    await acknowledge(edge_pool)
    assert (await run_now(edge_pool, RETENTION))["dropped"] == 1
    assert await alerts(edge_pool) == {"retention_held": "closed"}


async def test_a_parked_event_and_one_that_an_old_version_gave_up_hold_their_month(edge_pool: Pool) -> None:
    await store_month(edge_pool, OLD)
    await edge_pool.execute("UPDATE sync_outbox SET parked = true, next_attempt_at = now() + interval '1 hour'")
    assert (await run_now(edge_pool, RETENTION))["held"] == 1
    await acknowledge(edge_pool)
    at = start_of(OLD) + timedelta(days=3)
    await fill_outbox(edge_pool, 1, event_type="telemetry.ingested", occurred_at=at)
    await edge_pool.execute("ALTER TABLE sync_outbox DISABLE TRIGGER sync_outbox_transition")
    await edge_pool.execute("UPDATE sync_outbox SET status = 'failed' WHERE status = 'pending'")
    assert (await run_now(edge_pool, RETENTION))["held"] == 1


async def test_events_of_other_kinds_and_other_months_hold_nothing(edge_pool: Pool) -> None:
    await store_month(edge_pool, OLD)
    await acknowledge(edge_pool)
    inside = start_of(OLD) + timedelta(days=3)
    await fill_outbox(edge_pool, 3, event_type="weighvision.session.created", occurred_at=inside)
    await fill_outbox(edge_pool, 3, event_type="telemetry.ingested", occurred_at=datetime.now(UTC))
    assert (await run_now(edge_pool, RETENTION))["dropped"] == 1


async def test_a_pack_over_the_end_of_a_month_holds_both_months(edge_pool: Pool) -> None:
    following = month_partitions.month_after(OLD)
    border = start_of(following)
    await store_samples(edge_pool, [border - timedelta(seconds=1), border])
    report = await run_now(edge_pool, RETENTION, clock=StoppedClock(datetime.now(UTC) + timedelta(days=60)))
    assert {partition_of(OLD), partition_of(following)} <= set(_names(report["held_partitions"]))


async def test_a_pack_whose_clock_was_set_back_on_the_way_holds_the_month_it_came_to(edge_pool: Pool) -> None:
    inside = start_of(OLD) + timedelta(days=3)
    await store_samples(edge_pool, [datetime.now(UTC), inside])
    assert (await run_now(edge_pool, RETENTION))["held_partitions"] == [partition_of(OLD)]


async def test_with_more_on_its_way_than_is_looked_at_nothing_goes(
    edge_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "UNSENT_EXAMINED_MAX", 10)
    await store_month(edge_pool, OLD)
    await acknowledge(edge_pool)
    await fill_outbox(edge_pool, 11, event_type="telemetry.ingested", occurred_at=datetime.now(UTC))
    assert (await run_now(edge_pool, RETENTION))["held"] == 1
    await acknowledge(edge_pool)
    assert (await run_now(edge_pool, RETENTION))["dropped"] == 1


async def test_what_is_unsent_is_found_without_reading_what_was_sent(edge_pool: Pool) -> None:
    await fill_outbox(edge_pool, 5_000, event_type="telemetry.ingested", occurred_at=start_of(OLD))
    await acknowledge(edge_pool)
    await fill_outbox(edge_pool, 20, event_type="telemetry.ingested", occurred_at=start_of(OLD))
    await edge_pool.execute("VACUUM ANALYZE sync_outbox")
    plan = await edge_pool.fetch(f"EXPLAIN {UNSENT}", list(cleanup.MEASURED), "t", 5001)
    text = "\n".join(row[0] for row in plan)
    assert "Seq Scan" not in text
    assert text.count("Scan using") + text.count("Bitmap Index Scan") == 5


async def test_without_require_sync_it_goes_all_the_same_and_somebody_is_told(edge_pool: Pool) -> None:
    await store_month(edge_pool, OLD)
    await settle_outbox(edge_pool, "claimed", "dlq")
    forcing = job("telemetry-retention", RETENTION_REQUIRE_SYNC="false")
    report = await run_now(edge_pool, forcing)
    assert (report["dropped"], report["forced"], report["held"]) == (1, 1, 0)
    assert partition_of(OLD) not in await partitions_there(edge_pool)
    assert await alerts(edge_pool) == {"retention_forced": "open"}


async def test_samples_without_a_believable_time_go_by_when_they_came_in(edge_pool: Pool) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=91)
    unset, ahead = datetime(1970, 1, 2, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)
    await store_samples(edge_pool, [unset, ahead], received_at=long_ago)
    await edge_pool.execute("UPDATE sync_outbox SET created_at = $1", long_ago)
    await store_samples(edge_pool, [unset, ahead])
    assert (await run_now(edge_pool, RETENTION))["undated_rows"] == 0
    assert await alerts(edge_pool) == {"retention_held": "open"}
    await acknowledge(edge_pool)
    assert (await run_now(edge_pool, RETENTION))["undated_rows"] == 2
    assert await raw_rows(edge_pool) == 2


async def test_a_month_that_comes_again_after_it_went_is_stored_and_goes_again(edge_pool: Pool) -> None:
    await store_month(edge_pool, OLD)
    await acknowledge(edge_pool)
    await run_now(edge_pool, RETENTION)
    await store_month(edge_pool, OLD)
    assert await raw_rows(edge_pool) == 5
    assert (await run_now(edge_pool, RETENTION))["held"] == 1
    await acknowledge(edge_pool)
    assert (await run_now(edge_pool, RETENTION))["dropped"] == 1


async def test_a_long_query_puts_the_drop_off_and_the_samples_go_on_coming(
    edge_pool: Pool, edge_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(month_partitions, "ATTEMPTS", 3)
    await store_month(edge_pool, OLD)
    await acknowledge(edge_pool)
    reader = await asyncpg.connect(edge_url)
    reading = reader.transaction()
    await reading.start()
    await reader.fetchval("SELECT count(*) FROM telemetry_raw")

    dropping = asyncio.create_task(run_now(edge_pool, RETENTION))
    stored = 0
    while not dropping.done():
        await store_samples(edge_pool, [datetime.now(UTC)])
        stored += 1
    assert (await dropping)["postponed"] == 1
    assert stored > 1
    assert await raw_rows(edge_pool) == 5 + stored

    await reading.rollback()
    await reader.close()
    assert (await run_now(edge_pool, RETENTION))["dropped"] == 1
    assert await raw_rows(edge_pool) == stored


async def test_samples_that_keep_coming_neither_fail_nor_stop_the_drop(edge_pool: Pool) -> None:
    months: list[date] = [months_ago(number) for number in range(5, 9)]
    for month in months:
        await store_month(edge_pool, month)
    await acknowledge(edge_pool)
    is_over = asyncio.Event()

    async def write() -> int:
        written = 0
        while not is_over.is_set():
            await store_samples(edge_pool, [datetime.now(UTC)])
            written += 1
        return written

    writers = [asyncio.create_task(write()) for _ in range(3)]
    gone: set[str] = set()

    async def all_gone() -> bool:
        gone.update(_names((await run_now(edge_pool, RETENTION)).get("dropped_partitions", [])))
        return gone == {partition_of(month) for month in months}

    await eventually(all_gone)
    is_over.set()
    written = sum(await asyncio.gather(*writers))
    assert await raw_rows(edge_pool) == written


def _names(value: int | list[str]) -> list[str]:
    assert isinstance(value, list)
    return value
