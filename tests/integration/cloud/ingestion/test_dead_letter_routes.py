"""Dead letters over the entrance's API, as the console asks for them."""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from farmiq.cloud.ingestion.bus_routes import IN_HAND_SECONDS
from farmiq.cloud.ingestion.main import serve
from farmiq.kit.amqp import Outgoing
from farmiq.kit.postgres import Pool
from support.dead_letters import DEAD_LETTERS, QUEUE, SERVICE, filled, ids_in, letter, numbered, waiting_ids
from support.entrance import SERVICE as ENTRANCE
from support.entrance import until_ready
from support.rabbitmq import NewVirtualHost
from support.service_process import running

TOKEN = secrets.token_urlsafe(24)
BASE = f"/api/v1/dlq/{SERVICE}"


@pytest.fixture
def amqp_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest_asyncio.fixture
async def api(amqp_url: str, cloud_url: str) -> AsyncIterator[aiohttp.ClientSession]:
    environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url, "ADMIN_TOKEN": TOKEN}
    letters = [
        *map(letter, range(6)),
        letter(6, reason="refused", tenant_id="other"),
        letter(7, body=b"\xff rubbish"),
    ]
    async with filled(amqp_url, *letters), running(serve, ENTRANCE, environ) as url:
        await until_ready(url)
        async with aiohttp.ClientSession(url, headers={"authorization": f"Bearer {TOKEN}"}) as session:
            yield session


async def ask(api: aiohttp.ClientSession, path: str, **parameters: Any) -> Any:
    async with api.get(path, params=parameters) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def order(api: aiohttp.ClientSession, path: str, **body: Any) -> tuple[int, Any]:
    async with api.post(path, json=body) as answer:
        return answer.status, await answer.json()


async def test_letters_are_counted_shown_brought_back_discarded_and_all_of_it_is_on_record(
    api: aiohttp.ClientSession, amqp_url: str, cloud_pool: Pool
) -> None:
    queues = (await ask(api, "/api/v1/dlq"))["queues"]
    assert [(one["service"], one["messages"]) for one in queues] == [
        (SERVICE, 8),
        ("cloud-analytics-service", 0),
        ("cloud-media-store", 0),
    ]
    assert {(group["reason"], group["count"]) for group in queues[0]["groups"]} == {("schema", 7), ("refused", 1)}
    of_one = (await ask(api, "/api/v1/dlq", tenant_id="demo", device_id="node-1"))["queues"][0]
    assert (of_one["messages"], of_one["groups"]) == (8, []), "none of them names a device"

    [shown] = (await ask(api, f"{BASE}/messages", reason="refused"))["messages"]
    assert (shown["letter"]["message_id"], shown["envelope"]["tenant_id"]) == ("m-6", "other")
    assert shown["headers"]["x-farmiq-reason"] == "refused"
    [odd] = (await ask(api, f"{BASE}/messages", id="m-7"))["messages"]
    assert (odd["envelope"], odd["body"]) == (None, "/yBydWJiaXNo")

    status, dry = await order(api, f"{BASE}/replay", tenant_id="demo", dry_run=True)
    assert (status, dry["counts"]["matched"], dry["counts"]["done"]) == (200, 6, 0)
    status, done = await order(api, f"{BASE}/replay", tenant_id="demo", limit=4, messages_per_second=1000)
    assert (status, done["counts"]["done"], done["messages"]) == (200, 4, 8)
    status, gone = await order(api, f"{BASE}/discard", reason="refused", confirm=True)
    assert (status, gone["counts"]["done"]) == (200, 1)

    actions = (await ask(api, "/api/v1/dlq/actions"))["actions"]
    assert [(one["kind"], one["is_dry_run"], one["done"], one["asked_by"]) for one in actions] == [
        ("discard", False, 1, "admin-token"),
        ("replay", False, 4, "admin-token"),
        ("replay", True, 0, "admin-token"),
    ]
    assert all(one["trace_id"] for one in actions)
    assert await ids_in(amqp_url, QUEUE) == numbered(range(4))
    assert await waiting_ids(cloud_pool, amqp_url) == ["m-4", "m-5", "m-7"]


