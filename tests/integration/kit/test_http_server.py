"""The HTTP port that every service has, asked over a real connection."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from litestar import get, post
from litestar.params import FromPath, HeaderParameter, JSONBody, PathParameter, QueryParameter
from litestar.response import Stream
from prometheus_client import Counter
from structlog.contextvars import get_contextvars
from structlog.testing import capture_logs

from farmiq.kit.errors import Rejected, Transient
from farmiq.kit.http_client import Answer, call, open_session
from farmiq.kit.http_server import ApiError, PortTaken, require_bearer, serve_http
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.settings import HttpSettings
from farmiq.stack.ports import free_port
from support.waiting import eventually

BODY_BYTES_MAX = 10_000

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one server for the file: making one takes as long as ten tests


class Sample(msgspec.Struct):
    metric: str
    value: float


@get("/api/v1/ids")
async def show_ids() -> dict[str, str]:
    return {name: str(value) for name, value in get_contextvars().items()}


@post("/api/v1/samples")
async def store(data: JSONBody[Sample]) -> dict[str, str]:
    """Stores a sample."""
    return {"metric": data.metric}


@get("/api/v1/count")
async def count(
    limit: Annotated[int, QueryParameter(ge=1, le=10)] = 1,
    since: Annotated[datetime | None, QueryParameter(name="from")] = None,
    in_state: Annotated[Literal["open", "cleared"] | None, QueryParameter(name="state")] = None,
    length: Annotated[int | None, HeaderParameter(name="x-length")] = None,
) -> int:
    return limit


@get("/api/v1/of/{device_id:str}")
async def of_device(
    device_id: Annotated[str, PathParameter(pattern="^[a-z]+$")],
    tenant: Annotated[str, QueryParameter(name="tenant_id")],
) -> str:
    return device_id + tenant


@get("/api/v1/raise/{kind:str}")
async def fail(kind: FromPath[str]) -> None:
    errors: Mapping[str, Exception] = {
        "api": ApiError(409, "already_there", "It is there already", retry_after_seconds=7),
        "transient": Transient("The database is away", code="database_away"),
        "rejected": Rejected("Never good", code="never_good"),
        "bug": RuntimeError("postgresql://user:hunter2@host/db went wrong"),
    }
    raise errors[kind]


@get("/api/v1/secret", guards=[require_bearer("right-token")])
async def secret() -> str:
    return "open"


PIECES: asyncio.Queue[bytes] = asyncio.Queue()


@get("/api/v1/pieces")
async def pieces() -> Stream:
    async def come() -> AsyncIterator[bytes]:
        while piece := await PIECES.get():
            yield piece

    return Stream(come())


@get("/api/v1/zeros", media_type="application/octet-stream")
async def zeros(size: Annotated[int, QueryParameter()]) -> bytes:
    return bytes(size)


class Served:
    def __init__(self, life: Lifetime, url: str, session: aiohttp.ClientSession) -> None:
        self.life = life
        self.url = url
        self._session = session

    async def ask(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return await call(self._session, "GET", self.url + path, headers=headers, answer_bytes_max=10_000_000)

    async def send(self, path: str, body: bytes) -> Answer:
        json = {"content-type": "application/json"}
        return await call(self._session, "POST", self.url + path, body=body, headers=json)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    life = Lifetime("edge-test")
    settings = HttpSettings(port=free_port())
    handlers = [show_ids, store, count, of_device, fail, secret, pieces, zeros]
    serving = asyncio.create_task(serve_http(life, settings, handlers, body_bytes_max=BODY_BYTES_MAX))
    async with open_session("test") as session:
        served = Served(life, f"http://127.0.0.1:{settings.port}", session)

        async def is_up() -> bool:
            if serving.done():
                serving.result()
            try:
                return (await served.ask("/api/health")).status == 200
            except Transient:
                return False

        await eventually(is_up)
        yield served
    life.stopping.set()
    await asyncio.wait_for(serving, 15)


def error_of(answer: Answer) -> dict[str, Any]:
    body = msgspec.json.decode(answer.body)
    assert list(body) == ["error"]
    assert list(body["error"]) == ["code", "message", "traceId"]
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.parametrize(
    ("path", "status", "code", "message"),
    [
        ("/api/v1/nowhere", 404, "not_found", "Not Found"),
        ("/api/v1/samples", 405, "method_not_allowed", "Method Not Allowed"),
        (
            "/api/v1/count?limit=11", 400, "invalid_request",
            "The query parameter limit is wrong: expected a whole number of at most 10",
        ),
        (
            "/api/v1/count?limit=many", 400, "invalid_request",
            "The query parameter limit is wrong: expected a whole number, got text",
        ),
        (
            "/api/v1/count?from=yesterday", 400, "invalid_request",
            "The query parameter from is wrong: expected a time with a zone as in RFC 3339, like 2026-11-16T10:00:00Z",
        ),
        (
            "/api/v1/count?state=ajar&limit=0", 400, "invalid_request",
            (
                "The query parameter limit is wrong: expected a whole number of at least 1; "
                "The query parameter state is wrong: expected one of open, cleared"
            ),
        ),
        ("/api/v1/of/pump", 400, "invalid_request", "The query parameter tenant_id is missing"),
        (
            "/api/v1/of/PUMP?tenant_id=demo", 400, "invalid_request",
            "The path parameter device_id is wrong: expected text that matches ^[a-z]+$",
        ),
        ("/api/v1/raise/api", 409, "already_there", "It is there already"),
        ("/api/v1/raise/transient", 503, "database_away", "The database is away"),
        ("/api/v1/raise/rejected", 422, "never_good", "Never good"),
        ("/api/v1/raise/bug", 500, "internal_error", "Something failed here. The trace id finds the log line."),
    ],
)  # fmt: skip
async def test_every_error_has_the_one_shape_with_the_trace_id(
    served: Served, path: str, status: int, code: str, message: str
) -> None:
    answer = await served.ask(path, {"x-trace-id": "trace-1"})

    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    error = error_of(answer)
    assert error["code"] == code
    assert error["message"] == message
    assert error["traceId"] == answer.headers["x-trace-id"] == "trace-1"


async def test_an_error_nobody_expected_is_logged_whole_and_answered_without_its_text(served: Served) -> None:
    with capture_logs() as lines:
        answer = await served.ask("/api/v1/raise/bug", {"x-trace-id": "trace-1"})

    assert b"hunter2" not in answer.body
    [line] = lines
    assert (line["event"], line["log_level"], line["path"]) == ("request_failed", "error", "/api/v1/raise/bug")
    assert isinstance(line["exc_info"], RuntimeError)


@pytest.mark.parametrize(("kind", "wait"), [("api", "7"), ("transient", "5")])
async def test_who_should_come_again_is_told_when(served: Served, kind: str, wait: str) -> None:
    assert (await served.ask(f"/api/v1/raise/{kind}")).headers["retry-after"] == wait


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "The body is wrong: not JSON: it ends too early"),
        (b"[]", "The body is wrong: expected an object, got a list"),
        (b'{"metric": "t"}', "The body is wrong: the field value is missing"),
        (b'{"metric": "t", "value": "warm"}', "The body is wrong: expected a number, got text (at value)"),
        (b"\xff\xfe", "The body is wrong: not JSON: invalid character at byte 0"),
        (b"[" * 5000, "The body is nested too deeply"),
    ],
)
async def test_a_body_that_does_not_fit_is_a_bad_request(served: Served, body: bytes, message: str) -> None:
    answer = await served.send("/api/v1/samples", body)

    assert (answer.status, error_of(answer)["code"]) == (400, "invalid_request")
    assert error_of(answer)["message"] == message


async def test_a_header_that_does_not_fit_is_named_as_it_was_sent(served: Served) -> None:
    answer = await served.ask("/api/v1/count", {"x-length": "long"})

    assert error_of(answer)["message"] == "The header parameter x-length is wrong: expected a whole number, got text"


async def test_a_body_over_the_limit_is_refused_whether_or_not_its_length_is_told(served: Served) -> None:
    too_large = b'{"metric": "' + b"x" * BODY_BYTES_MAX + b'", "value": 1}'
    told = await served.send("/api/v1/samples", too_large)

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(too_large), 1000):
            yield too_large[start : start + 1000]

    async with aiohttp.ClientSession() as session:
        url = f"{served.url}/api/v1/samples"
        async with session.post(url, data=in_pieces(), headers={"content-type": "application/json"}) as untold:
            assert untold.status == 413

    assert (told.status, error_of(told)["code"]) == (413, "request_entity_too_large")


async def test_ids_of_the_caller_are_bound_to_the_work_and_sent_back(served: Served) -> None:
    answer = await served.ask(
        "/api/v1/ids", {"x-trace-id": "0af7651916cd43dd8448eb211c80319c", "x-request-id": "req-1"}
    )

    bound = msgspec.json.decode(answer.body)
    assert (bound["trace_id"], bound["request_id"]) == ("0af7651916cd43dd8448eb211c80319c", "req-1")
    assert (answer.headers["x-trace-id"], answer.headers["x-request-id"]) == (bound["trace_id"], bound["request_id"])


@pytest.mark.parametrize("hostile", ["", "a b", "x" * 129, '"}<script>', "ü", "a\tb"])
async def test_ids_that_could_do_harm_in_a_log_are_replaced(served: Served, hostile: str) -> None:
    answer = await served.ask("/api/v1/ids", {"x-trace-id": hostile, "x-request-id": hostile})

    bound = msgspec.json.decode(answer.body)
    for name in ("trace_id", "request_id"):
        assert re.fullmatch("[0-9a-f]{32}", bound[name])
        assert answer.headers[f"x-{name.replace('_', '-')}"] == bound[name]


async def test_health_depends_on_nothing_and_readiness_on_every_check(served: Served) -> None:
    async def good() -> None:
        return None

    async def bad() -> None:
        raise ConnectionError("postgresql://user:hunter2@host/db is away")

    async def stuck() -> None:
        await asyncio.Event().wait()

    served.life.ready_when("good", good)
    ready = await served.ask("/api/ready")
    served.life.ready_when("bad", bad)
    served.life.ready_when("stuck", stuck)
    not_ready = await served.ask("/api/ready")
    health = await served.ask("/api/health")

    assert (ready.status, msgspec.json.decode(ready.body)) == (200, {"status": "ready", "checks": {"good": "ok"}})
    checks = msgspec.json.decode(not_ready.body)["checks"]
    assert (not_ready.status, checks["good"], checks["stuck"]) == (503, "ok", "TimeoutError: ")
    assert checks["bad"] == "ConnectionError: postgresql://user:***@host/db is away"
    assert (health.status, msgspec.json.decode(health.body)["service"]) == (200, "edge-test")


async def test_metrics_are_those_of_this_service_alone(served: Served) -> None:
    Counter("samples_stored", "Samples stored.", registry=served.life.registry).inc(3)
    Counter("samples_stored", "Samples stored.", registry=Lifetime("another").registry).inc(99)

    answer = await served.ask("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    assert b"samples_stored_total 3.0" in answer.body
    assert b'service="edge-test"' in answer.body


async def test_the_api_page_works_without_the_internet(served: Served) -> None:
    page = (await served.ask("/api-docs")).body.decode()
    assets = set(re.findall(r'(?:src|href)="([^"]+)"', page))

    assert "swagger-ui" in page
    assert not re.findall(r'(?:src|href|url)\s*[=:(]\s*["\']?(?:https?:)?//', page), "the page refers to another host"
    for path in assets - {"data:,"}:
        answer = await served.ask(path)
        assert (answer.status, len(answer.body) > 1000) == (200, True), path


async def test_the_openapi_document_describes_the_services_own_routes(served: Served) -> None:
    document = msgspec.json.decode((await served.ask("/api-docs/openapi.json")).body)

    assert document["info"]["title"] == "edge-test"
    assert document["paths"]["/api/v1/samples"]["post"]["description"] == "Stores a sample."
    assert {"/api/health", "/api/ready", "/metrics"} <= set(document["paths"])


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong-token", "bearer right-token", "Basic right-token", "Bearer ünicode"]
)
async def test_a_guarded_route_refuses_everything_but_its_token(served: Served, given: str | None) -> None:
    answer = await served.ask("/api/v1/secret", None if given is None else {"authorization": given})

    assert (answer.status, error_of(answer)["code"]) == (401, "unauthorized")
    assert (await served.ask("/api/v1/secret", {"authorization": "Bearer right-token"})).body == b"open"


async def test_a_request_under_way_is_answered_before_the_port_closes() -> None:
    life, settings, entered, leave = Lifetime("slow"), HttpSettings(port=free_port()), asyncio.Event(), asyncio.Event()

    @get("/api/v1/slow")
    async def slow() -> str:
        entered.set()
        await leave.wait()
        return "done"

    serving = asyncio.create_task(serve_http(life, settings, [slow]))
    async with open_session("test") as session:
        url = f"http://127.0.0.1:{settings.port}/api/v1/slow"

        async def ask_until_up() -> Answer:
            while True:
                try:
                    return await call(session, "GET", url)
                except Transient:
                    await asyncio.sleep(0.02)

        asking = asyncio.create_task(ask_until_up())
        await asyncio.wait_for(entered.wait(), 15)
        life.stopping.set()
        await asyncio.sleep(0)
        leave.set()

        assert (await asyncio.wait_for(asking, 15)).body == b"done"
        await asyncio.wait_for(serving, 15)


async def test_the_head_of_an_answer_does_not_wait_for_a_body_that_comes_in_pieces(served: Served) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{served.url}/api/v1/pieces") as answer:
        assert answer.status == 200
        assert PIECES.empty()
        for piece in (b"one", b"two"):
            PIECES.put_nowait(piece)
            assert await answer.content.readexactly(len(piece)) == piece
        PIECES.put_nowait(b"")
        assert await answer.read() == b""


async def test_an_answer_is_whole_whatever_its_size(served: Served) -> None:
    for size in (0, 1, 1000, 64 * 1024, 64 * 1024 + 1, 3_000_000):
        assert len((await served.ask(f"/api/v1/zeros?size={size}")).body) == size


async def test_a_port_that_is_taken_is_named(served: Served) -> None:
    port = int(served.url.rpartition(":")[2])

    with pytest.raises(PortTaken, match=f"127.0.0.1:{port} can't be listened on .*: set PORT to a free port"):
        await asyncio.wait_for(serve_http(Lifetime("second"), HttpSettings(port=port), []), 15)
