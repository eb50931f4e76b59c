"""The rules of `sync_outbox` hold in the database, whoever writes to it."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from uuid import UUID, uuid4

import asyncpg
import pytest

from farmiq.kit.migrations import migrate
from support.postgres import NewDatabase

Connect = Callable[[str], Awaitable[asyncpg.Connection]]

STATUSES = ("pending", "claimed", "sending", "acked", "dlq", "failed")
DOCUMENTED = {
    ("pending", "claimed"),
    ("pending", "pending"),
    ("pending", "dlq"),
    ("claimed", "sending"),
    ("claimed", "acked"),
    ("claimed", "pending"),
    ("claimed", "dlq"),
    ("sending", "acked"),
    ("sending", "pending"),
    ("sending", "dlq"),
}
REDRIVE = {("dlq", "pending")}
UNCHANGED = {(status, status) for status in STATUSES}

OPERATOR_INSERT = """
    INSERT INTO sync_outbox (id, tenant_id, event_type, status, next_attempt_at, payload_json)
    VALUES
      (gen_random_uuid(), 'tenant-1', 'test.event', 'pending', NOW(), '{"test": 1}'),
      (gen_random_uuid(), 'tenant-1', 'test.event', 'pending', NOW(), '{"test": 2}')
"""
DOCUMENTED_CLAIM = """
    WITH candidates AS (
      SELECT id
      FROM sync_outbox
      WHERE
        status IN ('pending', 'claimed')
        AND next_attempt_at <= NOW()
        AND (claimed_by IS NULL OR lease_expires_at < NOW())
      ORDER BY priority DESC, occurred_at ASC
      LIMIT $1
      FOR UPDATE SKIP LOCKED
    )
    UPDATE sync_outbox o
    SET
      status = 'claimed',
      claimed_by = $2,
      claimed_at = NOW(),
      lease_expires_at = NOW() + ($3 || ' seconds')::interval
    FROM candidates c
    WHERE o.id = c.id
    RETURNING o.*
