"""Every SQL statement of this service."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from farmiq.contracts.timestamps import LATEST
from farmiq.edge.ingress_gateway.screening import Refusal, Screened, fingerprint
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Connection, storable
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin

KEPT_BYTES_MAX = 65_536

Key = tuple[str, UUID]
"""Tenant and event id: what a message is recognised by."""

# A device that was taken out or never added has no row, and without any device the epoch is still answered.
_DOOR = """
    SELECT identity.epoch, pg_current_xact_id()::text::bigint AS commits,
           known.tenant_id, known.farm_id, known.barn_id, known.device_id,
           coalesce(known.station_id, known.device_id) AS station_id
      FROM edge_identity AS identity
      LEFT JOIN devices AS known ON known.device_id = ANY($1::text[]) AND known.revoked_at IS NULL
"""
_SEE = """
    INSERT INTO ingress_dedupe (tenant_id, event_id, device_id, content_hash, first_seen_at)
    SELECT DISTINCT ON (tenant_id, event_id) tenant_id, event_id, device_id, content_hash, $5::timestamptz
      FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[]) WITH ORDINALITY
           AS seen (tenant_id, event_id, device_id, content_hash, number)
     ORDER BY tenant_id, event_id, number
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, event_id
"""
_SEEN_FOR = """
    SELECT tenant_id, event_id, device_id, content_hash FROM ingress_dedupe
     WHERE (tenant_id, event_id) IN (SELECT * FROM unnest($1::text[], $2::uuid[]))
"""
_COVERED = """
    SELECT wanted.number
      FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[]) WITH ORDINALITY
           AS wanted (tenant_id, stream_id, device_id, first_seq, end_seq, number)
      JOIN streams AS known USING (tenant_id, stream_id, device_id)
     WHERE known.received @> int8range(first_seq, end_seq)
"""
_FORGET = """
    DELETE FROM ingress_dedupe
     WHERE (tenant_id, event_id) IN (SELECT * FROM unnest($1::text[], $2::uuid[]))
"""
_REJECT = """
    INSERT INTO ingress_rejected (received_at, topic, reason, detail, payload, payload_size_bytes,
                                  tenant_id, device_id, event_id, trace_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""
_KEPT_LATELY = """
    SELECT DISTINCT tenant_id, device_id, reason FROM ingress_rejected
     WHERE received_at > $3::timestamptz - interval '1 minute'
       AND (tenant_id, device_id) IN (SELECT * FROM unnest($1::text[], $2::text[]))
"""
_COLUMNS = "id, received_at, topic, reason, detail, payload_size_bytes, tenant_id, device_id, event_id, trace_id"
_REJECTED = f"""
    SELECT {_COLUMNS}
      FROM ingress_rejected
     WHERE ($1::text IS NULL OR tenant_id = $1) AND ($2::text IS NULL OR reason = $2)
       AND received_at <= $3 AND (received_at < $3 OR id > $4)
     ORDER BY received_at DESC, id
     LIMIT $5
"""  # noqa: S608 - our own constants
_REJECTED_ONE = f"""
    SELECT {_COLUMNS}, substring(payload FROM 1 FOR $2) AS beginning FROM ingress_rejected WHERE id = $1
"""  # noqa: S608 - our own constants


async def door(connection: Connection, device_ids: Sequence[str]) -> tuple[UUID, int, dict[Origin, str]]:
    """Which epoch of this database is speaking and in which transaction, where these devices may speak from, and under which name
    each weighs.

    Read in every transaction, because a restore may happen under a running gateway; and first in it, because a mark from
    before a restore must not go out under the epoch after it.
    """
    rows = await connection.fetch(_DOOR, list(device_ids))
    known = {Origin(*row[2:6]): row["station_id"] for row in rows if row["device_id"] is not None}
    return rows[0]["epoch"], rows[0]["commits"], known


async def first_seen(connection: Connection, messages: Sequence[Screened], at: datetime) -> set[Key]:
    """Which of these are seen for the first time. The others have been stored by an earlier transaction, or by this one."""
    if not messages:
        return set()
    rows = await connection.fetch(
        _SEE,
        [message.origin.tenant_id for message in messages],
        [message.event_id for message in messages],
        [message.origin.device_id for message in messages],
        [fingerprint(message) for message in messages],
        at,
    )
    return {(row["tenant_id"], row["event_id"]) for row in rows}


async def seen_for(connection: Connection, messages: Sequence[Screened]) -> dict[Key, tuple[str | None, str | None]]:
    """Whose message each of these ids was first seen on, and with which fingerprint."""
    if not messages:
        return {}
    rows = await connection.fetch(
        _SEEN_FOR, [message.origin.tenant_id for message in messages], [message.event_id for message in messages]
    )
    return {(row["tenant_id"], row["event_id"]): (row["device_id"], row["content_hash"]) for row in rows}


async def covered(connection: Connection, messages: Sequence[Screened]) -> set[Screened]:
    """Those batches of which every sample is here."""
    batches = [(message, message.body) for message in messages if isinstance(message.body, StreamBatch)]
    if not batches:
        return set()
    rows = await connection.fetch(
        _COVERED,
        [message.origin.tenant_id for message, _ in batches],
        [body.batch.stream_id for _, body in batches],
        [message.origin.device_id for message, _ in batches],
        [body.span[0] for _, body in batches],
        [body.span[1] for _, body in batches],
    )
    return {batches[row["number"] - 1][0] for row in rows}


async def forget(connection: Connection, refused: Sequence[Screened]) -> None:
    """A message that was refused after all must not look like one that was stored when it comes again."""
    if refused:
        await connection.execute(
            _FORGET, [message.origin.tenant_id for message in refused], [message.event_id for message in refused]
        )


async def keep_rejected(connection: Connection, rejected: Sequence[tuple[Message, Refusal]], at: datetime) -> None:
    """Each; of those that are put off, and come again and again, one of a device and reason in a minute."""
    put_off = {_who_and_why(refusal): (message, refusal) for message, refusal in rejected if refusal.is_put_off}
    rejected = [item for item in rejected if not item[1].is_put_off]
    if put_off:
        rows = await connection.fetch(
            _KEPT_LATELY, [tenant_id for tenant_id, _, _ in put_off], [device_id for _, device_id, _ in put_off], at
        )
        lately = {tuple(row) for row in rows}
        rejected += [item for who, item in put_off.items() if who not in lately]
    if rejected:
        await connection.executemany(_REJECT, [_rejected_row(message, refusal, at) for message, refusal in rejected])


async def rejected(
    connection: Connection, tenant_id: str | None, reason: str | None, after: tuple[datetime, UUID] | None, limit: int
) -> list[asyncpg.Record]:
    """Newest first, from behind `after`. Those of one micro-batch share their time and are told apart by their ids."""
    at, after_id = after or (LATEST, UUID(int=0))
    return await connection.fetch(_REJECTED, tenant_id, reason, at, after_id, limit)


async def rejected_one(connection: Connection, rejected_id: UUID, bytes_max: int) -> asyncpg.Record | None:
    return await connection.fetchrow(_REJECTED_ONE, rejected_id, bytes_max)


def _who_and_why(refusal: Refusal) -> tuple[str | None, str | None, str]:
    return refusal.tenant_id, refusal.device_id, refusal.code


def _rejected_row(message: Message, refusal: Refusal, at: datetime) -> tuple[object, ...]:
    return (
        at, storable(message.topic), refusal.code, storable(refusal.detail), message.payload[:KEPT_BYTES_MAX],
        len(message.payload), refusal.tenant_id, refusal.device_id, refusal.event_id, refusal.trace_id,
    )  # fmt: skip
