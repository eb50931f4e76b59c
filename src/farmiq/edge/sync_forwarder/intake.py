"""What other services of the edge may call: inside their transaction, never by SQL of their own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.kit.postgres import Connection

_FOLLOW: Final = """
INSERT INTO media_transfers (media_id, tenant_id, farm_id, barn_id, device_id, session_id, bucket, object_key, mime_type,
                             size_bytes, sha256, captured_at, trace_id, stored_size_bytes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (media_id, tenant_id) DO UPDATE SET
  state = 'pending', attempt_count = 0, next_attempt_at = clock_timestamp(), last_error_code = NULL, last_error_message = NULL,
  failed_at = NULL, updated_at = clock_timestamp()
WHERE media_transfers.state = 'failed'
"""
# Releases before this one forgot pictures that had been sent for a while, and nobody knows whether the cloud still has them.
_FOLLOW_AGAIN: Final = """
INSERT INTO media_transfers (media_id, tenant_id, farm_id, barn_id, device_id, session_id, bucket, object_key, mime_type,
                             size_bytes, sha256, captured_at, trace_id, stored_size_bytes)
SELECT id, tenant_id, farm_id, barn_id, device_id, session_id, bucket, object_key, mime_type,
       coalesce(sent_size_bytes, size_bytes), coalesce(sent_sha256, sha256), captured_at, trace_id,
       CASE WHEN sent_sha256 IS NOT NULL THEN size_bytes END
FROM media_objects JOIN unnest($1::text[], $2::uuid[]) AS given (tenant_id, id) USING (tenant_id, id)
WHERE state = 'stored'
ON CONFLICT (media_id, tenant_id) DO NOTHING
"""
_GIVE_UP: Final = "DELETE FROM media_transfers WHERE media_id = ANY ($1) AND state IN ('pending', 'failed')"
_FOLLOW_ALL_AGAIN: Final = _FOLLOW_AGAIN.replace(
    "JOIN unnest($1::text[], $2::uuid[]) AS given (tenant_id, id) USING (tenant_id, id)\nWHERE",
    "WHERE tenant_id = $1 AND",
)
UNHEARD_HOURS_MAX: Final = 24
UNSURE: Final = f"""
({{state}}.cloud_epoch IS NOT NULL AND ({{state}}.resend_to IS NOT NULL OR {{state}}.cloud_heard_at IS NULL
  OR NOT {{state}}.cloud_heard_at BETWEEN clock_timestamp() - interval '{UNHEARD_HOURS_MAX} hours'
                                  AND clock_timestamp() + interval '{UNHEARD_HOURS_MAX} hours'))
"""
"""Of a row of `sync_state`: nobody knows whether the cloud still has what it acknowledged. One without epochs can't say."""

_STATES: Final = f"""
SELECT media_id,
       CASE WHEN t.state = 'sent' AND coalesce({UNSURE.format(state="s")}, false) THEN 'unsure' ELSE t.state END AS state
FROM media_transfers AS t LEFT JOIN sync_state AS s ON s.tenant_id = t.tenant_id
WHERE media_id = ANY ($1)
"""  # noqa: S608 - a constant
_NOT_IN_CLOUD: Final = f"""
SELECT m.id FROM media_objects AS m
LEFT JOIN media_transfers AS t ON t.media_id = m.id AND t.tenant_id = m.tenant_id
LEFT JOIN sync_state AS s ON s.tenant_id = m.tenant_id
WHERE m.id = ANY ($1) AND m.state = 'stored' AND (t.state IS DISTINCT FROM 'sent' OR coalesce({UNSURE.format(state="s")}, false))
"""  # noqa: S608 - a constant
_REVISION_FLOOR: Final = """
SELECT is_restored, coalesce(cloud_answer, 0) AS answer, cloud_epoch IS NOT NULL AND cloud_heard_at IS NULL AS is_unheard
FROM edge_identity LEFT JOIN sync_state ON tenant_id = $1
"""
_ANY_UNSURE: Final = f"SELECT EXISTS (SELECT FROM sync_state AS s WHERE {UNSURE.format(state='s')})"  # noqa: S608 - as above


class PictureToSend(Struct, frozen=True, kw_only=True):
    """A picture that is whole in the edge's object store. `sha256` is in hexadecimal.

    `stored_size_bytes`: the stored picture is this large and has notes of its camera, which stay at the edge; size and checksum
    are of the rest."""

    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    session_id: UUID | None
    media_id: UUID
    bucket: str
    object_key: str
    mime_type: str
    size_bytes: int
    sha256: str
    captured_at: datetime
    trace_id: str | None
    stored_size_bytes: int | None = None


async def follow_picture(connection: Connection, picture: PictureToSend) -> None:
    """The picture follows its `media.stored` to the cloud, once, however often this is called for it. One whose transfer was
    given up, because it was missing here, begins anew.

    Wake the forwarder after the commit, as for any event: `outbox.Announcer.announce`.
    """
    await connection.execute(
        _FOLLOW,
        picture.media_id,
        picture.tenant_id,
        picture.farm_id,
        picture.barn_id,
        picture.device_id,
        picture.session_id,
        picture.bucket,
        picture.object_key,
        picture.mime_type,
        picture.size_bytes,
        picture.sha256,
        picture.captured_at,
        picture.trace_id,
        picture.stored_size_bytes,
    )


async def follow_all_again(connection: Connection, tenant_id: str) -> int:
    """As `follow_again`, of all pictures of a tenant."""
    tag = await connection.execute(_FOLLOW_ALL_AGAIN, tenant_id)
    return int(tag.rpartition(" ")[2])


async def transfers_of(connection: Connection, media_ids: Sequence[UUID]) -> dict[UUID, str]:
    """The states of these pictures' transfers, of those that have one. `unsure`: sent to a cloud that may have lost it since."""
    return {row["media_id"]: row["state"] for row in await connection.fetch(_STATES, list(media_ids))}


async def give_up_transfers(connection: Connection, media_ids: Sequence[UUID]) -> None:
    """These pictures were declared lost: there is nothing to send."""
    await connection.execute(_GIVE_UP, list(media_ids))


async def not_in_cloud(connection: Connection, media_ids: Sequence[UUID]) -> set[UUID]:
    """Which of these pictures the cloud does not have, as far as is known: whoever deletes old ones at the edge keeps them."""
    return {row["id"] for row in await connection.fetch(_NOT_IN_CLOUD, list(media_ids))}


async def revision_floor(connection: Connection, tenant_id: str) -> int | None:
    """0 in a database that never was restored. In one that was, a number above every revision that was sent before: the number of
    the cloud's last answer only grows. None until the cloud has answered this database."""
    row = await connection.fetchrow(_REVISION_FLOOR, tenant_id)
    assert row is not None  # noqa: S101 - the migration makes the one row of edge_identity
    if not row["is_restored"]:
        return 0
    return None if row["is_unheard"] else row["answer"] + 1


async def is_cloud_unsure(connection: Connection) -> bool:
    """Whether the cloud may have lost something of any tenant: it has not been heard for a day, or what it lost is still being
    sent again. Whoever deletes old measurements at the edge keeps them."""
    return bool(await connection.fetchval(_ANY_UNSURE))


async def follow_again(connection: Connection, tenant_ids: Sequence[str], media_ids: Sequence[UUID]) -> int:
    """Those of these pictures that are here and of which nothing is known follow as if they were new; how many.

    The cloud is asked first, and says so of those that it has."""
    tag = await connection.execute(_FOLLOW_AGAIN, list(tenant_ids), list(media_ids))
    return int(tag.rpartition(" ")[2])
