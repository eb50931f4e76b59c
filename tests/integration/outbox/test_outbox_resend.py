from farmiq.kit.postgres import Connection, Pool
from farmiq.outbox.claim import claim
from farmiq.outbox.resend import BEHIND, resend
from farmiq.outbox.retire import START
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import acked
from support.outbox_rows import count_by_status, fill_outbox, outbox_row


async def deliver(connection: Connection, tenant_id: str = "demo", answer: int | None = 1) -> None:
    events = await claim(connection, tenant_id, instance_id="a", limit=100, lease_seconds=60)
    await settle(connection, [acked(event) for event in events], answer)


async def resend_all(pool: Pool, tenant_id: str = "demo", *, limit: int = 2) -> int:
    """What the second answer, and all up to the fifth, acknowledged."""
    after, resent = START, 0
    while True:
        async with pool.acquire() as connection:
            page = await resend(connection, tenant_id, after, answers_from=1, answers_to=5, limit=limit)
        resent += page.resent
        if page.last_id is None:
            return resent
        after = page.last_id


async def test_what_was_acknowledged_goes_out_again_under_its_own_id(pool: Pool) -> None:
    ids = await fill_outbox(pool, 5, occurred_at=None, trace_id="trace-7")
    async with pool.acquire() as connection:
        await deliver(connection, answer=3)
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


async def test_only_what_these_answers_acknowledged_of_this_tenant_is_sent_again(pool: Pool) -> None:
    async with pool.acquire() as connection:
        ids = []
        for tenant_id, answer in (("demo", 1), ("demo", 2), ("demo", 5), ("demo", 6), ("demo", None), ("x", 3)):
            ids += await fill_outbox(pool, 1, tenant_id)
            await deliver(connection, tenant_id, answer)
    ids += await fill_outbox(pool, 1)
    assert await resend_all(pool) == 3
    states = {row["id"]: row["status"] for row in await pool.fetch("SELECT id, status FROM sync_outbox")}
    # Of the one that no number is known of, nobody can say that the cloud still has it.
    assert [states[one] for one in ids] == ["acked", "pending", "pending", "acked", "pending", "acked", "pending"]


async def test_what_is_acknowledged_once_more_meanwhile_does_not_go_round(pool: Pool) -> None:
    await fill_outbox(pool, 3)
    async with pool.acquire() as connection:
        await deliver(connection, answer=5)
        assert (await resend(connection, "demo", START, answers_from=1, answers_to=5)).resent == 3
        await deliver(connection, answer=6)
        assert (await resend(connection, "demo", START, answers_from=1, answers_to=5)).resent == 0
    assert await count_by_status(pool) == {"acked": 3}
