"""Every documented route, tried without a token: only those on the list answer."""

import importlib
import json
import re
from typing import Any

import aiohttp
import pytest

from farmiq.contracts.services import service_named
from farmiq.kit.ids import new_id
from farmiq.stack.ports import free_port
from support.documents import DOCS
from support.service_process import running

API = DOCS / "reference" / "api"
METHODS = ("get", "post", "put", "patch", "delete")
PROBES = {"GET /api/health", "GET /api/ready", "GET /metrics"}
OPEN = {
    "GET /api/v1/sync/state": "counts and times over all tenants, no id",
    "POST /api/v1/sync/trigger": "from loopback only, and it ends no pause: decision 17",
}
"""Beside the probes. A new row needs its reason."""


@pytest.fixture
def environ(edge_url: str, cloud_url: str) -> dict[str, str]:
    """What any service needs to start. Nobody listens on the port of the other servers."""
    nobody = free_port()
    return {
        "EDGE": edge_url,
        "CLOUD": cloud_url,
        "MQTT_URL": f"mqtt://user:password@127.0.0.1:{nobody}",
        "AMQP_URL": f"amqp://user:password@127.0.0.1:{nobody}/",
        "ADMIN_TOKEN": "for-this-test-only",
        "INTERNAL_ADMIN_ENABLED": "true",
        "S3_ENDPOINT": f"http://127.0.0.1:{nobody}",
        "S3_ACCESS_KEY": "key",
        "S3_SECRET_KEY": "secret",
        "MEDIA_BUCKET": "media",
        "CLOUD_INGESTION_URL": f"http://127.0.0.1:{nobody}",
        "CLOUD_INGESTION_TOKEN": "token",
        "EDGE_CLUSTER_ID": "edge-1",
    }


@pytest.mark.parametrize("name", sorted(path.stem for path in API.glob("*.json")))
async def test_without_a_token_only_probes_and_counts_answer(name: str, environ: dict[str, str]) -> None:
    service = service_named(name)
    serve = importlib.import_module(service.module).serve
    database = {"DATABASE_URL": environ[service.tier.upper()]}
    refused: set[str] = set()
    answered: dict[str, int] = {}
    async with running(serve, name, environ | database) as url, aiohttp.ClientSession(url) as session:
        for route in documented(name):
            for token in ("", "Bearer a-stranger"):
                status = await status_of(session, route, {"authorization": token} if token else {})
                if status == 401:
                    refused.add(route)
                else:
                    answered[route] = status
    expected = {route for route in documented(name) if route in OPEN or route in PROBES}
    assert set(answered) == expected, answered
    assert not refused & expected


def test_every_open_route_is_documented() -> None:
    routes = {route for path in API.glob("*.json") for route in documented(path.stem)}
    assert set(OPEN) <= routes
    assert len(routes) > 60


def documented(name: str) -> list[str]:
    paths: dict[str, Any] = json.loads((API / f"{name}.json").read_text("utf-8"))["paths"]
    return [f"{method.upper()} {path}" for path, item in paths.items() for method in METHODS if method in item]


async def status_of(session: aiohttp.ClientSession, route: str, headers: dict[str, str]) -> int:
    method, _, path = route.partition(" ")
    asked = re.sub(r"{[^}]+}", str(new_id()), path)
    body: dict[str, str] | None = {} if method in {"POST", "PUT", "PATCH"} else None
    async with session.request(method, asked, headers=headers, json=body) as answer:
        return answer.status
