"""Every statement on `ingest_dedupe`."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from farmiq.kit.postgres import Connection

if TYPE_CHECKING:
    # Only its name is needed here, and screening brings the web stack, which a job on this table has no use for.
    from farmiq.cloud.ingestion.screening import Candidate, Key

LOCK_SECONDS: Final = 10

# A key that another transaction has written and not yet committed makes this one wait: for its commit, after which the key
# is a duplicate, or for its end, after which it is ours.
_ADD: Final = """
INSERT INTO ingest_dedupe (tenant_id, event_id, edge_cluster_id, content_hash, after_answer)
SELECT given.*, $5::bigint FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bytea[])
  AS given (tenant_id, event_id, edge_cluster_id, content_hash) ORDER BY 1, 2
ON CONFLICT DO NOTHING
RETURNING tenant_id, event_id
"""
_KNOWN: Final = """
SELECT d.tenant_id, d.event_id, d.content_hash, coalesce(coalesce(d.after_answer, -1) < a.epoch_answer, false) AS may_be_lost
FROM unnest($1::text[], $2::uuid[]) AS given (tenant_id, event_id)
JOIN ingest_dedupe AS d ON d.tenant_id = given.tenant_id AND d.event_id = given.event_id
LEFT JOIN edge_answers AS a ON a.tenant_id = d.tenant_id AND a.edge_cluster_id = d.edge_cluster_id
"""
_PASSED_ON: Final = """
UPDATE ingest_dedupe AS d SET after_answer = a.answered
FROM unnest($1::text[], $2::uuid[]) AS given (tenant_id, event_id), edge_answers AS a
WHERE d.tenant_id = given.tenant_id AND d.event_id = given.event_id
  AND a.tenant_id = d.tenant_id AND a.edge_cluster_id = d.edge_cluster_id
"""
_FORGET: Final = """
DELETE FROM ingest_dedupe AS d USING unnest($1::text[], $2::uuid[]) AS given (tenant_id, event_id)
WHERE d.tenant_id = given.tenant_id AND d.event_id = given.event_id
"""
_NEWEST: Final = "SELECT max(first_seen_at) FROM {partition}"


class Known(Struct, frozen=True):
    """`content_hash`: of what the id stood for when it came first; None in a row of an earlier release, which kept no digest.
    `may_be_lost`: it was accepted before this database, or the bus, went back."""

    content_hash: bytes | None
    may_be_lost: bool = False


async def limit_waiting(connection: Connection) -> None:
    """Until the end of the transaction no statement waits longer for what another transaction has written."""
    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")


async def add(connection: Connection, candidates: "Mapping[Key, Candidate]", after_answer: int | None) -> "set[Key]":
    """Remember these and return the ones that were not there.

    All requests write in the same order, so two of them with the same events never wait for each other in a circle.
    """
    edges = [candidate.edge_cluster_id for candidate in candidates.values()]
    hashes = [candidate.content_hash for candidate in candidates.values()]
    rows = await connection.fetch(_ADD, *_columns(candidates), edges, hashes, after_answer)
    return {(row["tenant_id"], row["event_id"]) for row in rows}


async def known(connection: Connection, keys: "Collection[Key]") -> "dict[Key, Known]":
    """What is remembered of these ids."""
    if not keys:
        return {}
    rows = await connection.fetch(_KNOWN, *_columns(keys))
    return {(row["tenant_id"], row["event_id"]): Known(row["content_hash"], row["may_be_lost"]) for row in rows}


async def passed_on(connection: Connection, keys: "Collection[Key]") -> None:
    """These may have been lost, and are on the bus once more."""
    if keys:
        await connection.execute(_PASSED_ON, *_columns(keys))


async def forget(connection: Connection, keys: "Collection[Key]") -> None:
    """Take back what `add` wrote in this transaction: it is not on the bus."""
    await connection.execute(_FORGET, *_columns(keys))


async def newest(connection: Connection, partition: str) -> datetime | None:
    """When the newest event of a partition came, from an index; None when it is empty."""
    at: datetime | None = await connection.fetchval(_NEWEST.format(partition=partition))
    return at


def _columns(keys: "Iterable[Key]") -> tuple[list[str], list[object]]:
    ordered = list(keys)
    return [tenant_id for tenant_id, _ in ordered], [event_id for _, event_id in ordered]
