"""The cloud's entrance on real PostgreSQL and RabbitMQ."""

import asyncio
import gzip
import io
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from farmiq.cloud.ingestion import edges
from farmiq.cloud.ingestion.epochs import load_epoch
from farmiq.cloud.ingestion.main import serve
from farmiq.contracts import bus
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.stack.ports import free_port
from support.bus_queue import bind, take_all
from support.cut_link import plugged
from support.rabbitmq import NewVirtualHost
from support.service_process import running
from support.waiting import eventually

SERVICE = "cloud-ingestion"
ROUTE = "/api/v1/edge/batch"
QUEUE = bus.TELEMETRY_INGEST_QUEUE
TOKEN = secrets.token_urlsafe(24)
ADMIN_TOKEN = "for-this-test-only"
BEARER = {"authorization": f"Bearer {TOKEN}"}


def event(event_id: UUID | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "event_id": str(event_id or new_id()),
        "event_type": "telemetry.ingested",
        "tenant_id": "demo",
        "farm_id": "farm-1",
        "barn_id": "barn-1",
        "device_id": "node-1",
        "session_id": None,
        "occurred_at": "2026-01-01T10:00:00Z",
        "trace_id": "trace-1",
        "payload": {"metric_type": "temperature", "metric_value": 26.4, "unit": "C"},
        **changes,
    }


def batch(*events: object, **fields: object) -> dict[str, object]:
    return {"batch_id": "b-1", "edge_cluster_id": "edge-1", "tenant_id": "demo", "events": list(events), **fields}


async def post(
    api: aiohttp.ClientSession, body: object, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any], dict[str, str]]:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    async with api.post(ROUTE, data=io.BytesIO(data), headers={**BEARER, **(headers or {})}) as answer:
        return answer.status, await answer.json(), {name.lower(): value for name, value in answer.headers.items()}


def statuses(answer: dict[str, Any]) -> list[str]:
    return [result["status"] for result in answer["results"]]


async def remembered(pool: Pool) -> Counter[tuple[str, str]]:
    rows = await pool.fetch("SELECT tenant_id, event_id FROM ingest_dedupe")
    return Counter((row["tenant_id"], str(row["event_id"])) for row in rows)


@pytest_asyncio.fixture
async def edge(cloud_pool: Pool) -> None:
    async with cloud_pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo", "second"], token=TOKEN)


@pytest.fixture
def amqp_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest_asyncio.fixture
async def api(edge: None, cloud_url: str, amqp_url: str) -> AsyncIterator[aiohttp.ClientSession]:
    settings = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url, "ADMIN_TOKEN": ADMIN_TOKEN}
    async with running(serve, SERVICE, settings) as url, aiohttp.ClientSession(url) as session:
        await until_ready(session)
        yield session


async def until_ready(session: aiohttp.ClientSession) -> None:
    async def is_ready() -> bool:
        async with session.get("/api/ready") as answer:
            return answer.status == 200

    await eventually(is_ready, what="readiness")


async def test_an_accepted_event_is_on_the_bus_and_remembered(
    api: aiohttp.ClientSession, cloud_pool: Pool, amqp_url: str
) -> None:
    sent = event()
    status, answer, _ = await post(api, gzip.compress(msgspec.json.encode(batch(sent))), {"content-encoding": "gzip"})
    assert status == 200
    epoch = await load_epoch(cloud_pool)
    assert answer == {
        "batch_id": "b-1",
        "accepted": 1,
        "duplicates": 0,
        "results": [{"event_id": sent["event_id"], "status": "accepted"}],
        "life": msgspec.to_builtins(epoch) | {"answer": 1, "tokens": answer["life"]["tokens"]},
    }
    (on_the_bus,) = await take_all(amqp_url, QUEUE)
    assert msgspec.json.decode(msgspec.json.encode(on_the_bus)) == sent
    assert await remembered(cloud_pool) == {("demo", sent["event_id"]): 1}


async def test_what_comes_again_is_a_duplicate_and_not_published_again(
    api: aiohttp.ClientSession, amqp_url: str
) -> None:
    first, second = event(), event()
    await post(api, batch(first))
    _, answer, _ = await post(api, batch(second, first, second))
    assert statuses(answer) == ["accepted", "duplicate", "duplicate"]
    assert (answer["accepted"], answer["duplicates"]) == (1, 2)
    ids = [str(envelope.event_id) for envelope in await take_all(amqp_url, QUEUE)]
    assert ids == [first["event_id"], second["event_id"]]


