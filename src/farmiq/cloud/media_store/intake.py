"""What other services of the cloud may call: inside their transaction, never by SQL of their own."""

from collections.abc import Sequence
from uuid import UUID

from farmiq.cloud.media_store import store
from farmiq.cloud.media_store.picture import Picture
from farmiq.kit.postgres import Connection

__all__ = ["Picture", "pictures_named", "pictures_of"]


async def pictures_of(connection: Connection, tenant_id: str, session_ids: Sequence[UUID]) -> dict[UUID, list[Picture]]:
    """The pictures that were sent as a session's, the first taken first. Every session that was asked for is in the answer."""
    found: dict[UUID, list[Picture]] = {session_id: [] for session_id in session_ids}
    for picture in await store.of_sessions(connection, tenant_id, session_ids):
        if picture.session_id is not None:
            found[picture.session_id].append(picture)
    return found


async def pictures_named(connection: Connection, tenant_id: str, media_ids: Sequence[UUID]) -> dict[UUID, Picture]:
    """Those of these that are known. For pictures that a session claimed after they were sent, which carry no session here."""
    return {picture.media_id: picture for picture in await store.of_ids(connection, tenant_id, media_ids)}
