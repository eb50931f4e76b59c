import asyncio

import pytest

from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.outbox.claim import claim
from farmiq.outbox.redrive import DeadLetters, count_dead_letters, redrive, unclaim
from farmiq.outbox.retire import START, Retention, retire
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import Failure, RetryPolicy, acked, failed
from support.outbox_rows import count_by_status, fill_outbox, outbox_row

GIVE_UP = RetryPolicy(attempts_max=1)
# What is given back is claimed again before anybody else sees it.
EAGER_FORWARDERS = """
CREATE FUNCTION claim_at_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE sync_outbox SET status = 'claimed', claimed_at = clock_timestamp(), lease_expires_at = now() + interval '1 hour'
  WHERE id = NEW.id;
  RETURN NULL;
END
$$;
CREATE TRIGGER claim_at_once AFTER UPDATE ON sync_outbox FOR EACH ROW WHEN (NEW.status = 'pending')
  EXECUTE FUNCTION claim_at_once();
"""


async def bury(pool: Pool, count: int) -> None:
    await fill_outbox(pool, count)
    async with pool.acquire() as connection:
        events = await claim(connection, "demo", instance_id="a", limit=count, lease_seconds=60)
        await settle(connection, [failed(event, Failure("HTTP_500", "x"), GIVE_UP, 0.0) for event in events])


async def test_a_redriven_row_is_as_good_as_new(pool: Pool) -> None:
    await bury(pool, 3)
    (event_id, *_) = [row["id"] for row in await pool.fetch("SELECT id FROM sync_outbox ORDER BY id")]
    async with pool.acquire() as connection:
        assert await redrive(connection, DeadLetters(ids=[event_id, new_id()])) == 1
        row = await outbox_row(pool, event_id)
        assert (row["status"], row["attempt_count"], row["parked"]) == ("pending", 0, False)
        errors = ("last_error_code", "last_error_message", "failed_at", "dlq_reason")
        assert [row[name] for name in errors] == [None] * 4
        (again,) = await claim(connection, "demo", instance_id="b", limit=9, lease_seconds=60)
        assert again.id == event_id


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (DeadLetters(tenant_id="a"), {"a1", "a2"}),
        (DeadLetters(event_type="door.opened"), {"a2", "b2"}),
        (DeadLetters(error_code="schema"), {"b1", "b2"}),
        (DeadLetters(older_than_seconds=3600), {"a1", "b1"}),
        (DeadLetters(tenant_id="b", event_type="door.opened", error_code="schema"), {"b2"}),
        (DeadLetters(tenant_id="nobody"), set()),
        (DeadLetters(), {"a1", "a2", "b1", "b2"}),
    ],
)
async def test_filters_choose_what_a_dry_run_counts_and_a_redrive_takes(
    pool: Pool, which: DeadLetters, expected: set[str]
) -> None:
    await pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, last_error_code, trace_id, failed_at, status, payload_json)"
        " SELECT gen_random_uuid(), tenant, type, code, name, now() - age * interval '1 hour', 'dlq', '{}' FROM (VALUES"
        " ('a', 'test.event', 'HTTP_500', 2, 'a1'), ('a', 'door.opened', 'HTTP_500', 0, 'a2'),"
        " ('b', 'test.event', 'schema', 2, 'b1'), ('b', 'door.opened', 'schema', 0, 'b2')) AS v (tenant, type, code, age, name)"
    )
    async with pool.acquire() as connection:
        assert await count_dead_letters(connection, which) == len(expected)
        assert await count_by_status(pool) == {"dlq": 4}
        assert await redrive(connection, which) == len(expected)
    again = await pool.fetch("SELECT trace_id FROM sync_outbox WHERE status = 'pending'")
    assert {row["trace_id"] for row in again} == expected


async def test_redrive_all_leaves_no_dead_letter_and_touches_nothing_else(pool: Pool) -> None:
    await bury(pool, 4)
    await fill_outbox(pool, 2)
    async with pool.acquire() as connection:
        (sent, _) = await claim(connection, "demo", instance_id="a", limit=2, lease_seconds=60)
        await settle(connection, [acked(sent)])
        assert await redrive(connection, DeadLetters()) == 4
        assert await redrive(connection, DeadLetters(ids=[sent.id])) == 0
    assert await count_by_status(pool) == {"pending": 4, "claimed": 1, "acked": 1}


async def test_stuck_rows_are_unclaimed_without_an_attempt(pool: Pool) -> None:
    expired, old, fresh = await fill_outbox(pool, 3)
    async with pool.acquire() as connection:
        await claim(connection, "demo", instance_id="dead-pod-1", limit=3, lease_seconds=3600)
        await connection.execute(
            "UPDATE sync_outbox SET lease_expires_at = now() - interval '1 m' WHERE id = $1", expired
        )
        await connection.execute("UPDATE sync_outbox SET claimed_at = now() - interval '10 m' WHERE id = $1", old)
        assert await unclaim(connection, older_than_seconds=300) == 2
        rows = [await outbox_row(pool, event_id) for event_id in (expired, old, fresh)]
        assert [(row["status"], row["attempt_count"]) for row in rows] == [
            ("pending", 0),
            ("pending", 0),
            ("claimed", 0),
        ]
        assert len(await claim(connection, "demo", instance_id="b", limit=9, lease_seconds=60)) == 2


async def test_unclaiming_ends_although_forwarders_claim_as_fast_as_it_takes_away(pool: Pool) -> None:
    await fill_outbox(pool, 3)
    async with pool.acquire() as connection, asyncio.timeout(60):
        await claim(connection, "demo", instance_id="a", limit=3, lease_seconds=3600)
        await connection.execute(EAGER_FORWARDERS)
        assert await unclaim(connection, older_than_seconds=0) == 3
    assert await count_by_status(pool) == {"claimed": 3}


async def test_only_old_acknowledged_rows_are_retired(pool: Pool) -> None:
    await bury(pool, 2)
    await fill_outbox(pool, 5)
    async with pool.acquire() as connection:
        claimed = await claim(connection, "demo", instance_id="a", limit=4, lease_seconds=60)
        await settle(connection, [acked(event) for event in claimed[:3]])
        await connection.execute("UPDATE sync_outbox SET updated_at = now() - interval '31 days'")
        recent = claimed[0].id
        await connection.execute("UPDATE sync_outbox SET updated_at = now() WHERE id = $1", recent)

        removed, after, pages = 0, START, 0
        while (page := await retire(connection, after, Retention(30, 30), limit=2)).last_id is not None:
            removed, after, pages = removed + page.removed, page.last_id, pages + 1
    assert (removed, pages) == (2, 4)
    assert await count_by_status(pool) == {"dlq": 2, "pending": 1, "claimed": 1, "acked": 1}
    assert (await outbox_row(pool, recent))["status"] == "acked"
