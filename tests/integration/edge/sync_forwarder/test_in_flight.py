"""Requests under way: several at once, leases that are renewed meanwhile, and what a stop does to them."""

import asyncio
import random
from uuid import UUID

import aiohttp
import pytest
from aiohttp import web

from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.postgres import Pool
from farmiq.outbox.recovery import rescue
from farmiq.outbox.verdicts import RetryPolicy
from support.forwarder import SERVICE, forwarder_environ
from support.outbox_rows import count_by_status, fill_outbox, outbox_row
from support.scripted_cloud import Received, ScriptedCloud, accept, cloud, refusal, status
from support.service_process import StartService, running, start_service
from support.waiting import eventually

__all__ = ["cloud", "start_service"]  # fixtures


class Gate:
    """Answers when it is opened, and knows how many wait for that."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.waiting: list[Received] = []

    async def __call__(self, received: Received) -> web.Response:
        self.waiting.append(received)
        await self.opened.wait()
        return await accept(received)

    async def has(self, count: int) -> bool:
        return len(self.waiting) == count


async def counts_are(pool: Pool, expected: dict[str, int]) -> bool:
    return await count_by_status(pool) == expected


async def claimed_by_us(pool: Pool, count: int) -> bool:
    return (await count_by_status(pool)).get("claimed", 0) == count


async def test_as_many_requests_as_allowed_are_under_way_also_for_one_tenant(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    ids = await fill_outbox(edge_pool, 30)
    gate = Gate()
    cloud.otherwise = gate
    environ = forwarder_environ(edge_url, cloud.url, OUTBOX_BATCH_SIZE="5", SYNC_REQUESTS_IN_FLIGHT="3")
    async with running(serve, SERVICE, environ):
        await eventually(lambda: gate.has(3))
        # The first three batches are the first fifteen events, and nothing more is claimed than can be sent.
        assert {event_id for batch in gate.waiting for event_id in batch.ids} == set(ids[:15])
        assert await claimed_by_us(edge_pool, 15)
        gate.opened.set()
        await eventually(lambda: counts_are(edge_pool, {"acked": 30}))
    assert set(cloud.times_received().values()) == {1}


async def test_a_request_that_hangs_does_not_hold_up_another_tenant(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    gate = Gate()
    cloud.script.append(gate)
    await fill_outbox(edge_pool, 1, tenant_id="slow")
    async with running(serve, SERVICE, forwarder_environ(edge_url, cloud.url, SYNC_INTERVAL_MS="200")):
        await eventually(lambda: gate.has(1))
        await fill_outbox(edge_pool, 1, tenant_id="quick")
        await eventually(lambda: counts_are(edge_pool, {"acked": 1, "claimed": 1}))
        assert [batch.tenant_id for batch in cloud.received] == ["slow", "quick"]
        gate.opened.set()
        await eventually(lambda: counts_are(edge_pool, {"acked": 2}))


async def test_requests_follow_each_other_on_one_connection(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await fill_outbox(edge_pool, 60)
    environ = forwarder_environ(edge_url, cloud.url, OUTBOX_BATCH_SIZE="5", SYNC_REQUESTS_IN_FLIGHT="1")
    async with running(serve, SERVICE, environ):
        await eventually(lambda: counts_are(edge_pool, {"acked": 60}))
    assert len(cloud.received) == 12
    assert len({batch.peer for batch in cloud.received}) == 1


async def test_half_open_means_one_request_however_long_the_backlog(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await fill_outbox(edge_pool, 40, tenant_id="back-soon")
    await edge_pool.execute(
        "INSERT INTO sync_state (tenant_id, consecutive_failures, paused_until) VALUES ('back-soon', 3, now())"
    )
    gate = Gate()
    cloud.script.append(gate)
    environ = forwarder_environ(edge_url, cloud.url, OUTBOX_BATCH_SIZE="5", SYNC_INTERVAL_MS="200")
    async with running(serve, SERVICE, environ):
        await eventually(lambda: gate.has(1))
        # Two whole turns of another tenant, in each of which the paused one could have had its own.
        for count in (1, 2):
            await fill_outbox(edge_pool, 1, tenant_id="well")
            await eventually(lambda count=count: acked_of(edge_pool, "well", count))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        assert [batch.tenant_id for batch in cloud.received].count("back-soon") == 1
        gate.opened.set()
        await eventually(lambda: acked_of(edge_pool, "back-soon", 40))


async def acked_of(pool: Pool, tenant_id: str, count: int) -> bool:
    found = await pool.fetchval("SELECT count(*) FROM sync_outbox WHERE tenant_id = $1 AND status = 'acked'", tenant_id)
    return bool(found == count)


async def test_a_request_may_outlast_its_lease_because_the_lease_is_renewed(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    (event_id,) = await fill_outbox(edge_pool, 1)
    gate = Gate()
    cloud.otherwise = gate
    async with running(serve, SERVICE, forwarder_environ(edge_url, cloud.url, OUTBOX_LEASE_SECONDS="1")):
        await eventually(lambda: gate.has(1))
        first = (await outbox_row(edge_pool, event_id))["lease_expires_at"]
        await eventually(lambda: is_past(edge_pool, first), what="the first lease to be over")
        async with edge_pool.acquire() as connection:
            assert await rescue(connection, RetryPolicy(), random.Random(1)) == {}
        gate.opened.set()
        await eventually(lambda: counts_are(edge_pool, {"acked": 1}))
    row = await outbox_row(edge_pool, event_id)
    assert (row["claim_token"], row["attempt_count"]) == (1, 0)
    assert cloud.times_received() == {event_id: 1}


async def is_past(pool: Pool, moment: object) -> bool:
    return bool(await pool.fetchval("SELECT clock_timestamp() > $1::timestamptz + interval '300 ms'", moment))


async def test_the_answer_about_a_row_that_was_taken_back_is_not_written_down(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    taken, ours = await fill_outbox(edge_pool, 2)
    gate = Gate()
    cloud.script.append(gate)
    async with running(serve, SERVICE, forwarder_environ(edge_url, cloud.url, OUTBOX_LEASE_SECONDS="1")):
        await eventually(lambda: gate.has(1))
        await edge_pool.execute(
            "UPDATE sync_outbox SET status = 'pending', parked = true, claimed_by = NULL, lease_expires_at = NULL,"
            " claimed_at = NULL, next_attempt_at = now() + interval '1 hour' WHERE id = $1",
            taken,
        )
        before = dict(await outbox_row(edge_pool, taken))
        lease = (await outbox_row(edge_pool, ours))["lease_expires_at"]
        await eventually(lambda: is_renewed(edge_pool, ours, lease), what="a renewal")
        gate.opened.set()
        await eventually(lambda: counts_are(edge_pool, {"acked": 1, "pending": 1}))
    assert dict(await outbox_row(edge_pool, taken)) == before
    assert (await outbox_row(edge_pool, ours))["status"] == "acked"


async def is_renewed(pool: Pool, event_id: object, lease: object) -> bool:
    return bool(
        await pool.fetchval("SELECT lease_expires_at > $2::timestamptz FROM sync_outbox WHERE id = $1", event_id, lease)
    )


async def test_asked_to_stop_it_gives_back_what_waits_behind_a_request_before_the_answer_comes(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, start_service: StartService
) -> None:
    await edge_pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json)"
        " SELECT gen_random_uuid(), 'demo', 'test.event', jsonb_build_object('filler', repeat('x', 40000))"
        " FROM generate_series(1, 4)"
    )
    gate = Gate()
    cloud.otherwise = gate
    environ = forwarder_environ(edge_url, cloud.url, OUTBOX_LEASE_SECONDS="600", SYNC_REQUEST_BYTES_MAX=str(64 * 1024))
    forwarder = await asyncio.to_thread(start_service, SERVICE, environ)
    await eventually(lambda: gate.has(1))
    assert await claimed_by_us(edge_pool, 4)
    stopping = asyncio.create_task(asyncio.to_thread(forwarder.stop))
    await eventually(lambda: counts_are(edge_pool, {"claimed": 1, "pending": 3}), what="the rest to be given back")
    gate.opened.set()
    assert await stopping == 0
    assert await counts_are(edge_pool, {"acked": 1, "pending": 3})
    assert await edge_pool.fetchval("SELECT max(attempt_count) FROM sync_outbox") == 0
    assert len(cloud.received) == 1


@pytest.mark.parametrize("code", [400, 422, 500])
async def test_one_poison_event_costs_its_neighbours_nothing(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, code: int
) -> None:
    ids = await fill_outbox(edge_pool, 50)
    poison = ids[17]

    async def choke(received: Received) -> web.StreamResponse:
        return await (refusal(code) if poison in received.ids else accept)(received)

    cloud.otherwise = choke
    environ = forwarder_environ(
        edge_url, cloud.url, OUTBOX_MAX_ATTEMPTS="2", OUTBOX_BACKOFF_CAP_SECONDS="1", SYNC_INTERVAL_MS="100"
    )
    async with running(serve, SERVICE, environ):
        await eventually(lambda: counts_are(edge_pool, {"acked": 49, "dlq": 1}))
    # What failed with a 500 is tried once more when the cloud answers again.
    assert cloud.alone()[poison] in ((2, 3) if code == 500 else (2,))
    assert (await outbox_row(edge_pool, poison))["last_error_code"] == f"HTTP_{code}"
    assert await edge_pool.fetchval("SELECT max(attempt_count) FROM sync_outbox WHERE status = 'acked'") == 0


async def test_a_cloud_that_fails_at_everything_charges_everybody_and_is_asked_rarely(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await fill_outbox(edge_pool, 100)
    cloud.otherwise = status(500)
    environ = forwarder_environ(edge_url, cloud.url, OUTBOX_MAX_ATTEMPTS="3", OUTBOX_BACKOFF_CAP_SECONDS="300")
    async with running(serve, SERVICE, environ):
        await eventually(lambda: all_tried(edge_pool, 1))
        asked = len(cloud.received)
        rows = await edge_pool.fetch("SELECT DISTINCT status, attempt_count, parked FROM sync_outbox")
    assert [tuple(row) for row in rows] == [("pending", 1, True)]
    assert asked <= 20


async def all_tried(pool: Pool, times: int) -> bool:
    return bool(await pool.fetchval("SELECT min(attempt_count) >= $1 FROM sync_outbox", times))


async def test_what_is_too_large_for_somebody_on_the_way_goes_in_smaller_requests(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await edge_pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json)"
        " SELECT gen_random_uuid(), 'demo', 'test.event', jsonb_build_object('filler', repeat('x', 40000))"
        " FROM generate_series(1, 32)"
    )

    async def narrow(received: Received) -> web.StreamResponse:
        return await (status(413) if len(received.events) > 4 else accept)(received)

    cloud.otherwise = narrow
    environ = forwarder_environ(edge_url, cloud.url, OUTBOX_BATCH_SIZE="16", SYNC_REQUESTS_IN_FLIGHT="1")
    async with running(serve, SERVICE, environ):
        await eventually(lambda: counts_are(edge_pool, {"acked": 32}))
    assert await edge_pool.fetchval("SELECT max(attempt_count) FROM sync_outbox") == 0
    # Sixteen, eight twice, then it has learned: everything after that fits.
    assert [len(batch.events) for batch in cloud.received if len(batch.events) > 4] == [16, 8, 8]


async def test_a_forwarder_that_lost_its_rows_does_not_send_the_other_half(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    """The request is refused, and meanwhile every row was given to somebody else: nothing is left to send again in halves."""
    await fill_outbox(edge_pool, 8)
    refused = asyncio.Event()

    async def take_the_rows_and_refuse(_received: Received) -> web.Response:
        await edge_pool.execute(
            "UPDATE sync_outbox SET claim_token = claim_token + 1, claimed_by = 'another',"
            " lease_expires_at = now() + interval '1 hour'"
        )
        refused.set()
        return web.Response(status=500)

    cloud.script.append(take_the_rows_and_refuse)
    async with running(serve, SERVICE, forwarder_environ(edge_url, cloud.url, SYNC_INTERVAL_MS="100")) as url:
        await asyncio.wait_for(refused.wait(), 20)
        await eventually(lambda: has_lost(url, 8), what="the forwarder to notice")
    assert len(cloud.received) == 1
    claims = await edge_pool.fetch("SELECT DISTINCT status, claimed_by, claim_token, attempt_count FROM sync_outbox")
    assert [tuple(row) for row in claims] == [("claimed", "another", 2, 0)]


async def has_lost(url: str, rows: int) -> bool:
    async with aiohttp.ClientSession(url) as session, session.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return any(line.startswith("farmiq_sync_leases_lost_total") and line.endswith(f" {rows}.0") for line in lines)


async def test_what_a_failing_cloud_made_dead_letters_goes_on_by_itself_when_it_answers_again(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    """Finding 5 of the reading of the path from device to edge: 14 minutes of a 500 made dead letters of the outbox."""
    await fill_outbox(edge_pool, 30)
    cloud.otherwise = status(500, body="<html>")
    environ = forwarder_environ(
        edge_url, cloud.url, OUTBOX_MAX_ATTEMPTS="2", OUTBOX_BACKOFF_CAP_SECONDS="1", SYNC_INTERVAL_MS="100"
    )
    async with running(serve, SERVICE, environ):
        await eventually(lambda: counts_are(edge_pool, {"dlq": 30}))
        poisoned: asyncio.Future[UUID] = asyncio.get_running_loop().create_future()

        async def choke(received: Received) -> web.StreamResponse:
            return await (status(500) if await poisoned in received.ids else accept)(received)

        cloud.otherwise = choke
        poison = (await fill_outbox(edge_pool, 5))[2]
        poisoned.set_result(poison)
        await eventually(lambda: counts_are(edge_pool, {"acked": 34, "dlq": 1}))
        await fill_outbox(edge_pool, 5)
        await eventually(lambda: counts_are(edge_pool, {"acked": 39, "dlq": 1}))
    assert (await outbox_row(edge_pool, poison))["attempt_count"] <= 3, "one more attempt, and only once"
    assert cloud.alone()[poison] <= 3


async def test_the_page_of_a_portal_costs_no_event_an_attempt(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await fill_outbox(edge_pool, 10)
    cloud.otherwise = status(402, body="the quota of this SIM card is used up")
    async with running(serve, SERVICE, forwarder_environ(edge_url, cloud.url, OUTBOX_MAX_ATTEMPTS="1")):
        await eventually(lambda: has_failed(edge_pool, "NOT_THE_CLOUD"))
        assert await counts_are(edge_pool, {"pending": 10})
        cloud.otherwise = accept
        await eventually(lambda: counts_are(edge_pool, {"acked": 10}))
    assert await edge_pool.fetchval("SELECT max(attempt_count) FROM sync_outbox") == 0


async def has_failed(pool: Pool, code: str) -> bool:
    return bool(await pool.fetchval("SELECT consecutive_failures > 1 AND last_error_code = $1 FROM sync_state", code))
