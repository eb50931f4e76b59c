import random
from datetime import timedelta
from uuid import UUID

import asyncpg
import msgspec
import pytest

from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Connection, Pool
from farmiq.outbox import Event, append
from farmiq.outbox.claim import claim
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.recovery import promote, rescue
from farmiq.outbox.settle import release, settle
from farmiq.outbox.suspects import mark_alone, travellers
from farmiq.outbox.verdicts import Failure, RetryPolicy, acked, failed

POLICY = RetryPolicy(attempts_max=3)
REFUSED = Failure("HTTP_500", "the cloud failed")
RNG = random.Random(1)


async def claimed_events(pool: Pool, count: int = 1) -> list[ClaimedEvent]:
    events = [
        Event(id=new_id(), tenant_id="demo", event_type="test.event", occurred_at=None, payload=msgspec.Raw(b"{}"))
        for _ in range(count)
    ]
    async with pool.acquire() as connection:
        await append(connection, events)
    return await claim_again(pool)


async def claim_again(pool: Pool, instance_id: str = "a") -> list[ClaimedEvent]:
    async with pool.acquire() as connection:
        return await claim(connection, "demo", instance_id=instance_id, limit=1000, lease_seconds=120)


async def row_of(pool: Pool, event_id: UUID) -> asyncpg.Record:
    row = await pool.fetchrow(
        "SELECT *, next_attempt_at - clock_timestamp() AS wait FROM sync_outbox WHERE id = $1", event_id
    )
    assert row is not None
    return row


async def expire_leases(pool: Pool) -> None:
    await pool.execute(
        "UPDATE sync_outbox SET lease_expires_at = now() - interval '1 minute' WHERE status IN ('claimed', 'sending')"
    )


async def test_an_ack_is_final_and_remembers_who_delivered(pool: Pool) -> None:
    (event,) = await claimed_events(pool)
    async with pool.acquire() as connection:
        assert await settle(connection, [acked(event)]) == {event.id}
    row = await row_of(pool, event.id)
    assert (row["status"], row["claimed_by"], row["attempt_count"], row["lease_expires_at"]) == ("acked", "a", 0, None)
    assert await claim_again(pool) == []


async def test_a_failed_event_waits_parked_until_it_is_due_and_promoted(pool: Pool) -> None:
    (event,) = await claimed_events(pool)
    async with pool.acquire() as connection:
        await settle(connection, [failed(event, REFUSED, POLICY, jitter=0.0)])
        row = await row_of(pool, event.id)
        assert (row["status"], row["parked"], row["attempt_count"]) == ("pending", True, 1)
        assert (row["last_error_code"], row["last_error_message"]) == ("HTTP_500", "the cloud failed")
        assert (row["claimed_by"], row["claimed_at"], row["lease_expires_at"]) == (None, None, None)
        assert timedelta() < row["wait"] <= timedelta(seconds=2)
        assert row["last_attempt_at"] is not None

        assert await promote(connection) == 0
        await connection.execute("UPDATE sync_outbox SET next_attempt_at = now() - interval '1 s'")
        assert await claim_again(pool) == []
        assert await promote(connection) == 1
    (again,) = await claim_again(pool)
    assert (again.id, again.attempt_count, again.claim_token) == (event.id, 1, 2)


async def test_the_last_attempt_goes_to_the_dlq_with_its_reason(pool: Pool) -> None:
    (event,) = await claimed_events(pool)
    last = ClaimedEvent(**{**msgspec.structs.asdict(event), "attempt_count": 2})
    async with pool.acquire() as connection:
        await settle(connection, [failed(last, REFUSED, POLICY, jitter=0.0)])
    row = await row_of(pool, event.id)
    assert (row["status"], row["attempt_count"], row["dlq_reason"]) == ("dlq", 3, "max_attempts_exceeded")
    assert row["failed_at"] is not None
    assert row["last_error_code"] == "HTTP_500"
    assert row["claimed_by"] is None


async def test_a_release_gives_back_at_once_and_costs_nothing(pool: Pool) -> None:
    (event,) = await claimed_events(pool)
    async with pool.acquire() as connection:
        assert await release(connection, [event]) == {event.id}
    row = await row_of(pool, event.id)
    assert (row["status"], row["parked"], row["attempt_count"], row["claimed_by"]) == ("pending", False, 0, None)
    assert row["last_error_code"] is None
    assert [again.id for again in await claim_again(pool)] == [event.id]


async def test_one_call_settles_each_event_its_own_way(pool: Pool) -> None:
    good, bad, worse = await claimed_events(pool, 3)
    hopeless = ClaimedEvent(**{**msgspec.structs.asdict(worse), "attempt_count": 9})
    async with pool.acquire() as connection:
        settled = await settle(
            connection, [acked(good), failed(bad, REFUSED, POLICY, 0.0), failed(hopeless, REFUSED, POLICY, 0.0)]
        )
    assert settled == {good.id, bad.id, worse.id}
    states = [(await row_of(pool, event.id))["status"] for event in (good, bad, worse)]
    assert states == ["acked", "pending", "dlq"]


async def test_rows_of_a_dead_forwarder_are_rescued_as_suspects_and_it_costs_them_nothing(pool: Pool) -> None:
    events = await claimed_events(pool, 3)
    async with pool.acquire() as connection:
        assert await rescue(connection, POLICY, RNG) == {}
        await expire_leases(pool)
        assert await rescue(connection, POLICY, RNG) == {event.id: "a" for event in events}
    for event in events:
        row = await row_of(pool, event.id)
        assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("pending", 0, "LEASE_EXPIRED")
        assert not row["parked"]
    assert not any(event.is_suspect for event in events)
    assert all(event.is_suspect for event in await claim_again(pool))


