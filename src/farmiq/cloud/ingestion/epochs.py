"""Which epoch of this database answers, and how many answers each edge has had of it.

The number of an answer is written down in the transaction that accepts the events, and an edge says with each batch which answer
it has heard last. A database that lost commits and says nothing of it (a snapshot, a replica that was promoted, a disk that lied)
has counted less far than its edge has heard, or gave that number once more, with another token: that edge gets an epoch of its
own, and sends again what may be lost. What was accepted in an earlier epoch is passed on once more when it comes again: its
message may be lost, although it is remembered. No clock takes part in this, and one edge's word changes nothing for another.
"""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.sync import ANSWER_TOKENS_MAX, CloudEpoch, HeardAnswer
from farmiq.kit.errors import Transient
from farmiq.kit.jobs import Report, Work
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection, Pool

MARKS_BACK: Final = 24
"""Marks are an hour apart or more: what was accepted that many of them ago has been on the bus for a day."""
MARKS_KEPT: Final = 1_000

_EPOCH: Final = "SELECT epoch, began_at, resend_since FROM cloud_identity"
# An answer that was given before this mark was made is safe: what it accepted has long been taken from the bus.
_SAFE: Final = f"""
coalesce((SELECT m.answered FROM edge_answer_marks AS m
          WHERE m.tenant_id = a.tenant_id AND m.edge_cluster_id = a.edge_cluster_id
          ORDER BY m.answered DESC OFFSET {MARKS_BACK} LIMIT 1), 0)
"""  # noqa: S608 - our own constant
_COUNT: Final = "SELECT epoch, answered, tokens FROM edge_answers WHERE tenant_id = $1 AND edge_cluster_id = $2"
# Without a row there is nothing that this edge was ever answered here. If it says otherwise, the row is what was lost.
_KNOW: Final = """
INSERT INTO edge_answers (tenant_id, edge_cluster_id, epoch, began_at, resend_since, answered, epoch_answer, resend_after)
SELECT $1, $2, CASE WHEN $3::bigint > 0 THEN gen_random_uuid() ELSE epoch END, began_at, resend_since, $3,
       CASE WHEN $3 > 0 OR resend_since IS NOT NULL THEN $3 END, CASE WHEN $3 > 0 OR resend_since IS NOT NULL THEN 0 END
FROM cloud_identity
ON CONFLICT DO NOTHING
"""
_WENT_BACK: Final = f"""
UPDATE edge_answers AS a SET
  epoch = gen_random_uuid(), began_at = greatest(clock_timestamp(), began_at + interval '1 microsecond'),
  answered = greatest(answered, $4), epoch_answer = greatest(answered, $4), tokens = '{{}}',
  resend_after = least(resend_after, {_SAFE})
WHERE tenant_id = $1 AND edge_cluster_id = $2 AND epoch = $3
"""  # noqa: S608 - our own constants
_ANSWER: Final = f"""
UPDATE edge_answers SET
  answered = greatest(answered, $5) + 1,
  tokens = CASE WHEN answered >= $5 THEN tokens[greatest(1, cardinality(tokens) - {ANSWER_TOKENS_MAX - 2}):] ELSE '{{}}' END
           || $6::integer,
  resend_after = CASE WHEN epoch IS DISTINCT FROM $4 THEN resend_after END
WHERE tenant_id = $1 AND edge_cluster_id = $2 AND epoch = $3
RETURNING epoch, began_at, resend_since, answered AS answer, resend_after,
          tokens[cardinality(tokens) - least(answered - $5, {ANSWER_TOKENS_MAX})::integer:] AS tokens
"""  # noqa: S608 - our own constant
# Also an edge that has not sent anything since answers are counted is told of what begins now.
_KNOW_ALL: Final = """
INSERT INTO edge_answers (tenant_id, edge_cluster_id, epoch, began_at, resend_since)
SELECT DISTINCT tenant_id, edge_cluster_id, epoch, began_at, resend_since
FROM cloud_identity, edges, unnest(tenant_ids) AS tenant_id WHERE revoked_at IS NULL ON CONFLICT DO NOTHING
"""
# An edge that was away during the epoch in which the backup was taken needs the earlier of the two.
_BEGIN: Final = """
UPDATE cloud_identity SET
  epoch = gen_random_uuid(), resend_since = least($1::timestamptz, resend_since),
  began_at = greatest(clock_timestamp(), greatest(began_at, $2::timestamptz) + interval '1 microsecond')
RETURNING epoch, began_at, resend_since
"""
_BEGIN_FOR_EDGES: Final = f"""
UPDATE edge_answers AS a SET
  epoch = $1, began_at = greatest($2::timestamptz, a.began_at + interval '1 microsecond'),
  resend_since = least(a.resend_since, $3), epoch_answer = a.answered, tokens = '{{}}',
  resend_after = least(a.resend_after, {_SAFE},
    -- The last mark before everything that was marked since then, in the order of the answers: a clock may have been wrong.
    coalesce((SELECT max(earlier.answered) FROM edge_answer_marks AS earlier
              WHERE earlier.tenant_id = a.tenant_id AND earlier.edge_cluster_id = a.edge_cluster_id
                AND earlier.answered < coalesce((SELECT min(later.answered) FROM edge_answer_marks AS later
                                                 WHERE later.tenant_id = a.tenant_id AND later.edge_cluster_id = a.edge_cluster_id
                                                   AND later.marked_at >= $3), a.answered)), 0))
WHERE $4::text IS NULL OR a.tenant_id = $4
"""  # noqa: S608 - our own constants
_MARK: Final = """
INSERT INTO edge_answer_marks (tenant_id, edge_cluster_id, answered)
SELECT tenant_id, edge_cluster_id, answered FROM edge_answers ON CONFLICT DO NOTHING
"""
_UNMARKED: Final = """
SELECT count(*) FROM edge_answers AS a WHERE NOT EXISTS (
  SELECT FROM edge_answer_marks AS m WHERE (m.tenant_id, m.edge_cluster_id, m.answered)
                                         = (a.tenant_id, a.edge_cluster_id, a.answered))
"""
_PRUNE: Final = """
DELETE FROM edge_answer_marks AS m USING (
  SELECT tenant_id, edge_cluster_id, answered,
         row_number() OVER (PARTITION BY tenant_id, edge_cluster_id ORDER BY answered DESC) AS place
  FROM edge_answer_marks) AS ranked
WHERE (m.tenant_id, m.edge_cluster_id, m.answered) = (ranked.tenant_id, ranked.edge_cluster_id, ranked.answered)
  AND ranked.place > $1
"""