async def test_a_known_id_with_other_content_is_rejected_and_never_called_a_duplicate(
    api: aiohttp.ClientSession, cloud_pool: Pool, amqp_url: str
) -> None:
    known = event()
    await post(api, batch(known))
    others = [
        known | {"device_id": "node-2"},
        known | {"event_type": "pump.alarm"},
        known | {"occurred_at": "2026-01-01T10:00:01Z"},
        known | {"payload": known["payload"] | {"metric_value": 26.5}},
    ]
    for other in others:
        _, answer, _ = await post(api, batch(other))
        assert [(result["status"], result["code"]) for result in answer["results"]] == [("rejected", "event_id_reused")]
    same = known | {"trace_id": "trace-2", "payload": dict(reversed(known["payload"].items()))}
    _, answer, _ = await post(api, batch(others[0], others[3], same, event()))
    assert statuses(answer) == ["rejected", "rejected", "duplicate", "accepted"]
    assert len(await take_all(amqp_url, QUEUE)) == 2
    row = await cloud_pool.fetchrow(
        "SELECT edge_cluster_id FROM ingest_dedupe WHERE event_id = $1", UUID(known["event_id"])
    )
    assert row is not None
    assert row["edge_cluster_id"] == "edge-1"


async def test_one_id_twice_in_a_batch_with_different_content_is_accepted_once_and_rejected_once(
    api: aiohttp.ClientSession, amqp_url: str
) -> None:
    first = event()
    _, answer, _ = await post(api, batch(first, first | {"device_id": "node-2"}, first))
    assert statuses(answer) == ["accepted", "rejected", "duplicate"]
    assert [envelope.device_id for envelope in await take_all(amqp_url, QUEUE)] == ["node-1"]


async def test_a_dedupe_row_of_an_earlier_release_counts_as_the_same_event(
    api: aiohttp.ClientSession, cloud_pool: Pool, amqp_url: str
) -> None:
    known = event()
    await cloud_pool.execute(
        "INSERT INTO ingest_dedupe (tenant_id, event_id) VALUES ('demo', $1)", UUID(known["event_id"])
    )
    _, answer, _ = await post(api, batch(known))
    assert statuses(answer) == ["duplicate"]
    assert await take_all(amqp_url, QUEUE) == []


async def test_the_same_id_of_another_tenant_is_another_event(api: aiohttp.ClientSession, amqp_url: str) -> None:
    event_id = new_id()
    _, answer, _ = await post(api, [event(event_id), event(event_id, tenant_id="second")])
    assert statuses(answer) == ["accepted", "accepted"]
    assert answer["batch_id"] is None
    assert len(await take_all(amqp_url, QUEUE)) == 2


async def test_many_requests_with_the_same_events_at_once_publish_each_once(
    api: aiohttp.ClientSession, cloud_pool: Pool, amqp_url: str
) -> None:
    events = [event() for _ in range(20)]
    answers = await asyncio.gather(*(post(api, batch(*events[::step])) for step in (1, -1) * 6))
    results = [(item["event_id"], item["status"]) for _, answer, _ in answers for item in answer["results"]]
    assert Counter(event_id for event_id, status in results if status == "accepted") == Counter(
        item["event_id"] for item in events
    )
    assert {status for _, status in results} == {"accepted", "duplicate"}
    assert len(await take_all(amqp_url, QUEUE)) == 20
    assert (await remembered(cloud_pool)).total() == 20


async def test_a_poison_event_never_fails_its_neighbours(api: aiohttp.ClientSession, amqp_url: str) -> None:
    good, other = event(), event()
    bad = event(payload={"metric_type": "temperature", "metric_value": "hot", "unit": "C"})
    status, answer, _ = await post(api, batch(good, 17, bad, event(tenant_id="stranger"), other))
    assert status == 200
    assert statuses(answer) == ["accepted", "rejected", "rejected", "rejected", "accepted"]
    assert [result.get("code") for result in answer["results"]] == [None, "schema", "schema", "tenant_forbidden", None]
    assert answer["results"][2]["event_id"] == bad["event_id"]
    assert "event_id" not in answer["results"][1]
    assert len(await take_all(amqp_url, QUEUE)) == 2


