"""Real forwarder processes, killed between the steps of a delivery."""

import asyncio
from uuid import UUID

from aiohttp import web

from farmiq.kit.postgres import Pool
from support.outbox_rows import count_by_status, fill_outbox, outbox_row
from support.scripted_cloud import TOKEN, Received, ScriptedCloud, accept, cloud
from support.service_process import ServiceProcess, StartService, start_service
from support.waiting import eventually

__all__ = ["cloud", "start_service"]  # fixtures
SERVICE = "edge-sync-forwarder"
LEASE_SECONDS = 3


def environ(edge_url: str, cloud_url: str, **more: str) -> dict[str, str]:
    return {
        "DATABASE_URL": edge_url,
        "CLOUD_INGESTION_URL": cloud_url,
        "CLOUD_INGESTION_TOKEN": TOKEN,
        "EDGE_CLUSTER_ID": "edge-1",
        "OUTBOX_LEASE_SECONDS": str(LEASE_SECONDS),
        **more,
    }


async def test_killed_before_the_answer_the_event_is_sent_again_and_acknowledged_once(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, start_service: StartService
) -> None:
    (event_id,) = await fill_outbox(edge_pool, 1)
    asked, never = asyncio.Event(), asyncio.Event()

    async def hang(received: Received) -> web.Response:
        asked.set()
        await never.wait()
        return await accept(received)

    cloud.script.append(hang)
    first = await start(start_service, environ(edge_url, cloud.url, INSTANCE_ID="first", OUTBOX_LEASE_SECONDS="60"))
    await asyncio.wait_for(asked.wait(), 20)
    first.kill()
    await expect_claimed_by(edge_pool, event_id, "first")
    await end_leases(edge_pool)
    await start(start_service, environ(edge_url, cloud.url, INSTANCE_ID="second"))
    await expect_delivered_twice_acked_once(edge_pool, cloud, event_id, "second")
    never.set()


async def test_killed_between_answer_and_settlement_the_event_is_sent_again_and_acknowledged_once(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, start_service: StartService
) -> None:
    (event_id,) = await fill_outbox(edge_pool, 1)
    async with edge_pool.acquire() as holder:
        lock = holder.transaction()

        async def answer_and_hold_the_row(received: Received) -> web.Response:
            await lock.start()
            await holder.execute("SELECT 1 FROM sync_outbox WHERE id = $1 FOR UPDATE", event_id)
            return await accept(received)

        cloud.script.append(answer_and_hold_the_row)
        first = await start(start_service, environ(edge_url, cloud.url, INSTANCE_ID="first", OUTBOX_LEASE_SECONDS="60"))
        await eventually(lambda: somebody_waits_for_a_lock(edge_pool), what="the settlement to wait for the row")
        first.kill()
        await lock.rollback()
    await eventually(lambda: nobody_is_connected_as(edge_pool, SERVICE), what="the dead forwarder's transaction to end")
    await expect_claimed_by(edge_pool, event_id, "first")
    await end_leases(edge_pool)
    await start(start_service, environ(edge_url, cloud.url, INSTANCE_ID="second"))
    await expect_delivered_twice_acked_once(edge_pool, cloud, event_id, "second")


async def test_asked_to_stop_in_the_middle_of_a_request_it_gives_its_claims_back(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, start_service: StartService
) -> None:
    (event_id,) = await fill_outbox(edge_pool, 1)
    asked, never = asyncio.Event(), asyncio.Event()

    async def hang(received: Received) -> web.Response:
        asked.set()
        await never.wait()
        return await accept(received)

    cloud.script.append(hang)
    forwarder = await start(start_service, environ(edge_url, cloud.url, OUTBOX_LEASE_SECONDS="600"))
    await asyncio.wait_for(asked.wait(), 20)
    assert await asyncio.to_thread(forwarder.stop) == 0
    row = await outbox_row(edge_pool, event_id)
    assert (row["status"], row["attempt_count"], row["claimed_by"], row["parked"]) == ("pending", 0, None, False)
    assert await edge_pool.fetchval("SELECT count(*) FROM sync_state") == 0
    assert "claims_given_back" in {line["message"] for line in forwarder.log_lines()}
    never.set()


