from datetime import timedelta
from uuid import UUID

from farmiq.kit.postgres import Connection, Pool
from farmiq.outbox.claim import claim
from farmiq.outbox.resend import BEHIND, resend
from farmiq.outbox.retire import START
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import acked
from support.outbox_rows import count_by_status, fill_outbox, outbox_row

HOUR = timedelta(hours=1)


async def deliver(connection: Connection, tenant_id: str = "demo") -> None:
    events = await claim(connection, tenant_id, instance_id="a", limit=100, lease_seconds=60)
    await settle(connection, [acked(event) for event in events])


async def resend_all(pool: Pool, tenant_id: str = "demo", *, limit: int = 2) -> int:
    """Everything that was acknowledged until now."""
    now = await pool.fetchval("SELECT clock_timestamp()")
    after, resent = START, 0
    while True:
        async with pool.acquire() as connection:
            page = await resend(connection, tenant_id, after, since=now - HOUR, until=now, limit=limit)
        resent += page.resent
        if page.last_id is None:
            return resent
        after = page.last_id


async def test_what_was_acknowledged_goes_out_again_under_its_own_id(pool: Pool) -> None:
    ids = await fill_outbox(pool, 5, occurred_at=None, trace_id="trace-7")
    async with pool.acquire() as connection:
        await deliver(connection)
        before = [dict(await outbox_row(pool, event_id)) for event_id in ids]
        assert await resend_all(pool) == 5
        kept = ("id", "payload_json", "payload_size_bytes", "created_at", "trace_id", "device_id", "event_type")
        for old in before:
            row = await outbox_row(pool, old["id"])
            assert [row[name] for name in kept] == [old[name] for name in kept]
            assert (row["status"], row["attempt_count"], row["priority"]) == ("pending", 0, BEHIND)
        # A settlement of the delivery before finds none of its rows.
        events = await claim(connection, "demo", instance_id="b", limit=9, lease_seconds=60)
        assert {event.id for event in events} == set(ids)
        assert {event.claim_token for event in events} == {2}


async def test_only_what_the_cloud_had_of_this_tenant_in_that_time_is_sent_again(pool: Pool) -> None:
    [old], [others], [recent], [waiting] = [
        await fill_outbox(pool, 1, tenant) for tenant in ("demo", "x", "demo", "demo")
    ]
    async with pool.acquire() as connection:
        await deliver(connection, "x")
        await _acknowledge(connection, recent)
        await _acknowledge(connection, old)
    await pool.execute("UPDATE sync_outbox SET updated_at = updated_at - interval '2 hours' WHERE id = $1", old)
    assert await resend_all(pool) == 1
    states = {row["id"]: row["status"] for row in await pool.fetch("SELECT id, status FROM sync_outbox")}
    assert states == {old: "acked", others: "acked", recent: "pending", waiting: "pending"}


async def test_what_is_acknowledged_once_more_meanwhile_does_not_go_round(pool: Pool) -> None:
    await fill_outbox(pool, 3)
    async with pool.acquire() as connection:
        await deliver(connection)
        until = await connection.fetchval("SELECT clock_timestamp()")
        assert (await resend(connection, "demo", START, since=until - HOUR, until=until)).resent == 3
        await deliver(connection)
        assert (await resend(connection, "demo", START, since=until - HOUR, until=until)).resent == 0
    assert await count_by_status(pool) == {"acked": 3}


async def _acknowledge(connection: Connection, event_id: UUID) -> None:
    await connection.execute("UPDATE sync_outbox SET status = 'claimed' WHERE id = $1", event_id)
    await connection.execute("UPDATE sync_outbox SET status = 'acked' WHERE id = $1", event_id)