async def test_an_event_that_nobody_consumes_is_refused_alone_and_may_come_again(
    api: aiohttp.ClientSession, cloud_pool: Pool, amqp_url: str
) -> None:
    good, unheard = event(), event(event_type="telemetry.forecast", payload={"tomorrow": 1})
    _, answer, _ = await post(api, batch(unheard, good))
    assert [(result["status"], result.get("code")) for result in answer["results"]] == [
        ("rejected", "unroutable"),
        ("accepted", None),
    ]
    assert await remembered(cloud_pool) == {("demo", good["event_id"]): 1}

    listener = "farmiq.somebody.forecasts.queue"
    await bind(amqp_url, listener, bus.TELEMETRY_EXCHANGE, "telemetry.forecast")
    _, answer, _ = await post(api, batch(unheard, good))
    assert statuses(answer) == ["accepted", "duplicate"]
    (heard,) = await take_all(amqp_url, listener)
    assert str(heard.event_id) == unheard["event_id"]


async def test_only_an_edge_with_its_own_token_gets_in(api: aiohttp.ClientSession, cloud_pool: Pool) -> None:
    for headers in ({"authorization": ""}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
        status, answer, _ = await post(api, batch(event()), headers)
        assert (status, answer["error"]["code"]) == (401, "unauthorized")
    assert await remembered(cloud_pool) == {}


async def test_an_edge_speaks_for_nobody_else(api: aiohttp.ClientSession, cloud_pool: Pool) -> None:
    for body, code in (
        (batch(event(), tenant_id="stranger"), "tenant_forbidden"),
        (batch(event(), edge_cluster_id="edge-2"), "edge_forbidden"),
    ):
        status, answer, _ = await post(api, body)
        assert (status, answer["error"]["code"]) == (403, code)
    assert await remembered(cloud_pool) == {}


async def test_what_is_too_large_or_unreadable_is_refused(api: aiohttp.ClientSession, cloud_pool: Pool) -> None:
    bomb = gzip.compress(b"[" + b" " * (64 * 1024 * 1024))
    many = msgspec.json.encode([0] * 5001)
    for body, headers, expected in (
        (bomb, {"content-encoding": "gzip"}, 413),
        (b" " * (8 * 1024 * 1024 + 1), {}, 413),
        (gzip.compress(b"[]")[:-3], {"content-encoding": "gzip"}, 400),
        (b"[]", {"content-encoding": "gzip"}, 400),
        (b"[]", {"content-encoding": "compress"}, 415),
        (many, {}, 400),
        (b"", {}, 400),
        (b'{"events": 1}', {}, 400),
        (b"[" * 100_000, {}, 400),
    ):
        status, answer, _ = await post(api, body, headers)
        assert status == expected, (body[:20], answer)
        assert answer["error"]["code"]
    assert await remembered(cloud_pool) == {}
    status, answer, _ = await post(api, [])
    assert (status, answer["results"]) == (200, [])


async def test_a_body_with_more_bytes_than_the_setting_allows_is_refused_announced_or_not(
    edge: None, cloud_url: str, amqp_url: str
) -> None:
    settings = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url, "INGESTION_BODY_BYTES_MAX": "2000"}

    async def in_pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b" " * 900

    async with running(serve, SERVICE, settings) as url, aiohttp.ClientSession(url, headers=BEARER) as session:
        for body in (b" " * 2001, in_pieces()):
            async with session.post(ROUTE, data=body) as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (413, "too_large")
        status, _, _ = await post(session, b"[" + b" " * 1998 + b"]")
        assert status == 200


async def test_one_event_that_is_too_large_or_too_deep_is_refused_alone(api: aiohttp.ClientSession) -> None:
    large = event(payload={"filler": "x" * (512 * 1024)}, event_type="door.opened")
    deep = event(payload={"a": msgspec.Raw(b"[" * 40 + b"]" * 40)}, event_type="door.opened")
    status, answer, _ = await post(api, batch(event(), large, deep, event()))
    assert status == 200
    assert [result.get("code") for result in answer["results"]] == [None, "too_large", "too_deep", None]


