"""Every documented route, tried for one tenant with the ids of another: it answers as for ids that nobody has."""

import importlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from farmiq.cloud import viewers
from farmiq.contracts.services import service_named
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import open_pool
from farmiq.stack.ports import free_port
from support.documents import DOCS
from support.service_process import running
from support.tenant_rows import FIGURES, HOUR_AT, fill, id_of, rows_of, text_of
from support.waiting import eventually

API = DOCS / "reference" / "api"
OF_EVERYBODY = {
    "/api/health", "/api/ready", "/metrics", "/api/v1/sync/state", "/api/v1/sync/room", "/api/v1/sync/trigger",
    "/api/v1/ingress/stats", "/api/v1/ingress/sync-plan", "/api/v1/telemetry/stats", "/api/v1/ingestion/stats",
    "/api/v1/bus/queues", "/api/v1/tenants", "/api/v1/inference/models", "/api/v1/inference/models/activate",
}  # fmt: skip
"""Figures of a whole tier, and acts upon it. They name no tenant and no id."""
OF_ADMINISTRATORS = {
    "/api/v1/dlq", "/api/v1/dlq/actions", "/api/v1/dlq/{service}/messages", "/api/v1/dlq/{service}/replay",
    "/api/v1/dlq/{service}/discard", "/api/v1/ingress/rejected/{rejected_id}", "/api/v1/alerts/{alert_id}/acknowledge",
    "/api/v1/sync/unclaim-stuck", "/api/v1/device-owners",
}  # fmt: skip
"""They need the administrator's token, which reads every tenant."""
OF_OTHER_TOKENS = {
    "POST /api/v1/edge/batch": "an edge's: tests/integration/cloud/ingestion/test_edge_batch.py",
    "POST /api/v1/media/presign": "an edge's: tests/integration/cloud/media_store/test_edge_pictures.py",
    "POST /api/v1/media/{media_id}/complete": "an edge's: tests/integration/cloud/media_store/test_edge_pictures.py",
    "GET /api/v1/media/wanted": "an edge's: tests/integration/cloud/media_store/test_edge_pictures.py",
    "POST /api/v1/media/images/presign": "a device's: tests/integration/edge/media_store/test_upload.py",
    "POST /api/v1/media/images/{media_id}/complete": "a device's: tests/integration/edge/media_store/test_upload.py",
    "POST /api/v1/media/images/states": "a device's: tests/integration/edge/media_store/test_lost_pictures.py",
    "PUT /api/v1/media/images/{media_id}/content": "an upload's: tests/integration/edge/media_store/test_upload.py",
    "POST /api/v1/devices": "a device's id is one for the whole edge: the acknowledgement's topic has no tenant",
}
SHOWS_NOTHING_OF_ITS_OWN = {
    "GET /api/v1/media/{media_id}/thumbnail": "there is no object store here",
    "GET /api/v1/device-counts": "figures only",
    "GET /api/v1/fleet": "figures only",
    "GET /api/v1/ingress/limits": "it has what the process counted, and nobody was limited",
    "GET /api/v1/records/readings": "the row is a sample of a stream, and no single reading",
    "GET /api/v1/records/readings/days": "as above",
    "GET /api/v1/sync/acknowledged": "the row of the outbox is a dead letter",
    "GET /api/v1/sync/held": "the row of the outbox is a dead letter",
    "GET /api/v1/streams/{stream_id}/samples": "it finds rows by the ids that samples have",
    "GET /api/v1/telemetry/metrics": "it lists series by their days, and there is an hour only",
}
"""Routes that show their own tenant nothing of these rows, and why."""
BODIES: dict[str, dict[str, Any]] = {
    "/api/v1/devices/{device_id}/revoke": {},
    "/api/v1/devices/{device_id}/rotate": {},
    "/api/v1/sync/redrive": {"tenantId": "tenant_id", "dryRun": True},
    "/api/v1/sync/media/redrive": {"tenantId": "tenant_id", "dryRun": True},
    "/api/v1/inference/jobs": {"media_ids": ["media_id"], "tenant_id": "tenant_id"},
    "/api/v1/weighvision/sessions/{session_id}/attach": {"media_id": "media_id", "reason": "reason"},
    "/api/v1/weighvision/sessions/{session_id}/finalize": {"reason": "reason"},
}
"""What a caller sends: names of ids, which become ids. A new route that takes a body needs a row."""
TOKEN = "for-this-test-only"
OWNER, STRANGER = FIGURES
TIMES = {"from": HOUR_AT - timedelta(hours=5), "to": HOUR_AT + timedelta(hours=5)}
IDS = ("device_id", "device_ids", "session_id", "media_id", "stream_id", "job_id", "outbox_id")
WORDS = ("farm_id", "barn_id", "batch_id", "metric", "sensor", "reason", "event_type", "model_version", "q")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)|[0-9a-f]{32}|\d+\.\d{6}(?=\])")

