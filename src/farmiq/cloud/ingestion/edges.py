"""Which edge is speaking, and for which tenants it may. What a token looks like is in `cloud/tokens.py`.

Nothing is cached, so what is revoked in the database is refused by every replica from the next request on.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from farmiq.cloud.tokens import TokenRefused, checked_tenants, digest, id_of, is_token_of, new_token
from farmiq.contracts.ids import check_id
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection, storable

__all__ = ["TokenRefused", "id_of"]  # as the callers of `find` know them

TOKEN_LENGTH_MIN: Final = 20

_IS_LIVE: Final = "t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())"

_FIND: Final = """
SELECT t.token_hash, t.edge_cluster_id, e.tenant_ids, t.revoked_at IS NOT NULL AS is_revoked,
       coalesce(t.expires_at <= now(), false) AS is_expired,
       coalesce(t.last_used_at < now() - interval '1 minute', true) AS is_used_long_ago
FROM edge_tokens AS t JOIN edges AS e USING (edge_cluster_id) WHERE t.token_id = $1
"""
_USED: Final = "UPDATE edge_tokens SET last_used_at = now() WHERE token_id = $1"
# What a person has granted beside them stays.
_KEEP_EDGE: Final = """
INSERT INTO edges AS e (edge_cluster_id, tenant_ids)
SELECT $1, $2::text[] || ARRAY(
  SELECT tenant_id FROM (
    SELECT DISTINCT ON (tenant_id) tenant_id, is_granted FROM edge_grants WHERE edge_cluster_id = $1
    ORDER BY tenant_id, changed_at DESC) AS latest
  WHERE is_granted AND tenant_id <> ALL ($2::text[]) ORDER BY tenant_id)
ON CONFLICT (edge_cluster_id) DO UPDATE SET tenant_ids = excluded.tenant_ids WHERE e.tenant_ids <> excluded.tenant_ids
"""
_NEW_EDGE: Final = (
    "INSERT INTO edges (edge_cluster_id, tenant_ids) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true"
)
_MAY_DELIVER: Final = "SELECT tenant_ids @> ARRAY[$2::text] FROM edges WHERE edge_cluster_id = $1"
_EDGES_OF: Final = """
SELECT edge_cluster_id FROM edges AS e WHERE tenant_ids @> ARRAY[$1::text] AND (cardinality(tenant_ids) > 1 OR EXISTS (
  SELECT FROM edge_tokens AS t WHERE t.edge_cluster_id = e.edge_cluster_id AND t.revoked_at IS NULL))
 ORDER BY edge_cluster_id
"""
_LOCK_EDGE: Final = "SELECT tenant_ids FROM edges WHERE edge_cluster_id = $1 FOR UPDATE"
_SET_TENANTS: Final = "UPDATE edges SET tenant_ids = $2 WHERE edge_cluster_id = $1"
_RECORD_GRANT: Final = """
INSERT INTO edge_grants (tenant_id, edge_cluster_id, is_granted, changed_by) VALUES ($1, $2, $3, $4)
"""
_HAS_LIVE: Final = f"SELECT EXISTS (SELECT FROM edge_tokens AS t WHERE edge_cluster_id = $1 AND {_IS_LIVE})"  # noqa: S608 - our own constant
_ADD_ROW: Final = "INSERT INTO edge_tokens (token_id, edge_cluster_id, token_hash, expires_at) VALUES ($1, $2, $3, $4)"
# A token that was revoked stays revoked, however often a provisioning script repeats itself.
_KEEP_ROW: Final = """
INSERT INTO edge_tokens AS t (token_id, edge_cluster_id, token_hash) VALUES ($1, $2, $3)
ON CONFLICT (token_id) DO UPDATE SET token_id = excluded.token_id WHERE t.edge_cluster_id = excluded.edge_cluster_id
RETURNING true
"""
_REVOKE: Final = """
UPDATE edge_tokens SET revoked_at = now()
WHERE edge_cluster_id = $1 AND token_id = coalesce($2, token_id) AND token_id <> coalesce($3, '') AND revoked_at IS NULL
RETURNING token_id, token_hash
"""
_LIMIT: Final = f"""
UPDATE edge_tokens AS t SET expires_at = least(expires_at, now() + make_interval(secs => $2))
WHERE edge_cluster_id = $1 AND {_IS_LIVE} RETURNING token_id, token_hash
"""  # noqa: S608 - put together from our own constants
_UNKNOWN_TO_OLD: Final = "UPDATE edges SET token_hash = NULL WHERE token_hash = ANY($1::bytea[])"
_LIST: Final = """
SELECT e.edge_cluster_id, e.tenant_ids, t.token_id, t.created_at, t.expires_at, t.revoked_at, t.last_used_at,
       CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked' WHEN t.expires_at <= now() THEN 'expired' ELSE 'live' END AS state
