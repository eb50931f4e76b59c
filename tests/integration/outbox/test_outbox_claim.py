import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.outbox import Event, append
from farmiq.outbox.claim import claim, waiting_tenants
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.verdicts import LEASE_EXPIRED

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def fill(pool: Pool, count: int, tenant_id: str = "demo", **fields: Any) -> list[UUID]:
    ids = [new_id() for _ in range(count)]
    given: dict[str, Any] = {"event_type": "test.event", "occurred_at": NOON, "payload": msgspec.Raw(b"{}"), **fields}
    async with pool.acquire() as connection:
        await append(connection, [Event(id=event_id, tenant_id=tenant_id, **given) for event_id in ids])
    return ids


async def take(pool: Pool, limit: int = 100, tenant_id: str = "demo", instance_id: str = "a") -> list[ClaimedEvent]:
    async with pool.acquire() as connection:
        return await claim(connection, tenant_id, instance_id=instance_id, limit=limit, lease_seconds=120)


async def test_a_claim_follows_priority_then_time_and_puts_unknown_times_last(pool: Pool) -> None:
    unknown = await fill(pool, 1, occurred_at=None)
    late = await fill(pool, 1, occurred_at=NOON + timedelta(hours=1))
    early = await fill(pool, 1, occurred_at=NOON - timedelta(days=2))
    urgent = await fill(pool, 1, occurred_at=NOON + timedelta(hours=2), priority=9)
    assert [event.id for event in await take(pool, limit=3)] == urgent + early + late
    assert [event.id for event in await take(pool)] == unknown


async def test_a_claim_is_for_one_tenant_and_marks_the_rows(pool: Pool) -> None:
    ours = await fill(pool, 2)
    await fill(pool, 2, tenant_id="other")
    claimed = await take(pool, instance_id="forwarder-7")
    assert {event.id for event in claimed} == set(ours)
    rows = await pool.fetch(
        "SELECT *, lease_expires_at - claimed_at AS lease FROM sync_outbox WHERE status = 'claimed'"
    )
    assert {row["id"] for row in rows} == set(ours)
    assert {row["claimed_by"] for row in rows} == {"forwarder-7"}
    assert all(timedelta(seconds=119) < row["lease"] < timedelta(seconds=121) for row in rows)
    assert {event.claim_token for event in claimed} == {1}


async def test_what_is_not_due_or_parked_is_not_claimed(pool: Pool) -> None:
    await fill(pool, 3)
    await pool.execute("UPDATE sync_outbox SET next_attempt_at = now() + interval '1 hour'")
    assert await take(pool) == []
    await pool.execute("UPDATE sync_outbox SET next_attempt_at = now(), parked = true")
    assert await take(pool) == []


async def test_a_row_that_an_operator_inserts_by_hand_is_claimed(pool: Pool) -> None:
    await pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, status, next_attempt_at, payload_json)"
        " VALUES (gen_random_uuid(), 'tenant-1', 'test.event', 'pending', NOW(), '{\"test\": 1}')"
    )
    created_at = await pool.fetchval("SELECT created_at FROM sync_outbox")
    (event,) = await take(pool, tenant_id="tenant-1")
    assert (event.occurred_at, event.is_time_known) == (created_at, False)
    assert (event.trace_id, bytes(event.payload)) == (None, b'{"test": 1}')


async def test_every_field_of_a_claimed_event_is_its_own_column(pool: Pool) -> None:
    """They are filled by their places, so that two of the same type could change theirs unseen."""
    fields: dict[str, Any] = {
        "farm_id": "f",
        "barn_id": "b",
        "device_id": "d",
        "session_id": new_id(),
        "trace_id": "t",
        "priority": 7,
    }
    (event_id,) = await fill(pool, 1, **fields, event_type="e", payload=msgspec.Raw(b"[1]"))
    await pool.execute("UPDATE sync_outbox SET claim_token = 3, attempt_count = 5, last_error_code = $1", LEASE_EXPIRED)
    (event,) = await take(pool)
    assert msgspec.structs.asdict(event) == {
        **fields,
        "id": event_id,
        "claim_token": 4,
        "attempt_count": 5,
        "tenant_id": "demo",
        "event_type": "e",
        "occurred_at": NOON,
        "is_time_known": True,
        "is_suspect": True,
        "payload": msgspec.Raw(b"[1]"),
    }


async def test_concurrent_claimers_never_overlap_and_leave_nothing_behind(pool: Pool) -> None:
    ids = await fill(pool, 1000)

    async def drain(instance_id: str) -> list[UUID]:
        mine: list[UUID] = []
        while batch := await take(pool, limit=17, instance_id=instance_id):
            mine += [event.id for event in batch]
        return mine

    shares = await asyncio.gather(*(drain(f"replica-{number}") for number in range(8)))
    times_claimed = Counter(event_id for share in shares for event_id in share)
    assert times_claimed == Counter(ids)
    assert sum(bool(share) for share in shares) > 1


async def test_a_row_that_somebody_else_is_claiming_is_passed_over(pool: Pool) -> None:
    first, second = sorted(await fill(pool, 2))
    async with pool.acquire() as other, other.transaction():
        held = await claim(other, "demo", instance_id="other", limit=1, lease_seconds=120)
        assert [event.id for event in held] == [first]
        assert [event.id for event in await take(pool)] == [second]


async def test_tenants_with_something_to_claim_are_found(pool: Pool) -> None:
    for tenant_id in ("b", "a", "c", "parked"):
        await fill(pool, 3, tenant_id=tenant_id)
    await pool.execute("UPDATE sync_outbox SET parked = true WHERE tenant_id = 'parked'")
    await take(pool, tenant_id="c")
    async with pool.acquire() as connection:
        assert await waiting_tenants(connection) == ["a", "b"]


async def test_a_claim_reads_its_batch_and_not_the_backlog(pool: Pool) -> None:
    await pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, occurred_at, payload_json, parked, next_attempt_at)"
        " SELECT gen_random_uuid(), 'demo', 'test.event', now() + n * interval '1 ms', '{}', n <= 5000,"
        "        now() + CASE WHEN n <= 5000 THEN interval '1 hour' ELSE interval '0' END"
        " FROM generate_series(1, 15000) AS n"
    )
    await pool.execute("ANALYZE sync_outbox")
    await take(pool)
    before = await rows_read(pool)
    assert len(await take(pool)) == 100
    seq_rows, index_rows = (after - old for after, old in zip(await rows_read(pool), before, strict=True))
    assert seq_rows == 0
    assert index_rows <= 500


async def rows_read(pool: Pool) -> tuple[int, int]:
    async with pool.acquire() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        row = await connection.fetchrow(
            "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'sync_outbox'"
        )
    assert row is not None
    return row["seq_tup_read"], row["idx_tup_fetch"]
