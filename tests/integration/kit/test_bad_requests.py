"""Every route of every service, called with values that are wrong: the error names what the caller wrote, and nothing of ours.

The routes and their parameters are those of the service's own OpenAPI document, so a new one needs no entry here."""

import asyncio
import importlib
import json
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from farmiq.contracts.services import SERVICES, Service
from farmiq.kit.bad_request import plain
from farmiq.kit.errors import reason_of
from farmiq.stack.ports import free_port
from support.service_process import running

WITH_A_PORT = [service for service in SERVICES if service.port is not None and service.tier != "people"]
AT_ONCE = 8

WRONG_VALUES = ("yesterday", "-1", "9" * 30, "1e999", "", "a b/../\u2603", "x" * 300, "null", "2026-13-45T99:00:00Z")
WRONG_BODIES = (
    b"", b"{", b"[]", b"null", b'"x"', b"7", b"\xff\xfe", b'{"zzz": 1}', b"[" * 3000, b'{"a": "\\ud800"}', b"{}x",
)  # fmt: skip
WRONG_FIELDS: tuple[Any, ...] = (None, -1, 1e300, "yesterday", "", [], {}, [{}], True, "x" * 5000)

LEAKS = {
    "a representation": re.compile(r"<[A-Za-z_][\w.]*[ :.]|object at 0x|[\[{(]'|\bNone\b"),
    "a type of Python": re.compile(r"`(?:int|float|str|bool|object|array|null|datetime)\b|\bNoneType\b"),
    "a class": re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b"),
    "a library": re.compile(r"litestar|msgspec|asyncpg|aiormq|aiohttp|uvicorn|botocore|Traceback", re.IGNORECASE),
    "a module": re.compile(r"\bfarmiq\.(?:kit|edge|cloud|contracts|timeseries|outbox|console)\b"),
}


@dataclass
class Attempt:
    """One call. `parameter`: the one whose value is wrong."""

    method: str
    path: str
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    parameter: str | None = None


# --- From an OpenAPI document to attempts --------------------------------------------------------------------------------------


def attempts(document: dict[str, Any]) -> Iterator[Attempt]:
    for path, item in document["paths"].items():
        if not path.startswith("/api/v1/"):
            continue
        for method, operation in item.items():
            parameters = [_resolved(document, one) for one in operation.get("parameters", [])]
            yield from _wrong_parameters(document, method, path, parameters)
            if "requestBody" in operation:
                yield from _wrong_bodies(document, method, path, parameters, operation["requestBody"])


def _wrong_parameters(document: dict[str, Any], method: str, path: str, parameters: list[Any]) -> Iterator[Attempt]:
    yield Attempt(method, _filled(document, path, parameters))  # without anything, also without what is required
    for wrong in parameters:
        for value in WRONG_VALUES:
            if wrong["in"] == "path" and not value:
                continue  # would be another path
            attempt = _right(document, method, path, [one for one in parameters if one is not wrong])
            attempt.parameter = wrong["name"]
            if wrong["in"] == "path":
                attempt.path = attempt.path.replace(f"{{{wrong['name']}}}", quote(value, safe=""))
            elif wrong["in"] == "query":
                attempt.query.append((wrong["name"], value))
            else:
                attempt.headers[wrong["name"]] = quote(value)
            yield attempt


def _wrong_bodies(
    document: dict[str, Any], method: str, path: str, parameters: list[Any], body: dict[str, Any]
) -> Iterator[Attempt]:
    for content_type, media in body["content"].items():
        schema = _resolved(document, media.get("schema", {}))
        named = {name: _example(document, one) for name, one in schema.get("properties", {}).items()}
        spoiled = [json.dumps(named | {name: value}).encode() for name in named for value in WRONG_FIELDS]
        for wrong in (*WRONG_BODIES, *spoiled):
            attempt = _right(document, method, path, parameters)
            attempt.headers["content-type"], attempt.body = content_type, wrong
            yield attempt


def _right(document: dict[str, Any], method: str, path: str, parameters: list[Any]) -> Attempt:
    given = [one for one in parameters if one["in"] == "query" and one.get("required")]
    query = [(one["name"], str(_example(document, one["schema"], one["name"]))) for one in given]
    return Attempt(method, _filled(document, path, parameters), query)