log = get_logger(__name__)


class Begun(Struct, frozen=True, kw_only=True):
    """`edges`: how many hear of it, each once for every tenant that it sends for."""

    epoch: CloudEpoch
    edges: int


class Count(Struct, frozen=True):
    """How many answers the edge has had of this tenant, and under which epoch it is answered now."""

    epoch: UUID
    answered: int


class EpochEnded(Transient):
    """Another epoch began while the batch was looked at: what was known of its events may not count any more."""

    code = "epoch_ended"


async def count_of(connection: Connection, tenant_id: str, edge_cluster_id: str, heard: HeardAnswer | None) -> Count:
    """Before anything of the batch is compared with what is remembered: an edge that has heard more answers than are counted here
    has found out that this database went back."""
    key = (tenant_id, edge_cluster_id)
    row = await connection.fetchrow(_COUNT, *key)
    if row is None:
        await connection.execute(_KNOW, *key, 0 if heard is None else heard.answer)
    elif heard is not None and heard.epoch == row["epoch"] and not is_known(heard, row["answered"], row["tokens"]):
        await connection.execute(_WENT_BACK, *key, heard.epoch, heard.answer)
        edge = {"tenant_id": tenant_id, "edge_cluster_id": edge_cluster_id}
        log.warning("commits_lost", **edge, counted=row["answered"], heard=heard.answer)
    else:
        return Count(row["epoch"], row["answered"])
    row = await connection.fetchrow(_COUNT, *key)
    assert row is not None  # noqa: S101 - it was there, or is there since
    return Count(row["epoch"], row["answered"])


