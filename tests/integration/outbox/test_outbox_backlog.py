from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
from msgspec import Raw

from farmiq.kit.postgres import Connection, Pool
from farmiq.outbox import Event, append
from farmiq.outbox.backlog import _ENTRIES, _WHERE_OF_TENANT, entries, measure, next_due_seconds, waiting_of
from farmiq.outbox.claim import claim
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import Failure, RetryPolicy, failed
from support.outbox_rows import fill_outbox

REFUSED = Failure("HTTP_500", "the cloud failed")


async def test_an_empty_outbox_measures_nothing(pool: Pool) -> None:
    async with pool.acquire() as connection:
        depth = await measure(connection)
        assert (depth.pending_count, depth.claimed_count, depth.dlq_count) == (0, 0, 0)
        assert depth.oldest_pending_age_seconds == 0
        assert await next_due_seconds(connection) is None


async def test_every_state_is_counted_and_parked_rows_are_pending(pool: Pool) -> None:
    await fill_outbox(pool, 7)
    async with pool.acquire() as connection:
        first, second, _third = await claim(connection, "demo", instance_id="a", limit=3, lease_seconds=60)
        await settle(
            connection,
            [
                failed(first, REFUSED, RetryPolicy(), 0.0),
                failed(second, REFUSED, RetryPolicy(attempts_max=1), 0.0),
            ],
        )
        depth = await measure(connection)
        assert (depth.pending_count, depth.claimed_count, depth.dlq_count) == (5, 1, 1)
        assert [entry.id for entry in await entries(connection, "dlq", limit=10)] == [second.id]
        assert [entry.status for entry in await entries(connection, "claimed", limit=10)] == ["claimed"]
        pending = await entries(connection, "pending", limit=10)
        assert len(pending) == 5
        assert pending[-1].id == first.id
        assert pending[-1].last_error_code == "HTTP_500"
        assert len(await entries(connection, None, limit=4)) == 4
        due = await next_due_seconds(connection)
        assert due is not None
        assert 0 < due <= 2


async def test_the_oldest_row_is_found_behind_every_tenant_and_priority(pool: Pool) -> None:
    now = datetime.now(UTC)
    for hours, tenant_id, priority in ((1, "a", 9), (2, "a", 0), (5, "m", -3), (3, "z", 5), (4, "z", 4)):
        await fill_outbox(pool, 2, tenant_id=tenant_id, priority=priority, occurred_at=now - timedelta(hours=hours))
    async with pool.acquire() as connection:
        depth = await measure(connection)
        assert 5 * 3600 <= depth.oldest_pending_age_seconds < 5 * 3600 + 60
        await connection.execute("UPDATE sync_outbox SET parked = true WHERE tenant_id = 'm'")
        assert (await measure(connection)).oldest_pending_age_seconds >= 5 * 3600
        await connection.execute("UPDATE sync_outbox SET parked = false, status = 'dlq' WHERE tenant_id = 'm'")
        assert 4 * 3600 <= (await measure(connection)).oldest_pending_age_seconds < 5 * 3600


async def test_rows_in_flight_have_an_age_too(pool: Pool) -> None:
    """A request that gets no response holds its rows for minutes: the cloud does not have them all this time."""
    await fill_outbox(pool, 3, occurred_at=datetime.now(UTC) - timedelta(hours=1))
    async with pool.acquire() as connection:
        claimed = await claim(connection, "demo", instance_id="a", limit=3, lease_seconds=60)
        depth = await measure(connection)
        assert (depth.pending_count, depth.claimed_count, len(claimed)) == (0, 3, 3)
        assert 3600 <= depth.oldest_pending_age_seconds < 3660
        await connection.execute("UPDATE sync_outbox SET status = 'sending'")
        assert (await measure(connection)).oldest_pending_age_seconds >= 3600