async def test_an_event_that_kills_its_forwarder_ends_in_the_dlq_and_takes_no_neighbour_with_it(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, start_service: StartService
) -> None:
    ids = await fill_outbox(edge_pool, 12)
    deadly, others = ids[5], {*ids} - {ids[5]}
    asked, never = asyncio.Event(), asyncio.Event()

    async def hang_on_the_deadly_one(received: Received) -> web.Response:
        if deadly in received.ids:
            asked.set()
            await never.wait()
        return await accept(received)

    cloud.otherwise = hang_on_the_deadly_one
    settings = environ(
        edge_url, cloud.url, OUTBOX_LEASE_SECONDS="600", OUTBOX_MAX_ATTEMPTS="2", OUTBOX_BACKOFF_CAP_SECONDS="1"
    )
    for _ in range(3):  # once among its neighbours, then alone, twice
        asked.clear()
        forwarder = await start(start_service, settings)
        await asyncio.wait_for(asked.wait(), 30)
        forwarder.kill()
        await end_leases(edge_pool)
    await start(start_service, settings)
    await eventually(lambda: counts_are(edge_pool, {"acked": len(others), "dlq": 1}))
    never.set()
    row = await outbox_row(edge_pool, deadly)
    assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("dlq", 2, "LEASE_EXPIRED")
    assert await edge_pool.fetchval("SELECT max(attempt_count) FROM sync_outbox WHERE id <> $1", deadly) == 0
    assert cloud.alone()[deadly] == 2


async def test_three_replicas_deliver_every_event_exactly_once(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, start_service: StartService
) -> None:
    ids = await fill_outbox(edge_pool, 600, tenant_id="a") + await fill_outbox(edge_pool, 600, tenant_id="b")
    calm = {"OUTBOX_LEASE_SECONDS": "120", "OUTBOX_BATCH_SIZE": "20"}
    replicas = [environ(edge_url, cloud.url, INSTANCE_ID=f"replica-{number}", **calm) for number in range(3)]
    await asyncio.gather(*(start(start_service, settings) for settings in replicas))
    await eventually(lambda: counts_are(edge_pool, {"acked": len(ids)}), seconds=40)
    assert set(cloud.times_received()) == set(ids)
    assert set(cloud.times_received().values()) == {1}


async def start(start_service: StartService, settings: dict[str, str]) -> ServiceProcess:
    return await asyncio.to_thread(start_service, SERVICE, settings)


async def expect_claimed_by(pool: Pool, event_id: UUID, instance_id: str) -> None:
    row = await outbox_row(pool, event_id)
    assert (row["status"], row["claimed_by"]) == ("claimed", instance_id)


async def end_leases(pool: Pool) -> None:
    await pool.execute(
        "UPDATE sync_outbox SET lease_expires_at = now() - interval '1 s' WHERE status IN ('claimed', 'sending')"
    )


async def expect_delivered_twice_acked_once(pool: Pool, cloud: ScriptedCloud, event_id: UUID, instance_id: str) -> None:
    await eventually(lambda: counts_are(pool, {"acked": 1}))
    assert cloud.times_received() == {event_id: 2}
    row = await outbox_row(pool, event_id)
    assert (row["claimed_by"], row["last_error_code"]) == (instance_id, "LEASE_EXPIRED")


async def counts_are(pool: Pool, expected: dict[str, int]) -> bool:
    return await count_by_status(pool) == expected


async def somebody_waits_for_a_lock(pool: Pool) -> bool:
    waiting = await pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return bool(waiting)


async def nobody_is_connected_as(pool: Pool, application_name: str) -> bool:
    connected = await pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1",
        application_name,
    )
    return not connected
