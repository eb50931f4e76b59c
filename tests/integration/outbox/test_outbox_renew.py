import random
from datetime import timedelta

from farmiq.kit.postgres import Connection, Pool
from farmiq.outbox.claim import claim
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.recovery import promote, rescue
from farmiq.outbox.renew import renew
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import RetryPolicy, acked
from support.outbox_rows import fill_outbox, outbox_row

POLICY = RetryPolicy()
RNG = random.Random(1)


async def claimed(pool: Pool, count: int, lease_seconds: float = 120) -> list[ClaimedEvent]:
    await fill_outbox(pool, count)
    async with pool.acquire() as connection:
        return await claim(connection, "demo", instance_id="a", limit=count, lease_seconds=lease_seconds)


async def almost_over(pool: Pool) -> None:
    await pool.execute("UPDATE sync_outbox SET lease_expires_at = now() - interval '1 s' WHERE status = 'claimed'")


async def test_a_renewed_row_is_not_rescued_and_one_that_was_not_renewed_is(pool: Pool) -> None:
    kept, left = await claimed(pool, 2)
    await almost_over(pool)
    async with pool.acquire() as connection:
        assert await renew(connection, [kept], lease_seconds=60) == {kept.id}
        assert set(await rescue(connection, POLICY, RNG)) == {left.id}
        lease = await connection.fetchval(
            "SELECT lease_expires_at - clock_timestamp() FROM sync_outbox WHERE id = $1", kept.id
        )
        assert timedelta(seconds=50) < lease <= timedelta(seconds=60)
        assert await settle(connection, [acked(kept)]) == {kept.id}


async def test_a_renewal_keeps_claim_token_and_attempts(pool: Pool) -> None:
    (event,) = await claimed(pool, 1)
    before = dict(await outbox_row(pool, event.id))
    async with pool.acquire() as connection:
        await renew(connection, [event], lease_seconds=600)
    after = dict(await outbox_row(pool, event.id))
    assert {name for name in before if before[name] != after[name]} == {"lease_expires_at", "updated_at"}
    assert after["lease_expires_at"] > before["lease_expires_at"]


async def test_a_renewal_after_the_row_was_taken_back_says_so_and_changes_nothing(pool: Pool) -> None:
    (stale,) = await claimed(pool, 1)
    await almost_over(pool)
    async with pool.acquire() as connection:
        await rescue(connection, POLICY, RNG)
        rescued = dict(await outbox_row(pool, stale.id))
        assert await renew(connection, [stale], lease_seconds=60) == set()
        assert dict(await outbox_row(pool, stale.id)) == rescued

        await connection.execute("UPDATE sync_outbox SET next_attempt_at = now()")
        await promote(connection)
        await claim(connection, "demo", instance_id="b", limit=1, lease_seconds=120)
        theirs = dict(await outbox_row(pool, stale.id))
        assert await renew(connection, [stale], lease_seconds=60) == set()
        assert dict(await outbox_row(pool, stale.id)) == theirs


async def test_what_is_settled_is_not_renewed(pool: Pool) -> None:
    (event,) = await claimed(pool, 1)
    async with pool.acquire() as connection:
        await settle(connection, [acked(event)])
        assert await renew(connection, [event], lease_seconds=60) == set()
        assert await renew(connection, [], lease_seconds=60) == set()


async def test_a_renewal_writes_to_no_index(pool: Pool) -> None:
    await fill_outbox(pool, 20)
    async with pool.acquire() as connection:
        events = await claim(connection, "demo", instance_id="a", limit=20, lease_seconds=60)
        await connection.execute("VACUUM sync_outbox")
        before = await updates(connection)
        await renew(connection, events, lease_seconds=60)
        rows, without_index = (after - old for after, old in zip(await updates(connection), before, strict=True))
    assert (rows, without_index) == (20, 20)


async def updates(connection: Connection) -> tuple[int, int]:
    await connection.execute("SELECT pg_stat_force_next_flush()")
    row = await connection.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'sync_outbox'"
    )
    assert row is not None
    return row["n_tup_upd"], row["n_tup_hot_upd"]
