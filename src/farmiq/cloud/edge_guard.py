"""Which edge is asking, decided before anything of its body is read."""

from typing import Any

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from farmiq.cloud import tokens
from farmiq.cloud.ingestion import edges
from farmiq.cloud.tokens import TokenRefused
from farmiq.cloud.viewers import POOL_WAIT_SECONDS, Guard
from farmiq.kit.errors import reason_of
from farmiq.kit.http_server import ApiError
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, DatabaseAway, Pool

log = get_logger(__name__)


def edge_guard(pool: Pool) -> Guard:
    """A Litestar guard: only an edge's own token passes. `edge_of` then says whose it was."""

    async def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        token = tokens.bearer_of(connection.headers.get("authorization", ""))
        try:
            async with pool.acquire(timeout=POOL_WAIT_SECONDS) as database:
                connection.state.edge = await edges.find(database, token)
        except TokenRefused as error:
            # Under a name that is not masked: the id is no secret, and an operator finds the row with it.
            log.warning("edge_refused", code=error.code, credential_id=tokens.id_of(token))
            raise ApiError(401, error.code, str(error)) from error
        except RETRY as error:
            raise DatabaseAway(f"PostgreSQL: {reason_of(error)}") from error

    return guard


def edge_of(request: Request[Any, Any, Any]) -> edges.Edge:
    edge: edges.Edge = request.state.edge
    return edge


def refuse_other_tenant(edge: edges.Edge, tenant_id: str) -> None:
    if tenant_id not in edge.tenant_ids:
        raise ApiError(403, "tenant_forbidden", f"This edge does not speak for tenant {tenant_id[:64]!r}")
