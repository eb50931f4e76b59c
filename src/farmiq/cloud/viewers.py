"""Who is reading, and which tenants it may read. Every `/api/v1` question in the cloud names its tenant and passes this guard.

Nothing is cached, so a token that is revoked in the database is refused by every replica from the next request on.
"""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from msgspec import Struct

from farmiq.cloud import tokens
from farmiq.cloud.tokens import TokenRefused
from farmiq.contracts.ids import check_id
from farmiq.kit.errors import Rejected, reason_of
from farmiq.kit.http_server import ApiError
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection, DatabaseAway, Pool

AnyConnection = ASGIConnection[Any, Any, Any, Any]
Guard = Callable[[AnyConnection, BaseRouteHandler], Awaitable[None]]

POOL_WAIT_SECONDS: Final = 5.0

_FIND: Final = """
SELECT token_hash, viewer, tenant_ids, revoked_at IS NOT NULL AS is_revoked, coalesce(expires_at <= now(), false) AS is_expired,
       coalesce(last_used_at < now() - interval '1 minute', true) AS is_used_long_ago
FROM viewer_tokens WHERE token_id = $1
"""
_USED: Final = "UPDATE viewer_tokens SET last_used_at = now() WHERE token_id = $1"
_ADD: Final = """
INSERT INTO viewer_tokens (token_id, viewer, tenant_ids, token_hash, expires_at) VALUES ($1, $2, $3, $4, $5)
"""
_REVOKE: Final = """
UPDATE viewer_tokens SET revoked_at = now() WHERE viewer = $1 AND token_id = coalesce($2, token_id) AND revoked_at IS NULL
"""
# Of one tenant alone: the token has ended, and keeps the name, so that the list shows for whom it was.
_END_TENANT: Final = """
UPDATE viewer_tokens
   SET tenant_ids = CASE cardinality(tenant_ids) WHEN 1 THEN tenant_ids ELSE array_remove(tenant_ids, $1) END,
       revoked_at = CASE cardinality(tenant_ids) WHEN 1 THEN coalesce(revoked_at, now()) ELSE revoked_at END
 WHERE tenant_ids @> ARRAY[$1::text] AND (cardinality(tenant_ids) > 1 OR revoked_at IS NULL)
"""
_LIST: Final = """
SELECT viewer, tenant_ids, token_id, created_at, expires_at, revoked_at, last_used_at,
       CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'live' END AS state
FROM viewer_tokens WHERE $1::text IS NULL OR viewer = $1 ORDER BY viewer, created_at, token_id
"""

log = get_logger(__name__)


class ViewerUnknown(Rejected):
    """No viewer of this name was ever added, or it has no such token."""

    code = "viewer_unknown"


class Viewer(Struct, frozen=True):
    name: str
    tenant_ids: frozenset[str]


class ViewerToken(Struct, frozen=True, kw_only=True):
    """A token as it may be shown: everything but the token."""

    viewer: str
    tenant_ids: list[str]
    token_id: str
    state: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class IssuedToken(Struct, frozen=True):
    """Shown once, and kept nowhere."""

    row: ViewerToken
    token: str

    def __repr__(self) -> str:
        return f"IssuedToken({self.row.token_id})"


def viewer_guard(pool: Pool, admin_token: str) -> Guard:
    """A Litestar guard: the admin token reads every tenant, a viewer's token those that it was made for."""
    expected = admin_token.encode()

    async def guard(connection: AnyConnection, _handler: BaseRouteHandler) -> None:
        token = tokens.bearer_of(connection.headers.get("authorization", ""))
        if hmac.compare_digest(token.encode(), expected):
            return
        viewer = await _authenticate(pool, token)
        _refuse_strangers(viewer, connection.query_params.getall("tenant_id", []))

    return guard


async def find(connection: Connection, token: str) -> Viewer:
    """Whose token this is, or `TokenRefused`. Only who has the whole token is told that it has ended."""
    row = await connection.fetchrow(_FIND, tokens.id_of(token))
    if row is None or not tokens.is_token_of(token, row["token_hash"]):
        raise TokenRefused("This route needs a viewer's token: Authorization: Bearer <token>")
    if row["is_revoked"] or row["is_expired"]:
        code = "token_revoked" if row["is_revoked"] else "token_expired"
        raise TokenRefused(f"Token {tokens.id_of(token)} of viewer {row['viewer']} has ended", code=code)
    if row["is_used_long_ago"]:
        await connection.execute(_USED, tokens.id_of(token))
    return Viewer(row["viewer"], frozenset(row["tenant_ids"]))


async def add(
    connection: Connection, viewer: str, tenant_ids: Sequence[str], expires_at: datetime | None = None
) -> IssuedToken:
    """One more token for a viewer, known or new. Those that it has go on working."""
    token = tokens.new_token("viewer")
    tenants = tokens.checked_tenants(tenant_ids)
    token_id = tokens.id_of(token)
    await connection.execute(_ADD, token_id, check_id("viewer", viewer), tenants, tokens.digest(token), expires_at)
    rows = await all_tokens(connection, viewer)
    return IssuedToken(next(row for row in rows if row.token_id == token_id), token)


async def revoke(connection: Connection, viewer: str, token_id: str | None = None) -> list[ViewerToken]:
    """End one token or all of them, at once and for ever. Answers what the viewer has then."""
    known = await all_tokens(connection, viewer)
    if not any(token_id in (None, one.token_id) for one in known):
        raise ViewerUnknown(
            f"there is no viewer {viewer[:80]!r}" + (f" with token {token_id[:40]!r}" if token_id else "")
        )
    await connection.execute(_REVOKE, viewer, token_id)
    return await all_tokens(connection, viewer)


async def end_tenant(connection: Connection, tenant_id: str) -> None:
    """No token reads this tenant any more. Those that read others too go on."""
    await connection.execute(_END_TENANT, tenant_id)


async def all_tokens(connection: Connection, viewer: str | None = None) -> list[ViewerToken]:
    return [ViewerToken(**dict(row)) for row in await connection.fetch(_LIST, viewer)]


async def _authenticate(pool: Pool, token: str) -> Viewer:
    try:
        async with pool.acquire(timeout=POOL_WAIT_SECONDS) as connection:
            return await find(connection, token)
    except TokenRefused as error:
        # Under a name that is not masked: the id is no secret, and an operator finds the row with it.
        log.warning("viewer_refused", code=error.code, credential_id=tokens.id_of(token))
        raise ApiError(401, error.code, str(error)) from error
    except RETRY as error:
        raise DatabaseAway(f"PostgreSQL: {reason_of(error)}") from error


def _refuse_strangers(viewer: Viewer, asked: Sequence[str]) -> None:
    """All that were given: which of two a route would read must not matter here."""
    if len(asked) == 1 and asked[0] in viewer.tenant_ids:
        return
    readable = ", ".join(sorted(viewer.tenant_ids))
    raise ApiError(403, "tenant_forbidden", f"This token reads {readable}: name one of them with tenant_id")