async def test_what_is_not_allowed_changes_nothing(api: aiohttp.ClientSession, amqp_url: str) -> None:
    for path, body, status, code in (
        (f"{BASE}/discard", {}, 400, "not_confirmed"),
        (f"{BASE}/discard", {"confirm": "yes"}, 400, "invalid_request"),
        (f"{BASE}/replay", {"limit": 1001}, 400, "invalid_request"),
        (f"{BASE}/replay", {"resaon": "schema"}, 400, "invalid_request"),
        (f"{BASE}/replay", {"messages_per_second": 1}, 400, "too_slow"),
        (f"{BASE}/replay", {"since": "2026-01-01T10:00:00"}, 400, "no_time_zone"),
        ("/api/v1/dlq/cloud-ingestion/replay", {}, 404, "no_such_service"),
    ):
        answered, told = await order(api, path, **body)
        assert (answered, told["error"]["code"]) == (status, code), (path, body, told)
    for method, path in (("get", "/api/v1/dlq"), ("get", "/api/v1/dlq/actions"), ("post", f"{BASE}/replay")):
        async with api.request(method, path, headers={"authorization": "Bearer wrong"}) as answer:
            assert answer.status == 401
    assert (await ask(api, "/api/v1/dlq/actions"))["actions"] == []
    assert len(await ids_in(amqp_url, DEAD_LETTERS)) == 8


async def test_without_an_admin_token_there_are_no_such_routes(amqp_url: str, cloud_url: str) -> None:
    async with (
        running(serve, ENTRANCE, {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}) as url,
        aiohttp.ClientSession(url) as session,
        session.get("/api/v1/dlq") as answer,
    ):
        assert answer.status == 404


async def test_what_is_on_the_bus_is_counted_and_letters_that_were_looked_at_count_with_the_others(
    api: aiohttp.ClientSession,
) -> None:
    for _ in range(2):
        queue = (await ask(api, "/api/v1/bus/queues"))["queues"][0]
        assert queue.pop("oldest_seconds") >= IN_HAND_SECONDS
        assert queue == {"service": SERVICE, "waiting": 0, "retrying": 0, "dead": 8}
        await ask(api, "/api/v1/dlq")
    async with api.get("/api/v1/bus/queues", headers={"authorization": "Bearer wrong"}) as answer:
        assert answer.status == 401


async def test_what_is_on_the_bus_is_no_older_than_when_its_queue_was_seen_empty(
    api: aiohttp.ClientSession, amqp_url: str, cloud_pool: Pool
) -> None:
    """promise-cloud 4: whoever asks lets the bus explain nothing older."""

    async def oldest_seconds() -> float | None:
        seconds: float | None = (await ask(api, "/api/v1/bus/queues"))["queues"][0]["oldest_seconds"]
        return seconds

    await oldest_seconds()
    await cloud_pool.execute("UPDATE empty_bus_queues SET empty_at = now() - interval '2 hours'")
    async with filled(amqp_url, Outgoing("", QUEUE, b"{}", "m-9", {})):
        waiting = (await ask(api, "/api/v1/bus/queues"))["queues"][0]
        assert waiting["waiting"] == 1
        assert 7200 + IN_HAND_SECONDS <= waiting["oldest_seconds"] < 7800 + IN_HAND_SECONDS
        # A clock that was ahead and is right now: nothing is younger than now.
        await cloud_pool.execute("UPDATE empty_bus_queues SET empty_at = now() + interval '1 day'")
        assert await oldest_seconds() == IN_HAND_SECONDS
        await cloud_pool.execute("DELETE FROM empty_bus_queues")
        assert await oldest_seconds() is None


async def test_owners_of_devices_are_told_to_administrators(api: aiohttp.ClientSession, cloud_pool: Pool) -> None:
    await cloud_pool.execute("INSERT INTO device_owners VALUES ('demo', 'node-1', 'edge-1', 'delivery')")
    owners = (await ask(api, "/api/v1/device-owners", tenant_id="demo"))["owners"]
    assert [(one["device_id"], one["edge_cluster_id"]) for one in owners] == [("node-1", "edge-1")]
    assert (await ask(api, "/api/v1/device-owners", tenant_id="other"))["owners"] == []
    async with api.get("/api/v1/device-owners?tenant_id=demo", headers={"authorization": "Bearer wrong"}) as answer:
        assert answer.status == 401