Given = Mapping[str, str]


def environ(database_url: str) -> dict[str, str]:
    nobody = free_port()
    return {
        "DATABASE_URL": database_url,
        "MQTT_URL": f"mqtt://user:password@127.0.0.1:{nobody}",
        "AMQP_URL": f"amqp://user:password@127.0.0.1:{nobody}/",
        "ADMIN_TOKEN": TOKEN,
        "INTERNAL_ADMIN_ENABLED": "true",
        "S3_ENDPOINT": f"http://127.0.0.1:{nobody}",
        "S3_ACCESS_KEY": "key",
        "S3_SECRET_KEY": "secret",
        "MEDIA_BUCKET": "media",
        "CLOUD_INGESTION_URL": f"http://127.0.0.1:{nobody}",
        "CLOUD_INGESTION_TOKEN": "token",
        "EDGE_CLUSTER_ID": "edge-1",
    }


def ids_of(tenant_id: str) -> Given:
    """What rows of this tenant are named, by the names of parameters."""
    named: dict[str, str] = {name: str(id_of(tenant_id, name)) for name in IDS}
    named |= {name: text_of(tenant_id, name) for name in WORDS}
    named |= {"device_id": text_of(tenant_id, "device_id"), "metric": text_of(tenant_id, "metric_type")}
    return named | {
        "device_ids": named["device_id"],
        "q": named["device_id"],
        "outbox_id": str(id_of(tenant_id, "sync_outbox_id")),
    }


def ids_of_nobody() -> Given:
    return {name: str(new_id()) for name in (*IDS, *WORDS)}


@pytest.mark.parametrize("name", sorted(path.stem for path in API.glob("*.json")))
async def test_ids_of_another_tenant_are_as_unknown_as_those_of_nobody(
    name: str, request: pytest.FixtureRequest
) -> None:
    service = service_named(name)
    url: str = request.getfixturevalue(f"{service.tier}_url")
    token = await prepared(url, service.tier)
    serve = importlib.import_module(service.module).serve
    silent = set()
    async with running(serve, name, environ(url)) as address, aiohttp.ClientSession(address) as session:
        if name == "edge-vision-inference":  # it registers its model as the owner, who is about to see nothing
            await eventually(lambda: has_model(url), what="the model to be registered")
        before = await changeable(url)
        for route, parameters in documented(name):
            for chosen in asked(parameters):
                stranger = await answer_of(session, route, chosen, ids_of(OWNER), STRANGER, token)
                unknown = await answer_of(session, route, chosen, ids_of_nobody(), STRANGER, token)
                assert stranger == unknown, f"{route} {chosen}"
                assert OWNER not in stranger, f"{route} {chosen}"
                assert str(FIGURES[OWNER]) not in stranger, f"{route} {chosen}"
        assert before <= await changeable(url)
        await hide_from_owner(url)
        for route, parameters in documented(name):
            if route.startswith("GET ") and not await shows_its_own(session, route, asked(parameters), token):
                silent.add(route)
    assert silent == {route for route, _ in documented(name)} & SHOWS_NOTHING_OF_ITS_OWN.keys()