async def test_a_long_backlog_is_told_from_statistics_and_not_counted(pool: Pool) -> None:
    await pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, occurred_at, payload_json, status, parked)"
        " SELECT gen_random_uuid(), 'demo', 'test.event', now(), '{}', CASE WHEN n <= 4000 THEN 'acked' ELSE 'pending' END,"
        "        n > 10000 FROM generate_series(1, 14000) AS n"
    )
    async with pool.acquire() as connection:
        await connection.execute("VACUUM ANALYZE sync_outbox")
        before = await entries_read(connection)
        depth = await measure(connection, counted_max=1000)
        read = {name: count - before[name] for name, count in (await entries_read(connection)).items()}
    assert 9000 <= depth.pending_count <= 11000
    assert read.pop("seq_scan") == 0
    assert max(read.values()) <= 2100
    async with pool.acquire() as connection:
        assert (await measure(connection)).pending_count == 10000


async def entries_read(connection: Connection) -> dict[str, int]:
    await connection.execute("SELECT pg_stat_force_next_flush()")
    rows = await connection.fetch(
        "SELECT indexrelname AS name, idx_tup_read AS count FROM pg_stat_user_indexes WHERE relname = 'sync_outbox'"
        " UNION ALL SELECT 'seq_scan', seq_scan FROM pg_stat_user_tables WHERE relname = 'sync_outbox'"
    )
    return {row["name"]: row["count"] for row in rows}


async def test_rows_of_one_tenant_are_found_behind_any_number_of_others(pool: Pool) -> None:
    await fill_outbox(pool, 30, tenant_id="a")
    late, first, *_ = await fill_outbox(pool, 5, tenant_id="b")
    await pool.execute("UPDATE sync_outbox SET parked = true, next_attempt_at = now() + '1 h' WHERE id = $1", late)
    async with pool.acquire() as connection:
        found = await entries(connection, "pending", limit=5, tenant_id="b")
        assert {entry.tenant_id for entry in found} == {"b"}
        assert (found[0].id, found[-1].id) == (first, late)
        assert len(await entries(connection, None, limit=9, tenant_id="b")) == 5
        assert await entries(connection, "pending", limit=9, tenant_id="c") == []
        for status in ("claimed", "sending", "acked", "dlq", "failed"):
            assert await entries(connection, status, limit=9, tenant_id="b") == []
        assert await waiting_of(connection, "b", counted_max=100) == 5
        assert await waiting_of(connection, "a", counted_max=7) == 7


async def test_what_waits_of_one_tenant_is_read_from_its_part_of_the_index(pool: Pool) -> None:
    await pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, occurred_at, payload_json)"
        " SELECT gen_random_uuid(), 'a', 'test.event', now(), '{}' FROM generate_series(1, 20000)"
    )
    await fill_outbox(pool, 3, tenant_id="b")
    await pool.execute("ANALYZE sync_outbox")
    query = _ENTRIES + _WHERE_OF_TENANT["pending"].replace("$1", "50").replace("$2", "'b'")
    [plan] = msgspec.json.decode(await pool.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}"))
    scan = plan["Plan"]
    while "Plans" in scan:
        [scan] = scan["Plans"]
    assert (scan["Index Name"], scan["Actual Rows"]) == ("sync_outbox_claimable", 3)


async def test_the_newest_are_those_that_happened_last_whatever_their_ids_say(pool: Pool) -> None:
    now = await pool.fetchval("SELECT now()")
    times = {UUID(int=2**127 - hours): now - timedelta(hours=hours) for hours in (30, 1, 50, 3)}
    times[UUID(int=1)] = now
    async with pool.acquire() as connection:
        events = [
            Event(id=event_id, tenant_id="demo", event_type="x", occurred_at=at, payload=Raw(b"{}"))
            for event_id, at in times.items()
        ]
        await append(connection, events)
        newest_first = sorted(times, key=lambda event_id: times[event_id], reverse=True)
        for tenant_id in (None, "demo"):
            for limit in (2, 3, 5):
                found = await entries(connection, None, limit=limit, tenant_id=tenant_id)
                assert [entry.id for entry in found] == newest_first[:limit]
        assert (
            await entries(connection, "acked", limit=3) == await entries(connection, None, limit=3, tenant_id="x") == []
        )
