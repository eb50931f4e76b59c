import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest_asyncio

from farmiq.edge.sync_forwarder.api import routes
from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.http_server import serve_http
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.postgres import Pool
from farmiq.kit.settings import HttpSettings
from farmiq.outbox.wakeup import Wakeup
from farmiq.stack.ports import free_port
from support.cut_link import plugged
from support.outbox_rows import count_by_status, fill_outbox, outbox_row
from support.scripted_cloud import TOKEN, ScriptedCloud, accept, cloud, refusal, status
from support.service_process import running
from support.stored_months import store_samples
from support.waiting import eventually

__all__ = ["cloud"]  # a fixture
ADMIN = {"authorization": "Bearer admin-token"}


def environ(edge_url: str, cloud_url: str) -> dict[str, str]:
    return {
        "DATABASE_URL": edge_url,
        "CLOUD_INGESTION_URL": cloud_url,
        "CLOUD_INGESTION_TOKEN": TOKEN,
        "EDGE_CLUSTER_ID": "edge-1",
        "OUTBOX_MAX_ATTEMPTS": "1",
        "INTERNAL_ADMIN_ENABLED": "true",
        "ADMIN_TOKEN": "admin-token",
    }


@pytest_asyncio.fixture
async def api(edge_url: str, cloud: ScriptedCloud) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        running(serve, "edge-sync-forwarder", environ(edge_url, cloud.url)) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield session


async def bury(pool: Pool, api: aiohttp.ClientSession, cloud: ScriptedCloud, count: int) -> None:
    """Dead letters, made by a cloud that refuses each of them once."""
    cloud.otherwise = refusal(422)
    await fill_outbox(pool, count)
    async with api.post("/api/v1/sync/trigger") as answer:
        assert answer.status == 202

    async def all_dead() -> bool:
        return await count_by_status(pool) == {"dlq": count}

    await eventually(all_dead)


