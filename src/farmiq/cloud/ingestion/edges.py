"""Which edge is speaking, and for which tenants it may. Tokens are kept as SHA-256 only: they are long and random."""

import hashlib
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from farmiq.contracts.ids import check_id
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection

TOKEN_LENGTH_MIN: Final = 20

_REGISTER: Final = """
INSERT INTO edges AS e (edge_cluster_id, token_hash, tenant_ids) VALUES ($1, $2, $3)
ON CONFLICT (edge_cluster_id) DO UPDATE SET
  token_hash = excluded.token_hash, tenant_ids = excluded.tenant_ids,
  revoked_at = CASE WHEN e.token_hash = excluded.token_hash THEN e.revoked_at END
"""
_FIND: Final = """
SELECT edge_cluster_id, tenant_ids, coalesce(last_seen_at < now() - interval '1 minute', true) AS is_seen_long_ago
FROM edges WHERE token_hash = $1 AND revoked_at IS NULL
"""
_SEEN: Final = "UPDATE edges SET last_seen_at = now() WHERE edge_cluster_id = $1"


class WeakToken(Rejected):
    """A token that could be guessed. Make one of at least 20 random characters."""

    code = "weak_token"


class Edge(Struct, frozen=True):
    edge_cluster_id: str
    tenant_ids: frozenset[str]


async def register(connection: Connection, *, edge_cluster_id: str, tenant_ids: Sequence[str], token: str) -> None:
    """Let an edge in, or change its tenants and token. The same call twice changes nothing.

    A token that was revoked stays revoked, however often a provisioning script repeats itself; a new one lets the edge in.
    """
    if len(token) < TOKEN_LENGTH_MIN:
        raise WeakToken(f"the token of {edge_cluster_id} is shorter than {TOKEN_LENGTH_MIN} characters")
    tenants = sorted({check_id("tenant_id", tenant_id) for tenant_id in tenant_ids})
    await connection.execute(_REGISTER, check_id("edge_cluster_id", edge_cluster_id), _hash(token), tenants)


async def find(connection: Connection, token: str) -> Edge | None:
    """The edge with this token. Looking a hash up tells an attacker nothing by the time it takes."""
    row = await connection.fetchrow(_FIND, _hash(token))
    if row is None:
        return None
    if row["is_seen_long_ago"]:
        await connection.execute(_SEEN, row["edge_cluster_id"])
    return Edge(row["edge_cluster_id"], frozenset(row["tenant_ids"]))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
