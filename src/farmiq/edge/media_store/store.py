"""Every SQL statement about pictures. The time of checks and of the devices' pace is the database's: replicas agree about it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from farmiq.contracts.timestamps import EARLIEST, LATEST
from farmiq.edge.disk import FAIR_PART
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.media_store.picture import NewPicture, Picture, picture_of
from farmiq.edge.media_store.retention import OldPicture
from farmiq.edge.media_store.screening import BytesOfDay, DayLimit
from farmiq.edge.media_store.verdicts import Sound
from farmiq.kit.day_digests import PICTURE_CONTENT, Digested
from farmiq.kit.due_times import first_due
from farmiq.kit.object_inventory import Expected
from farmiq.kit.postgres import Connection
from farmiq.timeseries.stream import Origin

COLUMNS = ", ".join("id AS media_id" if name == "media_id" else name for name in Picture.__struct_fields__)

_INTO = """
    INSERT INTO media_objects
           (id, tenant_id, farm_id, barn_id, device_id, station_id, session_id, bucket, object_key, mime_type, size_bytes,
            sha256, captured_at, expires_at, trace_id, upload_token_hash, next_check_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, now() + make_interval(secs => $17)
"""
_IS_HOLDER = devices.IS_HOLDER.format(hash="$19", tenant_id="$2", farm_id="$3", barn_id="$4", device_id="$5")
_TODAY = "(now() AT TIME ZONE 'UTC')::date"
_ADD_BYTES = f"""
    INSERT INTO media_bytes_of_day AS known (tenant_id, device_id, day, bytes) VALUES ($1, $2, {_TODAY}, $3)
    ON CONFLICT (tenant_id, device_id, day) DO UPDATE SET bytes = known.bytes + excluded.bytes
"""  # noqa: S608 - our own constants
_USED_TODAY = f"""
    SELECT coalesce(sum(bytes) FILTER (WHERE device_id = {{device_id}}), 0)::bigint AS of_device,
           coalesce(sum(bytes), 0)::bigint AS of_tenant,
           ceil(extract(epoch FROM ({_TODAY} + 1) AT TIME ZONE 'UTC' - now()))::int AS seconds_left
      FROM media_bytes_of_day WHERE tenant_id = {{tenant_id}} AND day = {_TODAY}
"""  # noqa: S608 - as above
_BYTES_OF_DAY = _USED_TODAY.format(tenant_id="$1", device_id="$2")
_MORE_THAN_ITS_PART = f"""
    SELECT coalesce(sum(bytes) FILTER (WHERE tenant_id = $1 AND device_id = $2), 0)
           > $3::float8 * sum(bytes) / count(DISTINCT (tenant_id, device_id))
      FROM media_bytes_of_day WHERE day BETWEEN {_TODAY} - 1 AND {_TODAY}
"""  # noqa: S608 - as above
_FORGET_DAYS = f"DELETE FROM media_bytes_of_day WHERE day NOT BETWEEN {_TODAY} - 7 AND {_TODAY} + 1"  # noqa: S608 - as above
# `used_to` runs ahead of the clock by one share of a minute for each URL, and by a minute at most: what lies further ahead was
# written by a clock that was ahead itself. One statement is one
# transaction and one way to the database: a station waits for this before each picture. The bytes of the day are as they were
# when the statement began, so URLs that are asked for at the same moment may each be the last.
_USED_TO = "CASE WHEN pace.used_to <= clock_timestamp() + interval '1 minute' THEN pace.used_to END"
_ADD_IN_TURN = f"""
    WITH used AS ({_USED_TODAY.format(tenant_id="$2", device_id="$5")}),
    turn AS (
      INSERT INTO media_presign_pace AS pace (device_id, used_to)
      SELECT $5, clock_timestamp() + interval '1 minute' / $18::int
        FROM used
       WHERE {_IS_HOLDER}
         AND of_device + coalesce($11::bigint, 0) <= $20::bigint AND of_tenant + coalesce($11::bigint, 0) <= $21::bigint
      ON CONFLICT (device_id) DO UPDATE
         SET used_to = greatest({_USED_TO}, clock_timestamp()) + interval '1 minute' / $18::int
       WHERE greatest({_USED_TO}, clock_timestamp()) + interval '1 minute' / $18::int
             <= clock_timestamp() + interval '1 minute'
      RETURNING true),
    counted AS (
      INSERT INTO media_bytes_of_day AS known (tenant_id, device_id, day, bytes)
      SELECT $2, $5, {_TODAY}, $11 FROM turn WHERE $11::bigint > 0
      ON CONFLICT (tenant_id, device_id, day) DO UPDATE SET bytes = known.bytes + excluded.bytes)
    {_INTO} FROM turn RETURNING true
"""  # noqa: S608 - our own constants
_TURN_IN = f"""
    SELECT extract(epoch FROM {_USED_TO} + interval '1 minute' / $2::int - interval '1 minute' - clock_timestamp())::float8
      FROM media_presign_pace AS pace WHERE device_id = $1
"""  # noqa: S608 - our own constants
_OF_DEVICE = f"SELECT {COLUMNS} FROM media_objects WHERE id = $1 AND tenant_id = $2 AND device_id = $3"  # noqa: S608 - our own constants
_OF_TENANT = f"SELECT {COLUMNS} FROM media_objects WHERE id = $1 AND tenant_id = $2"  # noqa: S608 - our own constants
_LOCK = f"SELECT {COLUMNS} FROM media_objects WHERE id = $1 FOR UPDATE"  # noqa: S608 - our own constants
# In the order of the ids: two transactions that name the same pictures must not wait for each other.
_LOCK_ALL = f"SELECT {COLUMNS} FROM media_objects WHERE id = ANY ($1) ORDER BY id FOR UPDATE"  # noqa: S608 - our own constants
_BY_TOKEN = f"SELECT {COLUMNS} FROM media_objects WHERE id = $1 AND upload_token_hash = $2"  # noqa: S608 - our own constants
_CLAIM_BODY = """
    UPDATE media_objects SET size_bytes = $2, sha256 = $3
     WHERE id = $1 AND state = 'presigned' AND coalesce(size_bytes, $2) = $2 AND coalesce(sha256, $3) = $3
    RETURNING true
"""
# What was declared lost stays lost, as a sample does: nobody counts it twice.
_MAY_RETURN = "(state = 'missing' AND declared_lost_at IS NULL)"
_ANNOUNCE = f"""
    UPDATE media_objects
       SET announced_at = coalesce(announced_at, now()), session_id = coalesce(session_id, $2),
           size_bytes = CASE WHEN state IN ('presigned', 'missing') THEN coalesce(size_bytes, $3) ELSE size_bytes END,
           sha256 = CASE WHEN state IN ('presigned', 'missing') THEN coalesce(sha256, $4) ELSE sha256 END,
           checks = CASE WHEN state = 'missing' OR announced_at IS NULL THEN 0 ELSE checks END,
           next_check_at = CASE WHEN state = 'presigned' OR {_MAY_RETURN} THEN now() + make_interval(secs => $5) END,
           state = CASE WHEN {_MAY_RETURN} THEN 'presigned' ELSE state END,
           declare_at = CASE WHEN {_MAY_RETURN} THEN NULL ELSE declare_at END,
           captured_at = CASE WHEN is_adopted THEN coalesce($6, captured_at) ELSE captured_at END,
           is_adopted = is_adopted AND $6 IS NULL
     WHERE id = $1
"""  # noqa: S608 - our own constants
_ADOPTED = "UPDATE media_objects SET is_adopted = true WHERE id = $1"
_LOOK_IN = """
    UPDATE media_objects SET next_check_at = now() + make_interval(secs => $2) WHERE id = $1 AND state = 'presigned'
"""
_BIND = "UPDATE media_objects SET session_id = $2 WHERE id = $1"
_CLAIM_DUE = f"""
    UPDATE media_objects SET next_check_at = now() + make_interval(secs => $2), checks = checks + 1
     WHERE ctid = ANY ({first_due("media_objects", "state = 'presigned'", "next_check_at", limit="$1", now="now()")})
    RETURNING {COLUMNS}
"""  # noqa: S608 - our own constants
# Only whoever still holds the claim: an announcement that came meanwhile has its own time.
_CHECK_AGAIN = """
    UPDATE media_objects SET next_check_at = now() + make_interval(secs => $3), checks = greatest(checks - $4, 0)
     WHERE id = $1 AND state = 'presigned' AND next_check_at = $2
"""
_MARK_STORED = f"""
    UPDATE media_objects
       SET state = 'stored', size_bytes = $2, sha256 = $3, width_px = $4, height_px = $5, stored_at = $6, verified_at = $6,
           sent_size_bytes = $7, sent_sha256 = $8,
           next_check_at = NULL, upload_token_hash = NULL
     WHERE id = $1
    RETURNING {COLUMNS}
"""  # noqa: S608 - our own constants
_FORGET = "DELETE FROM media_objects WHERE id = $1"
_COUNTS = """
    SELECT count(*) FILTER (WHERE announced_at IS NULL) AS presigned,
           count(*) FILTER (WHERE announced_at IS NOT NULL) AS awaited,
           (SELECT count(*) FROM media_objects WHERE state = 'refused') AS refused,
           (SELECT count(*) FROM media_objects WHERE state = 'missing') AS missing
      FROM media_objects WHERE state = 'presigned'
"""
_OLD = """
    SELECT id, tenant_id, bucket, object_key, session_id, kept_from FROM media_objects
     WHERE state <> 'presigned' AND kept_from < $1 AND (kept_from, id) > ($2, $3)
       AND (state <> 'refused' OR object_removed_at IS NOT NULL)
       AND (declare_at IS NULL OR (announced_at IS NULL AND stored_at IS NULL))
     ORDER BY kept_from, id LIMIT $4
"""
_OLD_REFUSED = """
    SELECT id, tenant_id, bucket, object_key, session_id, kept_from
      FROM (SELECT *, sum(size_bytes) OVER (PARTITION BY tenant_id, device_id ORDER BY refused_at DESC, id) AS bytes_since
              FROM media_objects WHERE state = 'refused' AND object_removed_at IS NULL) AS refused
     WHERE refused_at <= $1 OR bytes_since > $3 ORDER BY refused_at LIMIT $2
"""
_NOTE_REMOVED = "UPDATE media_objects SET object_removed_at = now() WHERE id = ANY ($1) AND state = 'refused'"
# Not one that was announced once more meanwhile, and is being looked for again.
_DELETE_ROWS = "DELETE FROM media_objects WHERE id = ANY ($1) AND state <> 'presigned'"
_TROUBLES = """
    SELECT count(*) FILTER (WHERE state = 'refused' AND object_removed_at IS NULL) AS refused,
           count(*) FILTER (WHERE state = 'missing' AND declared_lost_at IS NULL) AS missing
      FROM media_objects WHERE tenant_id = $1 AND state IN ('refused', 'missing')
"""
_EXPECTED = """
    SELECT object_key, CASE WHEN state = 'stored' THEN size_bytes END AS size_bytes, tenant_id, id, state = 'stored',
           CASE WHEN state = 'stored' THEN sha256 END
      FROM media_objects WHERE bucket = $1 AND object_key COLLATE "C" > $2 ORDER BY object_key COLLATE "C" LIMIT $3
"""
_MISSING_IDS = f"SELECT id FROM media_objects WHERE {_MAY_RETURN} AND bucket = $1"  # noqa: S608 - our own constants
_TALLY = """
    SELECT session_id, count(*) FILTER (WHERE state = 'stored') AS stored,
           count(*) FILTER (WHERE state = 'presigned' AND announced_at IS NOT NULL) AS awaited,
           count(*) FILTER (WHERE state = 'presigned' AND announced_at IS NULL) AS presigned,
           count(*) FILTER (WHERE state = 'refused') AS refused,
           count(*) FILTER (WHERE state = 'missing') AS missing,
           count(*) FILTER (WHERE declared_lost_at IS NOT NULL) AS lost
      FROM media_objects WHERE tenant_id = $1 AND session_id = ANY ($2) GROUP BY session_id
"""


async def add_in_turn(
    connection: Connection,
    new: NewPicture,
    token_hash: bytes,
    *,
    per_minute: int,
    first_check_seconds: float,
    day_limit: DayLimit,
) -> bool:
    """True when the picture is there: the token is that of its device, the device had its turn, and its bytes have room today."""
    values = _values(new, first_check_seconds)
    limits = (day_limit.of_device, day_limit.of_tenant)
    return bool(await connection.fetchval(_ADD_IN_TURN, *values, per_minute, token_hash, *limits))


async def has_more_than_its_part(connection: Connection, origin: Origin) -> bool:
    """Of the picture bytes of today and yesterday, of all tenants."""
    return bool(await connection.fetchval(_MORE_THAN_ITS_PART, origin.tenant_id, origin.device_id, FAIR_PART))


async def bytes_of_day(connection: Connection, origin: Origin) -> BytesOfDay:
    row = await connection.fetchrow(_BYTES_OF_DAY, origin.tenant_id, origin.device_id)
    assert row is not None  # noqa: S101 - a select of sums has its one row
    return BytesOfDay(*row)


async def add_bytes(connection: Connection, origin: Origin, size_bytes: int) -> None:
    await connection.execute(_ADD_BYTES, origin.tenant_id, origin.device_id, size_bytes)


async def turn_in_seconds(connection: Connection, device_id: str, per_minute: int) -> float:
    """After how long a device that came too fast may ask again."""
    return max(1.0, await connection.fetchval(_TURN_IN, device_id, per_minute) or 0.0)


async def add(connection: Connection, new: NewPicture, *, first_check_seconds: float) -> None:
    await connection.execute(_INTO, *_values(new, first_check_seconds))


async def mark_adopted(connection: Connection, media_id: UUID) -> None:
    """Its row was made from the key of its object."""
    await connection.execute(_ADOPTED, media_id)


async def of_device(connection: Connection, media_id: UUID, origin: Origin) -> Picture | None:
    return _one(await connection.fetchrow(_OF_DEVICE, media_id, origin.tenant_id, origin.device_id))


async def of_tenant(connection: Connection, media_id: UUID, tenant_id: str) -> Picture | None:
    return _one(await connection.fetchrow(_OF_TENANT, media_id, tenant_id))


async def by_token(connection: Connection, media_id: UUID, token_hash: bytes) -> Picture | None:
    return _one(await connection.fetchrow(_BY_TOKEN, media_id, token_hash))


async def claim_body(connection: Connection, media_id: UUID, size_bytes: int, sha256: str) -> bool:
    """From now on the picture is these bytes and no others. False when it is others already, or was dealt with."""
    return bool(await connection.fetchval(_CLAIM_BODY, media_id, size_bytes, sha256))


async def lock(connection: Connection, media_id: UUID) -> Picture | None:
    return _one(await connection.fetchrow(_LOCK, media_id))


async def lock_all(connection: Connection, media_ids: Sequence[UUID]) -> dict[UUID, Picture]:
    rows = await connection.fetch(_LOCK_ALL, list(media_ids))
    return {row["media_id"]: picture_of(row) for row in rows}


async def announce(
    connection: Connection,
    media_id: UUID,
    *,
    session_id: UUID | None = None,
    size_bytes: int | None = None,
    sha256: str | None = None,
    check_in_seconds: float = 0.0,
    captured_at: datetime | None = None,
) -> None:
    """Somebody says that it is there. What was known of it stays; what was not is filled in."""
    await connection.execute(_ANNOUNCE, media_id, session_id, size_bytes, sha256, check_in_seconds, captured_at)


async def look_in(connection: Connection, media_id: UUID, seconds: float) -> None:
    """Whether or not anybody said that it is there. One that is settled stays as it is."""
    await connection.execute(_LOOK_IN, media_id, seconds)


async def bind(connection: Connection, media_id: UUID, session_id: UUID) -> None:
    await connection.execute(_BIND, media_id, session_id)


async def claim_due(connection: Connection, limit: int, lease_seconds: float) -> list[Picture]:
    """Those to look for now. Nobody else looks for them until the lease is over."""
    return [picture_of(row) for row in await connection.fetch(_CLAIM_DUE, limit, lease_seconds)]


async def check_again(connection: Connection, picture: Picture, seconds: float, *, was_looked_for: bool = True) -> None:
    """A look that the object store did not answer counts as none."""
    await connection.execute(_CHECK_AGAIN, picture.media_id, picture.next_check_at, seconds, 0 if was_looked_for else 1)


async def mark_stored(connection: Connection, media_id: UUID, sound: Sound, at: datetime) -> Picture:
    row = await connection.fetchrow(
        _MARK_STORED, media_id, sound.size_bytes, sound.sha256, sound.width_px, sound.height_px, at,
        sound.sent_size_bytes, sound.sent_sha256,
    )  # fmt: skip
    assert row is not None  # noqa: S101 - the caller holds the row's lock
    return picture_of(row)


async def forget(connection: Connection, media_id: UUID) -> None:
    await connection.execute(_FORGET, media_id)


async def counts(connection: Connection) -> dict[str, int]:
    """How many pictures are in each state but the good one."""
    return dict(await connection.fetchrow(_COUNTS) or {})


async def old_pictures(
    connection: Connection, before: datetime, after: OldPicture | None, limit: int
) -> list[OldPicture]:
    """Oldest first, from behind `after`."""
    position = (EARLIEST, UUID(int=0)) if after is None else (after.kept_from, after.media_id)
    return [OldPicture(*row) for row in await connection.fetch(_OLD, before, *position, limit)]


async def old_refused(
    connection: Connection, before: datetime, limit: int, bytes_of_device_max: int
) -> list[OldPicture]:
    """Those refused before that time, and of each device those beyond its newest bytes."""
    rows = await connection.fetch(_OLD_REFUSED, before, limit, bytes_of_device_max)
    return [OldPicture(*row) for row in rows]


async def forget_days(connection: Connection) -> None:
    """How many bytes there were on days that count no longer."""
    await connection.execute(_FORGET_DAYS)


async def note_removed(connection: Connection, media_ids: Sequence[UUID]) -> None:
    await connection.execute(_NOTE_REMOVED, list(media_ids))


async def delete_rows(connection: Connection, media_ids: Sequence[UUID]) -> None:
    await connection.execute(_DELETE_ROWS, list(media_ids))


async def troubles(connection: Connection, tenant_id: str) -> asyncpg.Record:
    row = await connection.fetchrow(_TROUBLES, tenant_id)
    assert row is not None  # noqa: S101 - a select of counts has its one row
    return row


async def expected(connection: Connection, bucket: str, page_rows: int = 1000) -> AsyncIterator[Expected]:
    """Where an object must be, or may be, in byte order of the keys."""
    last = ""
    while rows := await connection.fetch(_EXPECTED, bucket, last, page_rows):
        for row in rows:
            yield Expected(*row)
        last = rows[-1]["object_key"]


async def missing_ids(connection: Connection, bucket: str) -> set[UUID]:
    return {row["id"] for row in await connection.fetch(_MISSING_IDS, bucket)}


async def tally(connection: Connection, tenant_id: str, session_ids: Sequence[UUID]) -> list[asyncpg.Record]:
    return await connection.fetch(_TALLY, tenant_id, list(session_ids))


async def page(
    connection: Connection,
    tenant_id: str,
    filters: Mapping[str, object],
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Picture]:
    """Newest first. `filters` are columns of ours with the value that each must have; `awaited` is a state here too."""
    at, after_id = after or (LATEST, UUID(int=2**128 - 1))
    conditions = [_condition(name, number) for number, name in enumerate(filters, 5)]
    statement = f"""
        SELECT {COLUMNS} FROM media_objects
         WHERE tenant_id = $1 AND (captured_at, id) < ($2, $3) {" ".join(conditions)}
         ORDER BY captured_at DESC, id DESC LIMIT $4
    """  # noqa: S608 - column names and conditions are the constants below
    rows = await connection.fetch(statement, tenant_id, at, after_id, limit, *filters.values())
    return [picture_of(row) for row in rows]


DIGESTED = Digested(
    "media_objects",
    at="captured_at",
    state="state",
    content=PICTURE_CONTENT.format("coalesce(sent_sha256, sha256, '')"),
)
_CONDITIONS = {
    "session_id": "AND session_id = ${}",
    "device_id": "AND device_id = ${}",
    "since": "AND captured_at >= ${}",
    "until": "AND captured_at < ${}",
    "state": "AND CASE WHEN state = 'presigned' AND announced_at IS NOT NULL THEN 'awaited' ELSE state END = ${}",
}


def _condition(name: str, number: int) -> str:
    return _CONDITIONS[name].format(number)


def _values(new: NewPicture, first_check_seconds: float) -> tuple[object, ...]:
    origin = new.origin
    return (
        new.media_id, origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id, new.station_id,
        new.session_id, new.bucket, new.object_key, new.mime_type, new.size_bytes, new.sha256, new.captured_at,
        new.expires_at, new.trace_id, new.upload_token_hash, first_check_seconds,
    )  # fmt: skip


def _one(row: asyncpg.Record | None) -> Picture | None:
    return None if row is None else picture_of(row)
