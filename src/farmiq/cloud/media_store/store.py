"""Every SQL statement about pictures in the cloud.

A row is made by whichever comes first: the event that an edge has stored a picture, or the edge's wish to send it. What both say
is taken from the wish, because the bytes are compared with that; so their order makes no difference.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from farmiq.cloud.media_store.announcements import Announcement
from farmiq.cloud.media_store.picture import Picture
from farmiq.contracts.media import CloudPresignRequest, ObjectName
from farmiq.kit.day_digests import PICTURE_CONTENT, Digested
from farmiq.kit.object_inventory import Expected
from farmiq.kit.postgres import Connection
from farmiq.kit.s3 import Digest

LOCK_SECONDS: Final = 5
DIGESTED: Final = Digested(
    "media_objects", at="captured_at", state="state", content=PICTURE_CONTENT.format("coalesce(sha256, '')")
)

_COLUMNS: Final = ", ".join("id AS media_id" if name == "media_id" else name for name in Picture.__struct_fields__)
_ONE: Final = f"SELECT {_COLUMNS} FROM media_objects WHERE tenant_id = $1 AND id = $2"  # noqa: S608 - our own constants
_LOCK: Final = f"{_ONE} FOR UPDATE"

_WANT: Final = f"""
    INSERT INTO media_objects AS known
           (tenant_id, id, farm_id, barn_id, device_id, session_id, bucket, object_key, mime_type, size_bytes, sha256,
            captured_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT (tenant_id, id) DO UPDATE
       SET farm_id = excluded.farm_id, barn_id = excluded.barn_id, device_id = excluded.device_id,
           session_id = coalesce(known.session_id, excluded.session_id), bucket = excluded.bucket,
           object_key = excluded.object_key, mime_type = excluded.mime_type, size_bytes = excluded.size_bytes,
           sha256 = excluded.sha256, captured_at = excluded.captured_at
     WHERE known.state <> 'stored' AND coalesce(known.device_id, excluded.device_id) = excluded.device_id
    RETURNING {_COLUMNS}
"""  # noqa: S608 - our own constants
_SAID_BY_BOTH: Final = ", ".join(
    f"{name} = CASE WHEN known.object_key IS NULL THEN excluded.{name} ELSE known.{name} END"
    for name in ("farm_id", "barn_id", "device_id", "mime_type", "size_bytes", "sha256")
)
# A picture that was adopted from the object store has the day in its key for a time, until somebody announces it.
_CAPTURED_AT: Final = """
    captured_at = CASE WHEN known.object_key IS NULL
                         OR (known.announced_event_id IS NULL AND known.captured_at = date_trunc('day', known.captured_at, 'UTC'))
                       THEN excluded.captured_at ELSE known.captured_at END"""
_ANNOUNCE: Final = f"""
    INSERT INTO media_objects AS known
           (tenant_id, id, farm_id, barn_id, device_id, session_id, mime_type, size_bytes, sha256, captured_at,
            source_bucket, source_object_key, path, announced_at, announced_event_id, trace_id)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::text[], $8::bigint[],
                         $9::text[], $10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::timestamptz[], $15::uuid[],
                         $16::text[])
    ON CONFLICT (tenant_id, id) DO UPDATE
       SET {_SAID_BY_BOTH}, {_CAPTURED_AT},
           session_id = coalesce(known.session_id, excluded.session_id), path = excluded.path,
           source_bucket = excluded.source_bucket, source_object_key = excluded.source_object_key,
           announced_at = excluded.announced_at, announced_event_id = excluded.announced_event_id,
           trace_id = excluded.trace_id
     WHERE known.announced_event_id IS NULL
        OR (known.announced_at, known.announced_event_id) < (excluded.announced_at, excluded.announced_event_id)
    RETURNING known.tenant_id, known.id, known.sha256
"""  # noqa: S608 - our own constants
# When it first came here is when its retention begins: a picture that was lost and sent again does not begin anew.
_STORED: Final = """
    UPDATE media_objects
       SET state = 'stored', stored_at = coalesce(stored_at, $3), verified_at = $3, etag = $4, missing_since = NULL,
           missing_reason = NULL
     WHERE tenant_id = $1 AND id = $2
"""
_MISSING: Final = """
    UPDATE media_objects SET state = 'missing', missing_since = $3, missing_reason = $4 WHERE tenant_id = $1 AND id = $2
"""
_VERIFIED: Final = "UPDATE media_objects SET verified_at = $3 WHERE tenant_id = $1 AND id = $2 AND state = 'stored'"
_ADOPT: Final = """
    INSERT INTO media_objects
           (tenant_id, id, farm_id, barn_id, device_id, bucket, object_key, mime_type, size_bytes, sha256, captured_at, state,
            stored_at, verified_at, etag)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'stored', $12, $12, $13)
    ON CONFLICT DO NOTHING RETURNING true
