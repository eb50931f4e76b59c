"""The steps of "How to Verify", as they are written, against three real forwarders, a real database and a scripted cloud.

`curl` and SQL are the document's own; its pods are processes here, and its admin routes want the token.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from farmiq.kit.postgres import Pool
from support.forwarder import ADMIN_TOKEN, SERVICE, forwarder_environ
from support.outbox_rows import count_by_status
from support.scripted_cloud import Received, ScriptedCloud, accept, cloud, status
from support.service_process import ServiceProcess, StartService, start_service
from support.waiting import eventually

__all__ = ["cloud", "start_service"]  # fixtures
JSON = ("-H", "Content-Type: application/json")
ADMIN = ("-H", f"Authorization: Bearer {ADMIN_TOKEN}")
SEED = """
INSERT INTO sync_outbox (id, tenant_id, event_type, status, next_attempt_at, payload_json)
SELECT gen_random_uuid(), 'tenant-1', 'test.event', 'pending', NOW(), '{"test": 1}' FROM generate_series(1, $1::int)
"""

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the document's steps are curl commands")


@pytest_asyncio.fixture
async def replicas(
    edge_url: str, cloud: ScriptedCloud, start_service: StartService
) -> AsyncIterator[list[ServiceProcess]]:
    """Three, with the document's waits cut short and everything else as it is by default."""
    environs = [
        forwarder_environ(
            edge_url,
            cloud.url,
            INSTANCE_ID=f"forwarder-pod-{number}",
            OUTBOX_BACKOFF_CAP_SECONDS="1",
            SYNC_INTERVAL_MS="500",
            INTERNAL_ADMIN_ENABLED="true",
            ADMIN_TOKEN=ADMIN_TOKEN,
        )
        for number in (1, 2, 3)
    ]
    yield list(await asyncio.gather(*(asyncio.to_thread(start_service, SERVICE, environ) for environ in environs)))


async def curl(*arguments: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "--fail-with-body", *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out
    return json.loads(out)


async def counts_are(pool: Pool, expected: dict[str, int]) -> bool:
    return await count_by_status(pool) == expected


async def test_1_basic_functionality(replicas: list[ServiceProcess]) -> None:
    url = replicas[0].url
    assert (await curl(f"{url}/api/health"))["status"] == "ok"
    assert set(await curl(f"{url}/api/v1/sync/state")) == {
        "pending_count",
        "claimed_count",
        "dlq_count",
        "oldest_pending_age_seconds",
        "last_success_at",
        "last_error_at",
    }
    assert await curl("-X", "POST", f"{url}/api/v1/sync/trigger") == {"status": "triggered"}


async def test_2_multi_replica_safety(replicas: list[ServiceProcess], edge_pool: Pool, cloud: ScriptedCloud) -> None:
    async def are_two_at_it() -> bool:
        return bool(await edge_pool.fetchval("SELECT count(DISTINCT claimed_by) > 1 FROM sync_outbox"))

    async def accept_when_two_are_at_it(received: Received) -> web.Response:
        """One alone is done with all of them before another one wakes up."""
        await eventually(are_two_at_it, what="a second replica that claims")
        return await accept(received)

    cloud.otherwise = accept_when_two_are_at_it
    await edge_pool.execute(SEED, 2000)
    await eventually(lambda: counts_are(edge_pool, {"acked": 2000}), seconds=40)
    claims = await edge_pool.fetch("SELECT claim_token, claimed_by FROM sync_outbox")
    assert {row["claim_token"] for row in claims} == {1}
    assert len({row["claimed_by"] for row in claims}) > 1
    assert {row["claimed_by"] for row in claims} <= {f"forwarder-pod-{number}" for number in (1, 2, 3)}
    assert set(cloud.times_received().values()) == {1}
    assert (await curl(f"{replicas[2].url}/api/v1/sync/state"))["pending_count"] == 0


async def test_3_retry_behavior_and_4_dlq_recovery(
    replicas: list[ServiceProcess], edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    url = replicas[0].url
    cloud.otherwise = status(500)
    await edge_pool.execute(SEED, 20)
    seen: set[int] = set()

    async def all_given_up() -> bool:
        rows = await edge_pool.fetch(
            "SELECT status, attempt_count, next_attempt_at, last_error_code FROM sync_outbox"
            " WHERE status IN ('pending', 'dlq') ORDER BY attempt_count DESC"
        )
        seen.update(row["attempt_count"] for row in rows)
        assert {row["last_error_code"] for row in rows} <= {None, "HTTP_500"}
        return {row["status"] for row in rows} == {"dlq"} and len(rows) == 20

    await eventually(all_given_up, seconds=90)
    assert len(seen) > 3
    rows = await edge_pool.fetch("SELECT DISTINCT attempt_count, dlq_reason FROM sync_outbox")
    assert [tuple(row) for row in rows] == [(10, "max_attempts_exceeded")]

    assert (await curl(f"{url}/api/v1/sync/dlq", *ADMIN))["count"] == 20
    cloud.otherwise = accept
    redriven = await curl("-X", "POST", f"{url}/api/v1/sync/redrive", *ADMIN, *JSON, "-d", '{"allDlq": true}')
    assert redriven == {"redriven": 20}
    await eventually(lambda: counts_are(edge_pool, {"acked": 20}))
    assert await edge_pool.fetchval("SELECT max(attempt_count) FROM sync_outbox") == 0


async def test_5_stuck_lease_recovery(replicas: list[ServiceProcess], edge_pool: Pool, cloud: ScriptedCloud) -> None:
    await asyncio.gather(*(asyncio.to_thread(replica.stop) for replica in replicas[1:]))
    cloud.otherwise = status(503, retry_after="600")
    await edge_pool.execute(SEED, 3)
    await eventually(lambda: is_paused(edge_pool), what="the tenant to pause, so that nobody is quicker than curl")
    await edge_pool.execute(
        "UPDATE sync_outbox SET status = 'claimed', claimed_by = 'dead-pod-1', claimed_at = NOW(),"
        " lease_expires_at = NOW() + INTERVAL '1 hour'"
    )
    await edge_pool.execute(
        "UPDATE sync_outbox SET lease_expires_at = NOW() - INTERVAL '1 minute' WHERE claimed_by = 'dead-pod-1'"
    )
    unclaimed = await curl(
        "-X",
        "POST",
        f"{replicas[0].url}/api/v1/sync/unclaim-stuck",
        *ADMIN,
        *JSON,
        "-d",
        '{"olderThanSeconds": 300}',
    )
    # The forwarder itself rescues expired leases too, and may have been first, or be at it just now.
    assert 0 <= unclaimed["unclaimed"] <= 3
    await eventually(lambda: counts_are(edge_pool, {"pending": 3}))
    cloud.otherwise = accept

    async def is_delivered_when_triggered() -> bool:
        # Again and again: another replica's request, still under way to the cloud that refuses, may pause the tenant once more.
        await curl("-X", "POST", f"{replicas[0].url}/api/v1/sync/trigger", *ADMIN)
        return await counts_are(edge_pool, {"acked": 3})

    await eventually(is_delivered_when_triggered)
    claims = await edge_pool.fetch("SELECT DISTINCT claimed_by FROM sync_outbox")
    assert [row["claimed_by"] for row in claims] == ["forwarder-pod-1"]


async def is_paused(pool: Pool) -> bool:
    return bool(await pool.fetchval("SELECT count(*) FROM sync_state WHERE paused_until > now() + interval '1 minute'"))
