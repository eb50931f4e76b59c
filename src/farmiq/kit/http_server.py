"""An HTTP port: health, readiness, metrics, API pages without the internet, and one error shape.

`{"error": {"code": "...", "message": "...", "traceId": "..."}}` is what every failure looks like. `x-request-id` and
`x-trace-id` are accepted, made when missing, logged, and sent back.
"""

import asyncio
import contextlib
import hmac
import re
import socket
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from litestar import Litestar, MediaType, Request, Response, get
from litestar.connection import ASGIConnection
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, SwaggerRenderPlugin
from litestar.static_files import create_static_files_router
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars, get_contextvars

from farmiq import __version__
from farmiq.kit import bad_request
from farmiq.kit.errors import FarmiqError, Fatal, Rejected, Transient
from farmiq.kit.http_connections import ConnectionLimits, Connections, uvicorn_options
from farmiq.kit.ids import new_trace_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.metrics import CONTENT_TYPE, render
from farmiq.kit.settings import HttpSettings

log = get_logger(__name__)

# Longer than any caller keeps an idle connection, or a request could meet one that is just being closed.
KEEPALIVE_SECONDS = 60

FORWARDING_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

_TRACE = re.compile(rb"^[A-Za-z0-9._:-]{1,128}\Z")


class ApiError(FarmiqError):
    """An answer other than success, on purpose."""

    def __init__(self, status: int, code: str, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class PortTaken(Fatal):
    """The port can't be listened on. Set `PORT` to a free one and `HOST` to an address of this machine."""

    code = "port_taken"


class ErrorDetail(msgspec.Struct, frozen=True, rename="camel"):
    code: str
    message: str
    trace_id: str


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetail


class Health(msgspec.Struct, frozen=True):
    status: str
    service: str
    version: str


class Readiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """`remarks` are for a person: the service is ready all the same."""

    status: str
    checks: dict[str, str]
    remarks: dict[str, str] = {}


async def serve_http(
    life: Lifetime, settings: HttpSettings, handlers: Sequence[Any], *, body_bytes_max: int = 1 << 20
) -> None:
    """Listen until the service is asked to stop; requests under way are answered first."""
    connections = Connections(
        ConnectionLimits(
            connections_max=settings.http_connections_max,
            per_address_max=settings.http_connections_per_address_max,
            header_seconds=settings.http_header_seconds,
            body_seconds=settings.http_body_seconds,
            proxies=frozenset(settings.http_trusted_proxies),
        )
    )
    config = uvicorn.Config(
        CarryIds(build_app(life, handlers, body_bytes_max=body_bytes_max)),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
        timeout_keep_alive=KEEPALIVE_SECONDS,
        **uvicorn_options(connections),
    )
    listener = _listen(settings)
    server = _Server(config)
    log.info("port_opened", host=settings.host, port=listener.getsockname()[1])
    serving = asyncio.create_task(server.serve(sockets=[listener]), name=f"{life.service}-http")
    stopping = asyncio.create_task(life.stopping.wait())
    closing = asyncio.create_task(connections.close_slow_ones())
    try:
        await asyncio.wait({serving, stopping, closing}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        for task in (serving, stopping, closing):
            task.cancel()
        listener.close()


def build_app(life: Lifetime, handlers: Sequence[Any], *, body_bytes_max: int = 1 << 20) -> Litestar:
    """The ASGI application of one service: its own routes beside those that all services have."""
    return Litestar(
        route_handlers=[*_standard_routes(life), *handlers, _assets()],
        exception_handlers={Exception: answer_error},
        request_max_body_size=body_bytes_max,
        openapi_config=OpenAPIConfig(
            title=life.service,
            version=__version__,
            path="/api-docs",
            use_handler_docstrings=True,
            render_plugins=[_swagger(), JsonRenderPlugin(path="/openapi.json")],
        ),
        logging_config=None,
    )


def has_bearer(connection: ASGIConnection[Any, Any, Any, Any], token: str | None) -> bool:
    """Whether the request carries this token, compared in constant time. No token is carried by no request."""
    given = connection.headers.get("authorization", "").encode()
    return bool(token) and hmac.compare_digest(given, f"Bearer {token}".encode())


def require_bearer(token: str | None) -> Any:
    """A Litestar guard: only requests that carry this token pass. A service without one lets no request pass."""
    missing = "" if token else ". This service has none yet: set ADMIN_TOKEN"

    def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        if not has_bearer(connection, token):
            needed = f"This route needs a bearer token: Authorization: Bearer <token>{missing}"
            raise ApiError(401, "unauthorized", needed)

    return guard


def is_from_this_machine(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """The peer has a loopback address, and no proxy says that it passes on somebody else's request."""
    is_passed_on = any(name in connection.headers for name in FORWARDING_HEADERS)
    return not is_passed_on and connection.client is not None and is_loopback(connection.client.host)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class CarryIds:
    """Gives each request its ids, binds them to every log line below, and returns them.

    It stands around the whole application: Litestar's own middleware never sees a path that does not exist.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        trace_id, request_id = (_accepted(headers.get(name)) for name in (b"x-trace-id", b"x-request-id"))
        ids = ((b"x-trace-id", trace_id.encode()), (b"x-request-id", request_id.encode()))

        async def send_with_ids(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *ids]
            await send(message)

        with bound_contextvars(trace_id=trace_id, request_id=request_id):
            await self._app(scope, receive, send_with_ids)


def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[ErrorBody]:
    status, code, message, headers = _describe(request, error)
    trace_id = str(get_contextvars().get("trace_id", ""))
    if status == 503:
        log.warning("request_deferred", path=request.url.path, code=code, reason=message)
    elif status >= 500:
        log.error("request_failed", path=request.url.path, status=status, code=code, exc_info=error)
    return Response(
        ErrorBody(ErrorDetail(code, message, trace_id)), status_code=status, headers=headers, media_type=MediaType.JSON
    )


def _describe(request: Request[Any, Any, Any], error: Exception) -> tuple[int, str, str, dict[str, str]]:
    if isinstance(error, ApiError):
        wait = error.retry_after_seconds
        return error.status, error.code, str(error), {} if wait is None else {"retry-after": str(wait)}
    if isinstance(error, Transient):
        return 503, error.code, str(error), {"retry-after": "5"}
    if isinstance(error, Rejected):
        return 422, error.code, str(error), {}
    if isinstance(error, HTTPException | RecursionError):
        return _describe_request(request, error)
    return 500, "internal_error", "Something failed here. The trace id finds the log line.", {}


def _describe_request(
    request: Request[Any, Any, Any], error: HTTPException | RecursionError
) -> tuple[int, str, str, dict[str, str]]:
    """What Litestar found wrong before a handler was reached."""
    if isinstance(error, RecursionError):  # nothing but a body can be nested that deeply
        return 400, "invalid_request", "The body is nested too deeply", {}
    if error.status_code == 400:
        return 400, "invalid_request", bad_request.describe(request, error), {}
    status = HTTPStatus(error.status_code)
    return status, status.name.lower(), status.phrase, {}


def _listen(settings: HttpSettings) -> socket.socket:
    """uvicorn would end the whole process when it can't, without saying what to do."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise PortTaken(
            f"{settings.host}:{settings.port} can't be listened on ({error.strerror}): set PORT to a free port "
            "and HOST to an address of this machine"
        ) from error


def _standard_routes(life: Lifetime) -> list[Any]:
    @get("/api/health", tags=["probes"], sync_to_thread=False)
    def health() -> Health:
        """Liveness: the process answers. Depends on nothing else."""
        return Health("ok", life.service, __version__)

    @get("/api/ready", tags=["probes"])
    async def ready() -> Response[Readiness]:
        """Readiness: what this service cannot work without is there."""
        checks = await life.readiness()
        is_ready = all(answer == "ok" for answer in checks.values())
        told = Readiness("ready" if is_ready else "not_ready", checks, await life.remarks() if is_ready else {})
        return Response(told, status_code=200 if is_ready else 503)

    @get("/metrics", tags=["probes"], sync_to_thread=False, media_type=CONTENT_TYPE)
    def metrics() -> bytes:
        """Prometheus metrics."""
        return render(life.registry)

    return [health, ready, metrics]


def _swagger() -> SwaggerRenderPlugin:
    return SwaggerRenderPlugin(
        path="/",
        js_url="/api-docs/assets/swagger-ui-bundle.js",
        css_url="/api-docs/assets/swagger-ui.css",
        standalone_preset_js_url="/api-docs/assets/swagger-ui-standalone-preset.js",
        favicon='<link rel="icon" href="data:,">',
    )


def _assets() -> Any:
    package = find_spec("swagger_ui")  # only its files are wanted; importing it would pull in a template engine
    if package is None or package.origin is None:
        raise ModuleNotFoundError("swagger-ui-py is not installed: it comes with farmiq[edge]")
    folder = Path(package.origin).parent / "static"
    return create_static_files_router(path="/api-docs/assets", directories=[folder], include_in_schema=False)


def _accepted(value: bytes | None) -> str:
    """A caller's id if it is harmless to log, else one of ours."""
    return value.decode() if value and _TRACE.match(value) else new_trace_id()


class _Server(uvicorn.Server):
    """Signals belong to the life cycle: it drains every service of the process, not only this port."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