"""


async def given(connection: asyncpg.Connection, status: str = "pending", **columns: object) -> UUID:
    """A row in that status, last touched long ago."""
    row = {"tenant_id": "t", "event_type": "e", "status": status, "payload_json": '{"n": 1}'} | columns
    names, places = ", ".join(row), ", ".join(f"${number}" for number in range(1, len(row) + 1))
    insert = "INSERT INTO sync_outbox (id, updated_at, {}) VALUES (gen_random_uuid(), '2020-01-01Z', {}) RETURNING id"
    made: UUID = await connection.fetchval(insert.format(names, places), *row.values())
    return made


@pytest.mark.parametrize(("before", "after"), list(product(STATUSES, STATUSES)))
async def test_only_documented_transitions_and_the_redrive_pass(
    edge: asyncpg.Connection, before: str, after: str
) -> None:
    row = await given(edge, before)
    change = edge.execute("UPDATE sync_outbox SET status = $2 WHERE id = $1", row, after)
    if (before, after) in DOCUMENTED | REDRIVE | UNCHANGED:
        assert await change == "UPDATE 1"
        return
    with pytest.raises(asyncpg.CheckViolationError, match=f"{row} cannot go from {before} to {after}") as caught:
        await change
    assert caught.value.constraint_name == "sync_outbox_transition"


async def test_a_status_that_is_not_documented_is_refused(edge: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="sync_outbox_status_check"):
        await given(edge, "ready")


@pytest.mark.parametrize("status", STATUSES)
async def test_a_payload_never_changes(edge: asyncpg.Connection, status: str) -> None:
    row = await given(edge, status)
    assert await edge.execute("UPDATE sync_outbox SET payload_json = payload_json WHERE id = $1", row) == "UPDATE 1"
    with pytest.raises(asyncpg.CheckViolationError, match=f"the payload of sync_outbox row {row} cannot be changed"):
        await edge.execute("UPDATE sync_outbox SET payload_json = '{}' WHERE id = $1", row)


@pytest.mark.parametrize("status", STATUSES)
async def test_work_that_is_not_done_cannot_be_deleted(edge: asyncpg.Connection, status: str) -> None:
    row = await given(edge, status)
    deletion = edge.execute("DELETE FROM sync_outbox WHERE id = $1", row)
    if status in {"acked", "dlq", "failed"}:
        assert await deletion == "DELETE 1"
        return
    with pytest.raises(asyncpg.CheckViolationError, match=f"row {row} is {status} and cannot be deleted"):
        await deletion


@pytest.mark.parametrize("change", ["priority = 5", "status = 'claimed'", "lease_expires_at = now()"])
async def test_every_update_moves_updated_at(edge: asyncpg.Connection, change: str) -> None:
    row = await given(edge)
    await edge.execute(f"UPDATE sync_outbox SET {change} WHERE id = $1", row)  # noqa: S608 - the cases above
    assert await edge.fetchval("SELECT updated_at = now() FROM sync_outbox WHERE id = $1", row)


async def test_an_update_may_set_updated_at_itself(edge: asyncpg.Connection) -> None:
    row = await given(edge)
    await edge.execute("UPDATE sync_outbox SET updated_at = '2021-01-01Z' WHERE id = $1", row)
    assert await edge.fetchval("SELECT updated_at = '2021-01-01Z' FROM sync_outbox WHERE id = $1", row)


async def test_the_operators_insert_works_as_documented(edge: asyncpg.Connection) -> None:
    await edge.execute(OPERATOR_INSERT)
    rows = await edge.fetch("SELECT * FROM sync_outbox WHERE tenant_id = 'tenant-1'")
    assert len(rows) == 2
    assert {(row["status"], row["attempt_count"], row["priority"]) for row in rows} == {("pending", 0, 0)}
    assert {(row["farm_id"], row["occurred_at"], row["claimed_by"]) for row in rows} == {(None, None, None)}
    retries = await edge.fetch(
        "SELECT status, attempt_count, next_attempt_at, last_error_code FROM sync_outbox"
        " WHERE status IN ('pending', 'dlq') ORDER BY attempt_count DESC"
    )
    assert len(retries) == 2


async def test_the_documented_claim_gives_each_row_to_one_replica(new_database: NewDatabase, connect: Connect) -> None:
    url = new_database()
    await migrate(url, "farmiq.edge.migrations")
    replicas = [await connect(url) for _ in range(3)]
    await replicas[0].execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json)"
        " SELECT gen_random_uuid(), 't', 'e', '{}' FROM generate_series(1, 300)"
    )

    async def drain(number: int) -> list[UUID]:
        claimed: list[UUID] = []
        while rows := await replicas[number].fetch(DOCUMENTED_CLAIM, 20, f"pod-{number}", "120"):
            claimed += [row["id"] for row in rows]
        return claimed

    drained = await asyncio.gather(*(drain(number) for number in range(3)))
    ids = [row for claimed in drained for row in claimed]
    assert len(ids) == len(set(ids)) == 300

    stuck = drained[0][0] if drained[0] else ids[0]
    await replicas[0].execute(
        "UPDATE sync_outbox SET lease_expires_at = NOW() - INTERVAL '1 minute' WHERE id = $1", stuck
    )
    again = await replicas[1].fetch(DOCUMENTED_CLAIM, 20, "pod-9", "120")
    assert [row["id"] for row in again] == [stuck]


async def test_the_documented_claim_takes_a_backed_off_row_when_it_is_due(edge: asyncpg.Connection) -> None:
    due = await given(edge, parked=True)
    rows = await edge.fetch(DOCUMENTED_CLAIM, 20, "pod-1", "120")
    assert [row["id"] for row in rows] == [due]
    assert await edge.execute("UPDATE sync_outbox SET status = 'acked' WHERE id = $1", due) == "UPDATE 1"


async def test_the_same_event_is_there_once(edge: asyncpg.Connection) -> None:
    event = uuid4()
    insert = "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json) VALUES ($1, 't', 'e', '{}')"
    await edge.execute(insert, event)
    with pytest.raises(asyncpg.UniqueViolationError):
        await edge.execute(insert, event)


async def test_the_claim_reads_its_index_in_order_and_unknown_times_come_last(edge: asyncpg.Connection) -> None:
    await edge.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json, priority, occurred_at, parked)"
        " SELECT gen_random_uuid(), 't' || n % 3, 'e', '{}', n % 2, now() - n * interval '1 s', n % 5 = 0"
        " FROM generate_series(1, 3000) n"
    )
    unknown = await given(edge, tenant_id="t1", priority=1)
    await edge.execute("ANALYZE sync_outbox")
    claim = (
        "SELECT id, priority, occurred_at FROM sync_outbox WHERE status = 'pending' AND NOT parked AND tenant_id = 't1'"
        " ORDER BY priority DESC, occurred_at, id LIMIT {} FOR UPDATE SKIP LOCKED"
    )
    plan = "\n".join(row[0] for row in await edge.fetch("EXPLAIN " + claim.format(50)))
    assert "Index Scan using sync_outbox_claimable" in plan
    assert "Sort" not in plan

    rows = [row for row in await edge.fetch(claim.format(2000)) if row["priority"] == 1]
    known = [row["occurred_at"] for row in rows[:-1]]
    assert rows[-1]["id"] == unknown
    assert len(known) > 300
    assert known == sorted(known)


async def test_no_index_holds_what_every_ack_or_renewal_writes(edge: asyncpg.Connection) -> None:
    indexed = await edge.fetch(
        "SELECT DISTINCT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)"
        " WHERE indrelid = 'sync_outbox'::regclass"
    )
    written = {"lease_expires_at", "updated_at", "last_attempt_at", "claimed_at", "attempt_count", "claim_token"}
    names = {row["attname"] for row in indexed}
    assert "tenant_id" in names
    assert not names & written


async def test_rows_in_flight_are_found_without_reading_the_backlog(edge: asyncpg.Connection) -> None:
    await edge.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json, status)"
        " SELECT gen_random_uuid(), 't', 'e', '{}', CASE WHEN n % 100 = 0 THEN 'claimed' ELSE 'acked' END"
        " FROM generate_series(1, 3000) n"
    )
    await edge.execute("ANALYZE sync_outbox")
    scan = "EXPLAIN SELECT id FROM sync_outbox WHERE status IN ('claimed', 'sending') AND lease_expires_at < now() LIMIT 500"
    assert "sync_outbox_in_flight" in "\n".join(row[0] for row in await edge.fetch(scan))