FROM edge_tokens AS t JOIN edges AS e USING (edge_cluster_id)
WHERE $1::text IS NULL OR edge_cluster_id = $1 ORDER BY edge_cluster_id, t.created_at, token_id
"""


class WeakToken(Rejected):
    """A token that could be guessed. Make one of at least 20 random characters."""

    code = "weak_token"


class TokenTaken(Rejected):
    """Each edge has tokens of its own: with a shared one nobody could tell which edge speaks."""

    code = "token_taken"


class EdgeKnown(Rejected):
    """An edge of this name has a token that works, and nobody who has it should lose it by mistake."""

    code = "edge_known"


class EdgeUnknown(Rejected):
    """No edge of this name was ever added, or it has no such token."""

    code = "edge_unknown"


class TenantNotGranted(Rejected):
    """The edge may deliver for some tenants, and this is none of them."""

    code = "tenant_not_granted"


class LastTenant(Rejected):
    """An edge delivers for at least one tenant. To end all it may do, revoke its tokens."""

    code = "last_tenant"


class Edge(Struct, frozen=True):
    edge_cluster_id: str
    tenant_ids: frozenset[str]


class EdgeToken(Struct, frozen=True, kw_only=True):
    """A token as it may be shown: everything but the token."""

    edge_cluster_id: str
    tenant_ids: list[str]
    token_id: str
    state: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class IssuedToken(Struct, frozen=True):
    """Shown once, and kept nowhere."""

    row: EdgeToken
    token: str

    def __repr__(self) -> str:
        return f"IssuedToken({self.row.token_id})"


async def find(connection: Connection, token: str) -> Edge:
    """The edge that this token belongs to, or `TokenRefused`. Only who has the whole token is told that it has ended."""
    row = await connection.fetchrow(_FIND, id_of(token))
    if row is None or not is_token_of(token, row["token_hash"]):
        raise TokenRefused("This route needs an edge's token: Authorization: Bearer <token>")
    if row["is_revoked"] or row["is_expired"]:
        code = "token_revoked" if row["is_revoked"] else "token_expired"
        raise TokenRefused(f"Token {id_of(token)} of edge {row['edge_cluster_id']} has ended", code=code)
    if row["is_used_long_ago"]:
        await connection.execute(_USED, id_of(token))
    return Edge(row["edge_cluster_id"], frozenset(row["tenant_ids"]))


async def may_deliver(connection: Connection, edge_cluster_id: str, tenant_id: str) -> bool | None:
    """Whether an edge may deliver for a tenant; None when there is no such edge."""
    granted: bool | None = await connection.fetchval(_MAY_DELIVER, edge_cluster_id, tenant_id)
    return granted


async def register(connection: Connection, *, edge_cluster_id: str, tenant_ids: Sequence[str], token: str) -> None:
    """Let an edge in with a token made elsewhere, and with no other. The same call twice changes nothing.

    A token that was revoked stays revoked; a new one lets the edge in.
    """
    if len(token) < TOKEN_LENGTH_MIN:
        raise WeakToken(f"the token of {edge_cluster_id} is shorter than {TOKEN_LENGTH_MIN} characters")
    async with connection.transaction():
        await connection.execute(_KEEP_EDGE, check_id("edge_cluster_id", edge_cluster_id), checked_tenants(tenant_ids))
        if not await connection.fetchval(_KEEP_ROW, id_of(token), edge_cluster_id, digest(token)):
            raise TokenTaken(f"the token of {edge_cluster_id} belongs to another edge")
        await _revoke(connection, edge_cluster_id, keep=id_of(token))


async def add(
    connection: Connection, edge_cluster_id: str, tenant_ids: Sequence[str], expires_at: datetime | None = None
) -> IssuedToken:
    """A new edge, or one whose tokens have all ended, with a token and these tenants."""
    tenants = checked_tenants(tenant_ids)
    async with connection.transaction():
        is_new = await connection.fetchval(_NEW_EDGE, check_id("edge_cluster_id", edge_cluster_id), tenants)
        if not is_new:
            await connection.fetchval(_LOCK_EDGE, edge_cluster_id)
            if await connection.fetchval(_HAS_LIVE, edge_cluster_id):
                raise EdgeKnown(f"edge {edge_cluster_id} is let in already")
            await connection.execute(_SET_TENANTS, edge_cluster_id, tenants)
        return await _issue(connection, edge_cluster_id, expires_at)


async def rotate(
    connection: Connection, edge_cluster_id: str, *, grace_seconds: float, expires_at: datetime | None = None
) -> IssuedToken:
    """A new token. Those that work now go on doing so for as long as the grace, or as they would have."""
    async with connection.transaction():
        if await connection.fetchval(_LOCK_EDGE, edge_cluster_id) is None:
            raise EdgeUnknown(f"there is no edge {edge_cluster_id[:80]!r}")
        ended = await connection.fetch(_LIMIT, edge_cluster_id, grace_seconds)
        # A replica of the version before knows no end of a token, and would let the old one in for ever.
        await connection.execute(_UNKNOWN_TO_OLD, [row["token_hash"] for row in ended])
        return await _issue(connection, edge_cluster_id, expires_at)


async def revoke(connection: Connection, edge_cluster_id: str, token_id: str | None = None) -> list[EdgeToken]:
    """End one token or all of them, at once and for ever. Answers what the edge has then."""
    async with connection.transaction():
        await connection.fetchval(_LOCK_EDGE, edge_cluster_id)
        known = await tokens(connection, edge_cluster_id)
        if not any(token_id in (None, one.token_id) for one in known):
            raise EdgeUnknown(
                f"there is no edge {edge_cluster_id[:80]!r}" + (f" with token {token_id[:40]!r}" if token_id else "")
            )
        await _revoke(connection, edge_cluster_id, token_id)
        return await tokens(connection, edge_cluster_id)


async def grant(connection: Connection, edge_cluster_id: str, tenant_id: str, *, by: str) -> bool:
    """Let an edge deliver for one more tenant. False when it may already. From its next request on it does."""
    (checked,) = checked_tenants([tenant_id])
    return await _set_grant(connection, edge_cluster_id, checked, by, is_granted=True)


async def ungrant(connection: Connection, edge_cluster_id: str, tenant_id: str, *, by: str) -> bool:
    """Let an edge no longer deliver for a tenant. False when it may not already. What waits for the cloud stays with the edge."""
    return await _set_grant(connection, edge_cluster_id, tenant_id, by, is_granted=False)


async def ungrant_all(connection: Connection, tenant_id: str, *, by: str) -> list[str]:
    """No edge may deliver for the tenant any more. An edge of this tenant alone is revoked. Answers which edges might."""
    async with connection.transaction():
        edge_ids = [row[0] for row in await connection.fetch(_EDGES_OF, tenant_id)]
        for edge_id in edge_ids:
            try:
                await ungrant(connection, edge_id, tenant_id, by=by)
            except LastTenant:
                await _revoke(connection, edge_id)
    return edge_ids


async def _set_grant(
    connection: Connection, edge_cluster_id: str, tenant_id: str, by: str, *, is_granted: bool
) -> bool:
    async with connection.transaction():
        tenants = await connection.fetchval(_LOCK_EDGE, edge_cluster_id)
        if tenants is None:
            raise EdgeUnknown(f"there is no edge {edge_cluster_id[:80]!r}")
        if (tenant_id in tenants) is is_granted:
            return False
        left = [*tenants, tenant_id] if is_granted else [one for one in tenants if one != tenant_id]
        if not left:
            raise LastTenant(f"{tenant_id} is the only tenant of edge {edge_cluster_id}")
        await connection.execute(_SET_TENANTS, edge_cluster_id, left)
        await connection.execute(_RECORD_GRANT, tenant_id, edge_cluster_id, is_granted, storable(by))
    return True


async def tokens(connection: Connection, edge_cluster_id: str | None = None) -> list[EdgeToken]:
    return [EdgeToken(**dict(row)) for row in await connection.fetch(_LIST, edge_cluster_id)]


async def _issue(connection: Connection, edge_cluster_id: str, expires_at: datetime | None) -> IssuedToken:
    token = new_token("edge")
    await connection.execute(_ADD_ROW, id_of(token), edge_cluster_id, digest(token), expires_at)
    rows = await tokens(connection, edge_cluster_id)
    return IssuedToken(next(row for row in rows if row.token_id == id_of(token)), token)


async def _revoke(
    connection: Connection, edge_cluster_id: str, token_id: str | None = None, keep: str | None = None
) -> None:
    ended = await connection.fetch(_REVOKE, edge_cluster_id, token_id, keep)
    await connection.execute(_UNKNOWN_TO_OLD, [row["token_hash"] for row in ended])