def is_known(heard: HeardAnswer, answered: int, tokens: Sequence[int]) -> bool:
    """Whether this database has given that answer.

    It no longer has the token of one that lies far back: then the request was long on its way, past others of the same edge. Had
    this database gone back, the first of those would have named an answer that is not counted here."""
    place = len(tokens) - 1 - (answered - heard.answer)
    if place < 0:
        return len(tokens) == ANSWER_TOKENS_MAX
    return place < len(tokens) and tokens[place] == heard.token


async def number_answer(
    connection: Connection, tenant_id: str, edge_cluster_id: str, count: Count, heard: HeardAnswer | None
) -> CloudEpoch:
    """In the transaction that accepts the events, as its last statement: it holds the edge's row."""
    epoch, answer = (None, 0) if heard is None else (heard.epoch, heard.answer)
    token = secrets.randbelow(2**31)
    row = await connection.fetchrow(_ANSWER, tenant_id, edge_cluster_id, count.epoch, epoch, answer, token)
    if row is None:
        raise EpochEnded("another epoch of this database began meanwhile: the same batch again")
    return CloudEpoch(**dict(row.items()))


async def load_epoch(connection: "Connection | Pool") -> CloudEpoch:
    """For an answer to somebody who names no tenant."""
    row = await connection.fetchrow(_EPOCH)
    assert row is not None  # noqa: S101 - the table always has its one row
    return CloudEpoch(**dict(row.items()))


async def current_epoch(connection: Connection) -> UUID | None:
    """None in a database whose schema is older than epochs."""
    if await connection.fetchval("SELECT to_regclass('public.cloud_identity') IS NULL"):
        return None
    return (await load_epoch(connection)).epoch


async def latest_beginning(connection: Connection) -> datetime | None:
    """When the last epoch began, by the clock of that time. None in a database whose schema is older than epochs."""
    tables = ("cloud_identity", "edge_answers")
    there = [name for name in tables if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name)]
    moments = [await connection.fetchval(f"SELECT max(began_at) FROM {name}") for name in there]  # noqa: S608 - the two above
    return max((moment for moment in moments if moment is not None), default=None)


async def begin(
    connection: Connection, resend_since: datetime, tenant_id: str | None = None, began_after: datetime | None = None
) -> Begun:
    """Edges send again what was acknowledged since then, and for at least a day before now; all edges, or those of a tenant.
    `began_after`: the last epoch of a database that this one replaces."""
    await connection.execute(_KNOW_ALL)
    if tenant_id is None:
        row = await connection.fetchrow(_BEGIN, resend_since, began_after)
    else:
        row = await connection.fetchrow(
            "SELECT gen_random_uuid() AS epoch, clock_timestamp() AS began_at, $1::timestamptz AS resend_since",
            resend_since,
        )
    assert row is not None  # noqa: S101 - as above
    epoch = CloudEpoch(**dict(row.items()))
    edges = await connection.execute(_BEGIN_FOR_EDGES, epoch.epoch, epoch.began_at, epoch.resend_since, tenant_id)
    return Begun(epoch=epoch, edges=_count(edges))


async def mark_answers(work: Work) -> Report:
    """How far the answers to each edge have come by now."""
    if work.is_dry_run:
        return {"marks": int(await work.connection.fetchval(_UNMARKED))}
    marked = _count(await work.connection.execute(_MARK))
    return {"marks": marked, "forgotten": _count(await work.connection.execute(_PRUNE, MARKS_KEPT))}


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])