"""
_NO_THUMBNAIL: Final = "UPDATE media_objects SET thumbnail_refused = $3 WHERE tenant_id = $1 AND id = $2"
_LIST: Final = f"""
    SELECT {_COLUMNS} FROM media_objects WHERE {{conditions}} ORDER BY captured_at DESC, id DESC LIMIT $1
"""  # noqa: S608 - our own constants
_WANTED: Final = """
    SELECT tenant_id, id FROM media_objects
     WHERE state IN ('announced', 'missing') AND tenant_id = ANY ($1) AND (tenant_id, id) > ($2, $3)
       AND (state = 'missing' OR created_at < $4 OR created_at > clock_timestamp())
     ORDER BY tenant_id, id LIMIT $5
"""
_WAITING: Final = """
    SELECT state, count(*) AS pictures, min(coalesce(missing_since, created_at)) AS since
      FROM media_objects WHERE state IN ('announced', 'missing') GROUP BY state
"""
_OF_SESSIONS: Final = f"""
    SELECT {_COLUMNS} FROM media_objects WHERE tenant_id = $1 AND session_id = ANY ($2) ORDER BY captured_at, id
"""  # noqa: S608 - our own constants
_OF_IDS: Final = f"SELECT {_COLUMNS} FROM media_objects WHERE tenant_id = $1 AND id = ANY ($2)"  # noqa: S608 - our own constants
_INVENTORY: Final = """
    SELECT tenant_id, id, object_key, size_bytes, state = 'stored' AS must_exist,
           CASE WHEN state = 'stored' THEN sha256 END AS sha256
      FROM media_objects
     WHERE bucket = $1 AND object_key COLLATE "C" > $2 ORDER BY object_key COLLATE "C" LIMIT $3
"""
_HAS_KEY: Final = 'SELECT EXISTS (SELECT FROM media_objects WHERE bucket = $1 AND object_key COLLATE "C" = $2)'
_COUNT_OLD: Final = "SELECT count(*) FROM media_objects WHERE stored_at < $1"
_OLD: Final = """
    SELECT tenant_id, id, bucket, object_key, stored_at FROM media_objects
     WHERE stored_at < $1 AND stored_at >= $2 ORDER BY stored_at LIMIT $3 FOR UPDATE SKIP LOCKED
"""
_FORGET: Final = """
    DELETE FROM media_objects AS m USING unnest($1::text[], $2::uuid[]) AS given (tenant_id, id)
     WHERE m.tenant_id = given.tenant_id AND m.id = given.id
"""


class Filters(Struct, frozen=True, kw_only=True):
    """Which pictures of a tenant. Only what was asked for becomes part of the statement, so that each has its own index."""

    tenant_id: str
    since: datetime
    until: datetime
    session_id: UUID | None = None
    device_id: str | None = None
    state: str | None = None

    def conditions(self) -> Iterator[tuple[str, object]]:
        yield "tenant_id = {}", self.tenant_id
        yield "captured_at >= {}", self.since
        yield "captured_at < {}", self.until
        for name, value in (("session_id", self.session_id), ("device_id", self.device_id), ("state", self.state)):
            if value is not None:
                yield f"{name} = {{}}", value


class Waiting(Struct, frozen=True):
    state: str
    pictures: int
    since: datetime


class OldPicture(Struct, frozen=True):
    tenant_id: str
    id: UUID
    bucket: str | None
    object_key: str | None
    stored_at: datetime


async def limit_waiting(connection: Connection) -> None:
    """For this transaction: a picture that somebody is just comparing is waited for a few seconds, not for ever."""
    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")


async def one(connection: Connection, tenant_id: str, media_id: UUID) -> Picture | None:
    return _picture(await connection.fetchrow(_ONE, tenant_id, media_id))


async def lock(connection: Connection, tenant_id: str, media_id: UUID) -> Picture | None:
    return _picture(await connection.fetchrow(_LOCK, tenant_id, media_id))


async def want(connection: Connection, asked: CloudPresignRequest, bucket: str, key: str) -> Picture | None:
    """The row of a picture that is to be sent. None when it is stored already or is another device's: nothing was changed."""
    row = await connection.fetchrow(
        _WANT, asked.tenant_id, asked.media_id, asked.farm_id, asked.barn_id, asked.device_id, asked.session_id,
        bucket, key, asked.mime_type, asked.size_bytes, asked.sha256.lower(), asked.captured_at,
    )  # fmt: skip
    return _picture(row)