def _filled(document: dict[str, Any], path: str, parameters: list[Any]) -> str:
    for one in parameters:
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", str(_example(document, one["schema"], one["name"])))
    return path


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def _example(document: dict[str, Any], schema: dict[str, Any], name: str = "") -> Any:
    """A value that fits, more or less."""
    schema = _resolved(document, schema)
    schema = _resolved(document, next((one for key in ("oneOf", "anyOf") for one in schema.get(key, [])), schema))
    if "enum" in schema:
        return schema["enum"][0]
    if name == "tenant_id":
        return "demo"
    by_format = {"uuid": "0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e60", "date-time": "2026-11-16T10:00:00Z"}
    by_type = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    return by_format.get(schema.get("format", ""), by_type.get(schema.get("type", ""), "node-1"))


# --- The services, and what they answer ----------------------------------------------------------------------------------------


def environment(database_url: str, token: str) -> dict[str, str]:
    """What a service needs to start. Nobody listens where the other servers would be."""
    nobody = free_port()
    return {
        "DATABASE_URL": database_url,
        "MQTT_URL": f"mqtt://user:password@127.0.0.1:{nobody}",
        "AMQP_URL": f"amqp://user:password@127.0.0.1:{nobody}/",
        "ADMIN_TOKEN": token,
        "INTERNAL_ADMIN_ENABLED": "true",
        "S3_ENDPOINT": f"http://127.0.0.1:{nobody}",
        "S3_ACCESS_KEY": "key",
        "S3_SECRET_KEY": "secret",
        "MEDIA_BUCKET": "media",
        "CLOUD_INGESTION_URL": f"http://127.0.0.1:{nobody}",
        "CLOUD_INGESTION_TOKEN": "token",
        "CLOUD_MEDIA_URL": f"http://127.0.0.1:{nobody}",
        "EDGE_CLUSTER_ID": "edge-1",
    }


@asynccontextmanager
async def calling(url: str, token: str) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(url, headers=headers, timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session


async def complaint(session: aiohttp.ClientSession, attempt: Attempt) -> str | None:
    """What is wrong with the answer; None when it is as it should be."""
    path = attempt.path + ("?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in attempt.query))
    async with session.request(
        attempt.method, URL(path, encoded=True), data=attempt.body, headers=attempt.headers
    ) as answer:
        text = await answer.text()
    if answer.status < 400:
        return None
    if answer.status == 500:
        return f"500: {text}"
    error = json.loads(text)["error"]
    leaks = [what for what, pattern in LEAKS.items() if pattern.search(error["message"])]
    if leaks:
        return f"shows {leaks}: {error['message']}"
    named = re.findall(r"The (?:\w+ )?parameter (\S+) is wrong", error["message"])
    if attempt.parameter is not None and named not in ([], [attempt.parameter]):
        return f"names {named} and not {attempt.parameter}: {error['message']}"
    return None


@pytest.mark.parametrize("service", WITH_A_PORT, ids=lambda service: service.name)
async def test_no_error_shows_anything_of_the_program(service: Service, request: pytest.FixtureRequest) -> None:
    token = secrets.token_urlsafe(16)
    environ = environment(request.getfixturevalue(f"{service.tier}_url"), token)
    turns = asyncio.Semaphore(AT_ONCE)
    serve = importlib.import_module(service.module).serve
    async with running(serve, service.name, environ) as url, calling(url, token) as session:
        async with session.get("/api-docs/openapi.json") as answer:
            document = json.loads(await answer.text())

        async def judged(attempt: Attempt) -> str | None:
            async with turns:
                found = await complaint(session, attempt)
            return found and f"{attempt.method} {attempt.path} {attempt.query} {(attempt.body or b'')[:80]!r}: {found}"

        tried = list(attempts(document))
        complaints = [one for one in await asyncio.gather(*map(judged, tried)) if one]
    assert len(tried) > 10
    assert complaints == []


def test_a_message_that_nobody_has_foreseen_is_not_passed_on() -> None:
    assert plain("Expected <class 'Secret'> in farmiq.kit.settings") == "this value is not allowed"
    assert plain("Unforeseen - at `$.a.b`") == "this value is not allowed (at a.b)"


def test_why_a_connection_failed_is_said_without_classes_and_tuples() -> None:
    refused = OSError(111, "Connect call failed ('127.0.0.1', 5432)")
    assert [reason_of(one) for one in (refused, TimeoutError(), ConnectionResetError())] == [
        "Connection refused",
        "no answer in time",
        "the connection ended",
    ]