async def shows_its_own(
    session: aiohttp.ClientSession, route: str, requests: list[tuple[str, ...]], token: str
) -> bool:
    """So that silence towards a stranger means something, and no route reads around row-level security."""
    texts = [await answer_of(session, route, chosen, ids_of(OWNER), OWNER, token, is_plain=True) for chosen in requests]
    return any(OWNER in text or str(FIGURES[OWNER]) in text for text in texts if text.startswith("200"))


async def has_model(url: str) -> bool:
    async with await open_pool(url, service="test") as pool:
        return bool(await pool.fetchval("SELECT EXISTS (SELECT FROM inference_models)"))


async def hide_from_owner(url: str) -> None:
    """From now on the owner of the tables sees no rows in a query, so a route shows only what it reads by `read_as`."""
    async with await open_pool(url, service="test") as pool:
        for (table,) in await pool.fetch("SELECT polrelid::regclass::text FROM pg_policy"):
            await pool.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")


async def changeable(url: str) -> set[str]:
    """Rows that routes change when they are asked by their own tenant."""
    async with await open_pool(url, service="test") as pool, pool.acquire() as connection:
        return await rows_of(connection, OWNER, "devices", "sync_outbox", "media_transfers", "inference_jobs")


def documented(name: str) -> Iterator[tuple[str, list[str]]]:
    """Routes that somebody can ask for one tenant, with the names of their parameters."""
    paths: dict[str, Any] = json.loads((API / f"{name}.json").read_text("utf-8"))["paths"]
    for path, item in paths.items():
        for method, operation in item.items():
            route = f"{method.upper()} {path}"
            if path not in OF_EVERYBODY | OF_ADMINISTRATORS and route not in OF_OTHER_TOKENS:
                yield route, [one["name"] for one in operation.get("parameters", [])]


def asked(parameters: list[str]) -> list[tuple[str, ...]]:
    """Which parameters a request has: all that name something, one by one and in pairs, in every form of answer."""
    names = [name for name in parameters if name in IDS or name in WORDS]
    chosen = [(), *((name,) for name in names), *itertools.combinations(names, 2)]
    return chosen + [(*names, "format") for names in chosen if "format" in parameters]


async def answer_of(
    session: aiohttp.ClientSession,
    route: str,
    chosen: tuple[str, ...],
    ids: Given,
    tenant_id: str,
    token: str,
    is_plain: bool = False,
) -> str:
    """Status and body, without the ids that were asked for and without times."""
    method, _, path = route.partition(" ")
    query = {name: value.isoformat() for name, value in TIMES.items()} | {"tenant_id": tenant_id, "format": "csv"}
    query |= {name: ids[name] for name in chosen if name in ids}
    place = re.sub(r"{(\w+)}", lambda found: ids[found[1]], path)
    body = None if method == "GET" else filled(BODIES[path], ids, tenant_id)
    if "format" not in chosen:
        del query["format"]
    if path.endswith("/samples"):
        query |= {"first_seq": "1", "last_seq": "1"}
    headers = {"authorization": f"Bearer {token}"}
    async with session.request(method, place, params=query, headers=headers, json=body) as answer:
        text = f"{answer.status} {await answer.text()}"
    assert answer.status < 500 or place.endswith("/thumbnail"), text
    assert method == "GET" or answer.status != 400, "the body of BODIES is refused"
    for value in () if is_plain else ids.values():
        text = text.replace(value, "ID")
    return MOMENT.sub("MOMENT", text)


def filled(body: Any, ids: Given, tenant_id: str) -> Any:
    if isinstance(body, dict):
        return {name: filled(value, ids, tenant_id) for name, value in body.items()}
    if isinstance(body, list):
        return [filled(value, ids, tenant_id) for value in body]
    return tenant_id if body == "tenant_id" else ids.get(body, body) if isinstance(body, str) else body


async def prepared(url: str, tier: str) -> str:
    """A database with rows of both tenants, and a token. At the edge it is the administrator's: nobody else asks there."""
    async with await open_pool(url, service="test") as pool, pool.acquire() as connection:
        # A mark is work for the analytics service: it would compute the day anew and find nothing.
        await fill(connection, OWNER, STRANGER, without=["analytics_marks"])
        if tier == "edge":
            return TOKEN
        return (await viewers.add(connection, "ann", [STRANGER, OWNER])).token