async def test_a_suspect_whose_forwarder_ends_while_it_is_alone_pays_and_waits(pool: Pool) -> None:
    (event,) = await claimed_events(pool)
    async with pool.acquire() as connection:
        assert await mark_alone(connection, event)
        await expire_leases(pool)
        assert await rescue(connection, POLICY, RNG) == {event.id: "a"}
        assert not await mark_alone(connection, event), "it is no longer ours"
    row = await row_of(pool, event.id)
    assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("pending", 1, "LEASE_EXPIRED")
    assert row["parked"]


async def test_an_event_that_kills_every_forwarder_ends_in_the_dlq_and_its_neighbours_do_not(pool: Pool) -> None:
    """Forwarders as they are: they claim a batch, send what may travel together, and die of one event in it."""
    killer = (await claimed_events(pool, 6))[3].id
    deaths = 0
    while (await row_of(pool, killer))["status"] != "dlq":
        await expire_leases(pool)
        async with pool.acquire() as connection:
            await rescue(connection, POLICY, RNG)
            await connection.execute("UPDATE sync_outbox SET next_attempt_at = now() WHERE status = 'pending'")
            await promote(connection)
            deaths += await die_of(connection, await claim_again(pool), killer)
        assert deaths < 20
    rows = await pool.fetch("SELECT id, status, attempt_count, last_error_code FROM sync_outbox WHERE id <> $1", killer)
    assert {(row["status"], row["attempt_count"]) for row in rows} <= {("acked", 0), ("pending", 0)}
    assert (await row_of(pool, killer))["last_error_code"] == "LEASE_EXPIRED"


async def die_of(connection: Connection, claimed: list[ClaimedEvent], killer: UUID) -> bool:
    """Whether the forwarder that had claimed these is dead. What it had not sent yet it has given back, or still has."""
    together = travellers(claimed)
    await release(connection, claimed[len(together) :])
    if together and together[0].is_suspect:
        await mark_alone(connection, together[0])
    if killer in {event.id for event in together}:
        return True
    await settle(connection, [acked(event) for event in together])
    return False


async def test_rescue_covers_sending_and_claims_without_a_lease(pool: Pool) -> None:
    first, second = await claimed_events(pool, 2)
    await pool.execute("UPDATE sync_outbox SET status = 'sending', lease_expires_at = now() WHERE id = $1", first.id)
    await pool.execute("UPDATE sync_outbox SET lease_expires_at = NULL WHERE id = $1", second.id)
    async with pool.acquire() as connection:
        assert set(await rescue(connection, POLICY, RNG)) == {first.id, second.id}


async def test_rescue_and_promotion_are_bounded(pool: Pool) -> None:
    await claimed_events(pool, 5)
    await expire_leases(pool)
    async with pool.acquire() as connection:
        assert len(await rescue(connection, POLICY, RNG, limit=2)) == 2
        assert len(await rescue(connection, POLICY, RNG, limit=100)) == 3
        await connection.execute("UPDATE sync_outbox SET next_attempt_at = now(), parked = true")
        assert await promote(connection, limit=4) == 4
        assert await promote(connection, limit=4) == 1


@pytest.mark.parametrize("late", ["ack", "failure", "release"])
async def test_a_forwarder_that_lost_its_lease_changes_nothing(pool: Pool, late: str) -> None:
    (stale,) = await claimed_events(pool)
    await expire_leases(pool)
    async with pool.acquire() as connection:
        await rescue(connection, POLICY, RNG)
        await connection.execute("UPDATE sync_outbox SET next_attempt_at = now()")
        await promote(connection)
        (fresh,) = await claim_again(pool, instance_id="b")
        before = dict(await row_of(pool, stale.id))
        if late == "release":
            settled = await release(connection, [stale])
        else:
            settled = await settle(connection, [acked(stale) if late == "ack" else failed(stale, REFUSED, POLICY, 0.0)])
        after = dict(await row_of(pool, stale.id))
        assert settled == set()
        assert {**before, "wait": None} == {**after, "wait": None}
        assert await settle(connection, [acked(fresh)]) == {fresh.id}


async def test_a_late_answer_counts_while_nobody_else_has_taken_the_row(pool: Pool) -> None:
    (event,) = await claimed_events(pool)
    await expire_leases(pool)
    async with pool.acquire() as connection:
        assert await settle(connection, [acked(event)]) == {event.id}


async def test_an_acknowledged_row_is_never_rescued(pool: Pool) -> None:
    (event,) = await claimed_events(pool)
    async with pool.acquire() as connection:
        await settle(connection, [acked(event)])
        await connection.execute("UPDATE sync_outbox SET lease_expires_at = now() - interval '1 day'")
        assert await rescue(connection, POLICY, RNG) == {}
    assert (await row_of(pool, event.id))["status"] == "acked"


async def test_the_index_of_the_ids_has_room_for_what_becomes_of_its_rows(pool: Pool) -> None:
    """Each event comes into it three times. Pages that split for that cost every claim, and stay half empty ever after."""
    index_bytes = "SELECT pg_relation_size('sync_outbox_pkey')"
    waiting = [
        Event(id=new_id(), tenant_id="demo", event_type="test.event", occurred_at=None, payload=msgspec.Raw(b"{}"))
        for _ in range(10_000)
    ]
    async with pool.acquire() as connection:
        await append(connection, waiting)
    before = await pool.fetchval(index_bytes)
    while events := await claim_again(pool):
        async with pool.acquire() as connection:
            assert len(await settle(connection, [acked(event) for event in events])) == len(events)
    assert await pool.fetchval(index_bytes) < 1.1 * before