async def announce(connection: Connection, announcements: Sequence[Announcement]) -> dict[tuple[str, UUID], str | None]:
    """At most one for each picture, ordered by tenant and id. Answers the checksums of the rows that were written."""
    columns = [
        [getattr(one, name) for one in announcements]
        for name in (
            "tenant_id", "media_id", "farm_id", "barn_id", "device_id", "session_id", "mime_type", "size_bytes", "sha256",
            "captured_at", "source_bucket", "source_object_key", "path", "occurred_at", "event_id", "trace_id",
        )
    ]  # fmt: skip
    rows = await connection.fetch(_ANNOUNCE, *columns)
    return {(row["tenant_id"], row["id"]): row["sha256"] for row in rows}


async def mark_stored(connection: Connection, picture: Picture, digest: Digest, at: datetime) -> None:
    await connection.execute(_STORED, picture.tenant_id, picture.media_id, at, digest.etag)


async def mark_missing(connection: Connection, picture: Picture, reason: str, at: datetime) -> None:
    await connection.execute(_MISSING, picture.tenant_id, picture.media_id, at, reason)


async def mark_verified(connection: Connection, tenant_id: str, media_id: UUID, at: datetime) -> None:
    await connection.execute(_VERIFIED, tenant_id, media_id, at)


async def adopt(connection: Connection, name: ObjectName, bucket: str, digest: Digest, at: datetime) -> bool:
    """A row for an object that has none. False when there is one for this picture after all."""
    row = await connection.fetchval(
        _ADOPT, name.tenant_id, name.media_id, name.farm_id, name.barn_id, name.device_id, bucket, name.key,
        name.mime_type, digest.size_bytes, digest.sha256.hex(), name.captured_on, at, digest.etag,
    )  # fmt: skip
    return bool(row)


async def refuse_thumbnail(connection: Connection, picture: Picture, code: str) -> None:
    await connection.execute(_NO_THUMBNAIL, picture.tenant_id, picture.media_id, code)


async def pictures(
    connection: Connection, filters: Filters, before: tuple[datetime, UUID] | None, limit: int
) -> list[Picture]:
    """Newest first."""
    given: list[object] = [limit]
    conditions = []
    for condition, value in filters.conditions():
        given.append(value)
        conditions.append(condition.format(f"${len(given)}"))
    if before is not None:
        conditions.append(f"(captured_at, id) < (${len(given) + 1}, ${len(given) + 2})")
        given.extend(before)
    rows = await connection.fetch(_LIST.format(conditions=" AND ".join(conditions)), *given)
    return [Picture(**dict(row)) for row in rows]


async def of_sessions(connection: Connection, tenant_id: str, session_ids: Sequence[UUID]) -> list[Picture]:
    return [Picture(**dict(row)) for row in await connection.fetch(_OF_SESSIONS, tenant_id, list(session_ids))]


async def of_ids(connection: Connection, tenant_id: str, media_ids: Sequence[UUID]) -> list[Picture]:
    return [Picture(**dict(row)) for row in await connection.fetch(_OF_IDS, tenant_id, list(media_ids))]


async def wanted(
    connection: Connection, tenant_ids: Sequence[str], after: tuple[str, UUID], announced_before: datetime, limit: int
) -> list[tuple[str, UUID]]:
    rows = await connection.fetch(_WANTED, list(tenant_ids), *after, announced_before, limit)
    return [(row["tenant_id"], row["id"]) for row in rows]


async def waiting(connection: Connection) -> list[Waiting]:
    return [Waiting(**dict(row)) for row in await connection.fetch(_WAITING)]


async def inventory(connection: Connection, bucket: str, after: str, limit: int) -> list[Expected]:
    """A page of the rows that have a place here, in byte order of their keys."""
    return [
        Expected(row["object_key"], row["size_bytes"], row["tenant_id"], row["id"], row["must_exist"], row["sha256"])
        for row in await connection.fetch(_INVENTORY, bucket, after, limit)
    ]


async def has_key(connection: Connection, bucket: str, key: str) -> bool:
    return bool(await connection.fetchval(_HAS_KEY, bucket, key))


async def count_old(connection: Connection, cutoff: datetime) -> int:
    return int(await connection.fetchval(_COUNT_OLD, cutoff))


async def lock_old(connection: Connection, cutoff: datetime, floor: datetime, limit: int) -> list[OldPicture]:
    """The oldest from `floor` on. One that somebody works on is passed over: the next run finds it."""
    return [OldPicture(**dict(row)) for row in await connection.fetch(_OLD, cutoff, floor, limit)]


async def forget(connection: Connection, gone: Sequence[OldPicture]) -> None:
    await connection.execute(_FORGET, [one.tenant_id for one in gone], [one.id for one in gone])


def _picture(row: Any) -> Picture | None:
    return None if row is None else Picture(**dict(row))
