"""What the gateway forgets, and that forgetting it costs no sample and doubles none."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.edge.ingress_gateway.jobs import jobs
from farmiq.edge.ingress_gateway.settings import CleanupSettings
from farmiq.kit.ids import new_id
from farmiq.kit.jobs import Job
from farmiq.kit.postgres import Pool
from farmiq.kit.settings import load
from support.gateway import forget_announcements
from support.stored_months import run_now
from support.telemetry import batch_message, loss_message, reading_message


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


def job(name: str, **environ: str) -> Job:
    return next(one for one in jobs(environ) if one.name == name)


async def see(pool: Pool, now: datetime, *ages: timedelta) -> None:
    await pool.executemany(
        "INSERT INTO ingress_dedupe (tenant_id, event_id, first_seen_at) VALUES ('demo', $1, $2)",
        [(new_id(), now - age) for age in ages],
    )


async def count(pool: Pool, table: str) -> int:
    return int(await pool.fetchval(f"SELECT count(*) FROM {table}"))  # noqa: S608 - a name from this file


def test_the_defaults_are_the_documented_ones() -> None:
    settings = load(CleanupSettings, {})
    assert settings.ingress_dedupe_ttl_hours == 72
    assert (settings.ingress_rejected_ttl_hours, settings.ingress_rejected_rows_max) == (168, 20_000)


async def test_the_rejected_messages_of_one_device_do_not_push_out_those_of_others(
    edge_pool: Pool, now: datetime
) -> None:
    await edge_pool.execute(
        """INSERT INTO ingress_rejected (received_at, topic, reason, payload, payload_size_bytes, tenant_id, device_id)
           SELECT $1::timestamptz - make_interval(secs => n), 't', 'malformed', ''::bytea, 0, 'demo', 'flooder'
             FROM generate_series(1, 2000) AS n
           UNION ALL SELECT $1::timestamptz - interval '1 day', 't', 'malformed', ''::bytea, 0, 'demo', 'other'""",
        now,
    )
    limits = {"INGRESS_REJECTED_ROWS_MAX": "1000", "INGRESS_REJECTED_ROWS_PER_DEVICE_MAX": "50"}
    assert await run_now(edge_pool, job("ingress-rejected-cleanup", **limits)) == {"rows": 1950}
    kept = await edge_pool.fetch("SELECT device_id, count(*) AS n FROM ingress_rejected GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in kept] == [("flooder", 50), ("other", 1)]


async def test_the_ttl_is_in_hours(edge_pool: Pool, now: datetime) -> None:
    await see(edge_pool, now, timedelta(hours=71), timedelta(hours=73), timedelta(days=30), timedelta(seconds=73))
    assert await run_now(edge_pool, job("ingress-dedupe-cleanup")) == {"rows": 2}
    assert await edge_pool.fetchval("SELECT min(first_seen_at) FROM ingress_dedupe") == now - timedelta(hours=71)


async def test_the_ttl_can_be_set(edge_pool: Pool, now: datetime) -> None:
    await see(edge_pool, now, timedelta(hours=1, minutes=1), timedelta(minutes=59))
    short = job("ingress-dedupe-cleanup", INGRESS_DEDUPE_TTL_HOURS="1")
    assert await run_now(edge_pool, short, is_dry_run=True) == {"rows": 1}
    assert await count(edge_pool, "ingress_dedupe") == 2
    assert await run_now(edge_pool, short) == {"rows": 1}


async def test_what_comes_again_after_it_was_forgotten_is_still_stored_once(edge_pool: Pool, now: datetime) -> None:
    async with edge_pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id="node-1", kind="node"
        )
        await forget_announcements(connection)
    stream = uuid4()
    messages = [
        batch_message(stream, 1, 10, event_id=new_id()),
        reading_message(26.4, event_id=new_id()),
        loss_message(stream, 11, 20, event_id=new_id()),
    ]
    tables = ("telemetry_raw", "stream_losses", "sync_outbox")
    await ingest(edge_pool, messages, now - timedelta(hours=100))
    before = [await count(edge_pool, table) for table in tables]
    tallies = await edge_pool.fetchval("SELECT sum(count) FROM telemetry_agg")
    assert await run_now(edge_pool, job("ingress-dedupe-cleanup")) == {"rows": 3}

    (again,) = await ingest(edge_pool, messages, now)
    assert again.samples_stored == 0
    assert [await count(edge_pool, table) for table in tables] == before == [11, 1, 3]
    assert await edge_pool.fetchval("SELECT sum(count) FROM telemetry_agg") == tallies
    assert [mark.acked_seq for mark in again.marks] == [20]


@pytest.mark.parametrize(("rows", "age_hours", "left"), [(1500, 1, 1000), (900, 1, 900), (900, 169, 0)])
async def test_rejected_messages_are_bounded_by_age_and_by_rows(
    edge_pool: Pool, now: datetime, rows: int, age_hours: int, left: int
) -> None:
    await edge_pool.executemany(
        "INSERT INTO ingress_rejected (received_at, topic, reason, payload, payload_size_bytes)"
        " VALUES ($1, 't', 'r', '', 0)",
        [(now - timedelta(hours=age_hours, milliseconds=number),) for number in range(rows)],
    )
    await run_now(edge_pool, job("ingress-rejected-cleanup", INGRESS_REJECTED_ROWS_MAX="1000"))
    assert await count(edge_pool, "ingress_rejected") == left
    if left:
        newest = await edge_pool.fetchval("SELECT max(received_at) FROM ingress_rejected")
        assert newest == now - timedelta(hours=age_hours)