async def test_the_state_has_exactly_the_documented_fields(
    api: aiohttp.ClientSession, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    async with api.get("/api/v1/sync/state") as answer:
        assert answer.status == 200
        assert await answer.json() == {
            "pending_count": 0,
            "claimed_count": 0,
            "dlq_count": 0,
            "oldest_pending_age_seconds": 0,
            "last_success_at": None,
            "last_error_at": None,
        }
    await bury(edge_pool, api, cloud, 2)
    async with api.get("/api/v1/sync/state") as answer:
        state = await answer.json()
    assert state["dlq_count"] == 2
    assert state["last_error_at"].endswith("Z")
    assert datetime.fromisoformat(state["last_error_at"]).tzinfo is not None


async def test_rows_are_listed_by_status_without_their_payloads(
    api: aiohttp.ClientSession, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await bury(edge_pool, api, cloud, 3)
    async with api.get("/api/v1/sync/outbox", params={"status": "dlq", "limit": "2"}, headers=ADMIN) as answer:
        listed = await answer.json()
    assert listed["count"] == 2
    assert {entry["status"] for entry in listed["entries"]} == {"dlq"}
    assert listed["entries"][0]["last_error_code"] == "HTTP_422"
    assert not any("payload_json" in entry for entry in listed["entries"])
    async with api.get("/api/v1/sync/outbox", params={"status": "pending"}, headers=ADMIN) as answer:
        assert (await answer.json())["entries"] == []


async def test_what_the_cloud_has_not_acknowledged_is_listed_with_the_samples_of_its_packs(
    api: aiohttp.ClientSession, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await bury(edge_pool, api, cloud, 2)
    cloud.otherwise = status(503)
    stream = await store_samples(edge_pool, [datetime.now(UTC)] * 3)
    async with api.get("/api/v1/sync/waiting", params={"tenant_id": "demo"}, headers=ADMIN) as answer:
        waiting = await answer.json()
    assert waiting["is_complete"]
    (pack,) = [event for event in waiting["events"] if event["event_type"] == "telemetry.batch.ingested"]
    assert (pack["stream_id"], pack["first_seq"], pack["samples"], pack["is_dead"]) == (str(stream), "1", 3, False)
    assert [event["is_dead"] for event in waiting["events"] if event is not pack] == [True, True]
    async with api.get("/api/v1/sync/waiting?tenant_id=demo&limit=2", headers=ADMIN) as answer:
        part = await answer.json()
    assert (len(part["events"]), part["is_complete"]) == (2, False)
    async with api.get(f"/api/v1/sync/waiting?tenant_id=demo&limit=2&after={part['next']}", headers=ADMIN) as answer:
        rest = await answer.json()
    assert (len(rest["events"]), rest["is_complete"], rest["next"]) == (1, True, None)
    assert sorted(event["id"] for event in part["events"] + rest["events"]) == sorted(
        event["id"] for event in waiting["events"]
    )
    async with api.get("/api/v1/sync/waiting?tenant_id=other", headers=ADMIN) as answer:
        assert (await answer.json())["events"] == []


async def test_what_the_cloud_has_acknowledged_lately_is_listed_like_what_waits(
    api: aiohttp.ClientSession, edge_pool: Pool
) -> None:
    """promise-cloud 4: only that can be on the cloud's bus."""
    stream = await store_samples(edge_pool, [datetime.now(UTC)] * 3)

    async def is_acked() -> bool:
        return "acked" in await count_by_status(edge_pool)

    await eventually(is_acked)

    async def listed(**query: str) -> list[dict[str, Any]]:
        async with api.get("/api/v1/sync/acknowledged", params={"tenant_id": "demo"} | query, headers=ADMIN) as answer:
            events: list[dict[str, Any]] = (await answer.json())["events"]
            return events

    (pack,) = [event for event in await listed(seconds="600") if event["event_type"] == "telemetry.batch.ingested"]
    assert (pack["stream_id"], pack["first_seq"], pack["samples"], pack["is_dead"]) == (str(stream), "1", 3, False)
    assert await listed(seconds="600", tenant_id="other") == []
    await edge_pool.execute("UPDATE sync_outbox SET updated_at = clock_timestamp() - interval '1 hour'")
    assert (await listed(seconds="600"), len(await listed()) > 0) == ([], True)
    # Of a clock that was ahead: nobody knows when it was, and it must not explain anything for as long.
    await edge_pool.execute("UPDATE sync_outbox SET updated_at = clock_timestamp() + interval '1 day'")
    assert await listed(seconds="600") == []


async def test_a_wrong_question_is_answered_with_400(api: aiohttp.ClientSession) -> None:
    for query in ("status=lost", "limit=0", "limit=1001", "limit=many"):
        async with api.get(f"/api/v1/sync/outbox?{query}", headers=ADMIN) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, "invalid_request"), query


async def test_the_trigger_without_a_token_works_from_this_machine_only_and_ends_no_pause(edge_pool: Pool) -> None:
    life, wakeup, port = Lifetime("edge-sync-forwarder"), Wakeup(), free_port()
    handlers = routes(edge_pool, (wakeup,), "admin-token", is_loopback_only=True)
    serving = asyncio.create_task(serve_http(life, HttpSettings(port=port), handlers))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        await eventually(partial(is_answering, session))
        assert await triggered(session) == 202
        assert not wakeup.take_force()
        for header in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
            assert await triggered(session, {header: "127.0.0.1"}) == 401
        assert await triggered(session, {"authorization": "Bearer other"}) == 202, "no better than none"
        assert not wakeup.take_force()
        assert await triggered(session, ADMIN | {"X-Forwarded-For": "192.0.2.7"}) == 202
        assert wakeup.take_force()
    life.stopping.set()
    await serving


async def test_a_forwarder_that_listens_on_every_address_triggers_nothing_without_a_token(
    edge_url: str, cloud: ScriptedCloud
) -> None:
    everywhere = environ(edge_url, cloud.url) | {"HOST": "0.0.0.0"}  # noqa: S104 - on purpose
    async with (
        running(serve, "edge-sync-forwarder", everywhere) as url,
        aiohttp.ClientSession(url) as session,
    ):
        assert await triggered(session) == 401
        assert await triggered(session, ADMIN) == 202


async def is_answering(session: aiohttp.ClientSession) -> bool:
    try:
        async with session.get("/api/health") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


async def triggered(session: aiohttp.ClientSession, headers: dict[str, str] | None = None) -> int:
    async with session.post("/api/v1/sync/trigger", headers=headers) as answer:
        return answer.status


async def test_admin_routes_need_the_token(api: aiohttp.ClientSession) -> None:
    for method, path in (
        ("GET", "dlq"),
        ("GET", "waiting?tenant_id=demo"),
        ("POST", "redrive"),
        ("POST", "unclaim-stuck"),
    ):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer "}):
            async with api.request(method, f"/api/v1/sync/{path}", json={}, headers=headers) as answer:
                assert answer.status == 401, path


async def test_admin_routes_are_not_there_unless_enabled(edge_url: str, cloud: ScriptedCloud) -> None:
    settings = {**environ(edge_url, cloud.url), "INTERNAL_ADMIN_ENABLED": "false"}
    async with running(serve, "edge-sync-forwarder", settings) as url, aiohttp.ClientSession(url) as session:
        async with session.get("/api/v1/sync/dlq", headers=ADMIN) as answer:
            assert answer.status == 404
        async with session.get("/api/v1/sync/state") as answer:
            assert answer.status == 200


async def test_dead_letters_are_listed_redriven_and_delivered(
    api: aiohttp.ClientSession, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await bury(edge_pool, api, cloud, 3)
    cloud.otherwise = accept
    async with api.get("/api/v1/sync/dlq", headers=ADMIN) as answer:
        dead = [entry["id"] for entry in (await answer.json())["entries"]]
    assert len(dead) == 3

    async with api.post("/api/v1/sync/redrive", json={"ids": [dead[0], str(uuid4())]}, headers=ADMIN) as answer:
        assert (answer.status, await answer.json()) == (200, {"redriven": 1})

    async def delivered(count: int) -> bool:
        return (await count_by_status(edge_pool)).get("acked") == count

    await eventually(lambda: delivered(1))
    async with api.post("/api/v1/sync/redrive", json={"allDlq": True}, headers=ADMIN) as answer:
        assert await answer.json() == {"redriven": 2}
    await eventually(lambda: delivered(3))


async def test_a_redrive_by_filter_can_be_tried_dry(
    api: aiohttp.ClientSession, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await bury(edge_pool, api, cloud, 3)
    cloud.otherwise = accept
    for body, count in (
        ({"tenantId": "demo", "eventType": "test.event", "errorCode": "HTTP_422", "olderThanSeconds": 0}, 3),
        ({"allDlq": True}, 3),
        ({"tenantId": "somebody-else"}, 0),
        ({"errorCode": "schema"}, 0),
        ({"olderThanSeconds": 3600}, 0),
    ):
        async with api.post("/api/v1/sync/redrive", json={**body, "dryRun": True}, headers=ADMIN) as answer:
            assert (answer.status, await answer.json()) == (200, {"redriven": 0, "wouldRedrive": count}), body
    assert await count_by_status(edge_pool) == {"dlq": 3}
    async with api.post("/api/v1/sync/redrive", json={"errorCode": "HTTP_422"}, headers=ADMIN) as answer:
        assert await answer.json() == {"redriven": 3}


async def test_redrive_wants_ids_or_everything_or_a_filter(api: aiohttp.ClientSession) -> None:
    bodies: tuple[object, ...] = (
        {},
        {"ids": []},
        {"ids": ["x"]},
        {"ids": [str(uuid4())], "allDlq": True},
        {"ids": [str(uuid4())], "tenantId": "demo"},
        {"allDlq": True, "tenantId": "demo"},
        {"allDlq": True, "tenant": "demo"},
        {"dryRun": True},
        [],
    )
    for body in bodies:
        async with api.post("/api/v1/sync/redrive", json=body, headers=ADMIN) as answer:
            assert answer.status == 400, body


async def test_rows_of_a_dead_replica_are_unclaimed_and_delivered(api: aiohttp.ClientSession, edge_pool: Pool) -> None:
    await edge_pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json, status, claimed_by, claimed_at, lease_expires_at)"
        " VALUES (gen_random_uuid(), 'demo', 'test.event', '{}', 'claimed', 'dead-pod-1', now() - interval '1 hour',"
        "         now() + interval '1 hour')"
    )
    (event_id,) = [row["id"] for row in await edge_pool.fetch("SELECT id FROM sync_outbox")]
    async with api.post("/api/v1/sync/unclaim-stuck", json={"olderThanSeconds": 300}, headers=ADMIN) as answer:
        assert await answer.json() == {"unclaimed": 1}

    async def is_delivered() -> bool:
        row = await outbox_row(edge_pool, event_id)
        return bool(row["status"] == "acked" and row["attempt_count"] == 0)

    await eventually(is_delivered)


async def test_the_documented_metrics_are_there(
    api: aiohttp.ClientSession, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await bury(edge_pool, api, cloud, 1)
    async with api.get("/metrics") as answer:
        text = await answer.text()
    names = {line.split(" ")[0].partition("{")[0] for line in text.splitlines() if not line.startswith("#")}
    assert names >= {
        "outbox_pending_total",
        "outbox_claimed_total",
        "outbox_dlq_total",
        "sync_send_success_total",
        "sync_send_failure_total",
        "sync_batch_latency_ms_bucket",
        "oldest_pending_age_seconds",
    }
    assert "sync_send_failure_total 1.0" in text


async def test_health_readiness_and_api_pages_answer(api: aiohttp.ClientSession) -> None:
    for path in ("/api/health", "/api/ready", "/api-docs", "/api-docs/openapi.json"):
        async with api.get(path) as answer:
            assert answer.status == 200, path


async def test_a_pause_shows_what_it_ran_into(edge_url: str, edge_pool: Pool, cloud: ScriptedCloud) -> None:
    await edge_pool.execute(
        "INSERT INTO sync_state (tenant_id, consecutive_failures, paused_until, last_error_code) VALUES"
        " ('a', 3, now() + interval '1 hour', 'HTTP_401'), ('b', 1, now() + interval '1 hour', 'HTTP_401'),"
        " ('c', 0, NULL, 'HTTP_500')"
    )
    async with (
        running(serve, "edge-sync-forwarder", environ(edge_url, cloud.url)) as url,
        aiohttp.ClientSession(url) as session,
    ):

        async def shown() -> list[str]:
            async with session.get("/metrics") as answer:
                text = await answer.text()
            return [line for line in text.splitlines() if line.startswith("farmiq_sync_tenants_paused{")]

        assert await eventually(shown) == ['farmiq_sync_tenants_paused{code="HTTP_401"} 2.0']


async def test_every_metric_that_the_runbook_names_is_exported(api: aiohttp.ClientSession) -> None:
    page = Path(__file__).parents[4] / "docs" / "operations" / "sync.md"
    named = set(
        re.findall(r"\b(?:farmiq|outbox|sync|oldest)_[a-z_]+(?:_total|_seconds|_ms|_paused)\b", page.read_text())
    )
    async with api.get("/metrics") as answer:
        text = await answer.text()
    exported = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert named
    assert named <= exported


async def test_dead_letters_are_grouped_by_what_the_cloud_said_and_each_tenant_sees_its_own(
    api: aiohttp.ClientSession, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await bury(edge_pool, api, cloud, 3)
    [tenant] = {row["tenant_id"] for row in await edge_pool.fetch("SELECT tenant_id FROM sync_outbox")}
    async with api.get("/api/v1/sync/dlq/groups", params={"tenant_id": tenant}, headers=ADMIN) as answer:
        [group] = (await answer.json())["groups"]
    assert (group["events"], group["error_code"]) == (3, "HTTP_422")
    for path, wanted in (("/api/v1/sync/dlq", 3), ("/api/v1/sync/dlq/groups", 1)):
        for asked, count in ((tenant, wanted), ("another", 0)):
            async with api.get(path, params={"tenant_id": asked}, headers=ADMIN) as answer:
                found = await answer.json()
            assert len(found.get("entries", found.get("groups"))) == count
        async with api.get(path, params={"tenant_id": tenant}) as answer:
            assert answer.status == 401


async def test_the_detail_names_who_has_rows_in_hand_and_which_tenant_pauses(
    api: aiohttp.ClientSession, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await fill_outbox(edge_pool, 2)
    await edge_pool.execute(
        "UPDATE sync_outbox SET status = 'claimed', claimed_by = 'replica-9', claimed_at = now(),"
        " lease_expires_at = now() + interval '1 hour', claim_token = claim_token + 1"
    )
    await edge_pool.execute(
        "INSERT INTO sync_state (tenant_id, consecutive_failures, paused_until) VALUES ('sleepy', 3, now() + interval '1 hour')"
    )
    async with api.get("/api/v1/sync/detail", headers=ADMIN) as answer:
        detail = await answer.json()
    [holder] = detail["holders"]
    assert (holder["claimed_by"], holder["events"]) == ("replica-9", 2)
    [link] = [link for link in detail["links"] if link["tenant_id"] == "sleepy"]
    assert (link["consecutive_failures"], link["last_acked_at"]) == (3, None)
    assert link["paused_until"] is not None


async def test_while_the_database_is_away_the_caller_is_asked_to_come_back(edge_url: str, cloud: ScriptedCloud) -> None:
    async with (
        plugged(edge_url) as cable,
        running(serve, "edge-sync-forwarder", environ(cable.url, cloud.url)) as url,
        aiohttp.ClientSession(url) as session,
    ):
        await cable.pull()
        async with session.get("/api/v1/sync/state") as answer:
            assert (answer.status, "retry-after" in answer.headers) == (503, True), await answer.text()
        await cable.plug()

        async def is_back() -> bool:
            async with session.get("/api/v1/sync/state") as answer:
                return answer.status == 200

        await eventually(is_back)