async def test_every_limit_has_a_code_of_its_own(api: aiohttp.ClientSession) -> None:
    packed = {"content-encoding": "gzip"}
    for body, headers, status, code in (
        (gzip.compress(b"[" + b" " * (9 * 1024 * 1024)), packed, 413, "too_large"),
        (b"no gzip", packed, 400, "bad_gzip"),
        (b"no zstd", {"content-encoding": "zstd"}, 400, "bad_zstd"),
        (b"[]", {"content-encoding": "br"}, 415, "unsupported_encoding"),
        (b"[]", {"content-encoding": "gzip, gzip"}, 415, "unsupported_encoding"),
        (b"[" * 300 + b"]" * 300, {}, 400, "too_deep"),
        (msgspec.json.encode([0] * 5001), {}, 400, "schema"),
        (b"[NaN]", {}, 400, "not_json"),
    ):
        answered, answer, _ = await post(api, body, headers)
        assert (answered, answer["error"]["code"]) == (status, code), body[:20]
        assert set(answer["error"]) == {"code", "message", "traceId"}


async def test_an_edge_that_knocks_too_fast_is_told_to_come_back(edge: None, cloud_url: str, amqp_url: str) -> None:
    settings = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url, "INGESTION_EDGE_BATCHES_PER_SECOND": "1"}
    async with running(serve, SERVICE, settings) as url, aiohttp.ClientSession(url) as session:
        answers = [await post(session, []) for _ in range(6)]
    refused = [
        (answer["error"]["code"], headers["retry-after"]) for status, answer, headers in answers if status == 429
    ]
    assert refused
    assert set(refused) == {("too_fast", "1")}
    assert [status for status, _, _ in answers[:2]] == [200, 200]


async def test_the_figures_of_this_replica(api: aiohttp.ClientSession) -> None:
    good = event()
    await post(api, batch(good, 17))
    await post(api, batch(good))
    async with api.get("/api/v1/ingestion/stats", headers={"authorization": f"Bearer {ADMIN_TOKEN}"}) as answer:
        stats = await answer.json()
    assert {name: stats[name] for name in ("batches", "accepted", "duplicates", "rejected")} == {
        "batches": 2,
        "accepted": 1,
        "duplicates": 1,
        "rejected": 1,
    }
    async with api.get("/metrics") as answer:
        assert 'farmiq_ingestion_events_total{status="accepted"} 1.0' in await answer.text()


async def test_without_rabbitmq_it_says_come_back_and_remembers_nothing(
    edge: None, cloud_url: str, cloud_pool: Pool
) -> None:
    settings = {"DATABASE_URL": cloud_url, "AMQP_URL": f"amqp://u:p@127.0.0.1:{free_port()}/"}
    async with running(serve, SERVICE, settings) as url, aiohttp.ClientSession(url) as session:
        status, answer, headers = await post(session, batch(event()))
        assert (status, answer["error"]["code"], headers["retry-after"]) == (503, "bus_away", "5")
        async with session.get("/api/ready") as ready:
            assert ready.status == 503
    assert await remembered(cloud_pool) == {}


async def test_when_rabbitmq_comes_back_the_same_batch_is_accepted(
    edge: None, cloud_url: str, cloud_pool: Pool, amqp_url: str
) -> None:
    sent = event()
    async with plugged(amqp_url) as cable:
        settings = {"DATABASE_URL": cloud_url, "AMQP_URL": cable.url}
        async with running(serve, SERVICE, settings) as url, aiohttp.ClientSession(url) as session:
            await until_ready(session)
            await cable.pull()
            status, _, headers = await post(session, batch(sent))
            assert (status, headers["retry-after"]) == (503, "5")
            assert await remembered(cloud_pool) == {}
            await cable.plug()
            await until_ready(session)
            status, answer, _ = await post(session, batch(sent))
            assert (status, statuses(answer)) == (200, ["accepted"])
    assert len(await take_all(amqp_url, QUEUE)) == 1


async def test_when_postgresql_is_away_nothing_is_published_and_the_batch_may_come_again(
    edge: None, cloud_url: str, amqp_url: str
) -> None:
    sent = event()
    async with plugged(cloud_url) as cable:
        settings = {"DATABASE_URL": cable.url, "AMQP_URL": amqp_url}
        async with running(serve, SERVICE, settings) as url, aiohttp.ClientSession(url) as session:
            await until_ready(session)
            await cable.pull()
            status, _, headers = await post(session, batch(sent))
            assert status == 503
            assert int(headers["retry-after"]) > 0
            assert await take_all(amqp_url, QUEUE) == []
            await cable.plug()
            await until_ready(session)
            status, answer, _ = await post(session, batch(sent))
            assert (status, statuses(answer)) == (200, ["accepted"])
    assert len(await take_all(amqp_url, QUEUE)) == 1
