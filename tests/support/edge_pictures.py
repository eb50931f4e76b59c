"""Pictures in the edge's object store, and the rows that let them follow their event."""

import hashlib
import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from farmiq.edge.sync_forwarder.intake import PictureToSend, follow_picture
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectStore
from support.s3 import S3

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class EdgePictures:
    def __init__(self, pool: Pool, s3: S3) -> None:
        self._pool = pool
        self._s3 = s3
        self.store = ObjectStore(s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)

    async def keep(self, size_bytes: int = 50_000, tenant_id: str = "demo", **changes: Any) -> tuple[UUID, bytes]:
        """Into the store, and its row into `media_transfers`."""
        body = random.Random(size_bytes).randbytes(size_bytes)
        picture = self.picture(body, tenant_id, **changes)
        await self.store.put(picture.bucket, picture.object_key, body, content_type="image/jpeg")
        await self.follow(picture)
        return picture.media_id, body

    def picture(self, body: bytes, tenant_id: str = "demo", **changes: Any) -> PictureToSend:
        media_id = changes.pop("media_id", None) or new_id()
        given: dict[str, Any] = {
            "tenant_id": tenant_id,
            "farm_id": "farm-1",
            "barn_id": "barn-1",
            "device_id": "station-1",
            "session_id": None,
            "media_id": media_id,
            "bucket": self._s3.bucket,
            "object_key": f"tenants/{tenant_id}/images/{media_id}.jpg",
            "mime_type": "image/jpeg",
            "size_bytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
            "captured_at": NOON,
            "trace_id": "trace-7",
        }
        return PictureToSend(**(given | changes))

    async def follow(self, picture: PictureToSend) -> None:
        async with self._pool.acquire() as connection:
            await follow_picture(connection, picture)


async def transfer_row(pool: Pool, media_id: UUID) -> asyncpg.Record:
    row = await pool.fetchrow("SELECT * FROM media_transfers WHERE media_id = $1", media_id)
    assert row is not None
    return row


async def transfers_by_state(pool: Pool) -> dict[str, int]:
    rows = await pool.fetch("SELECT state, count(*) FROM media_transfers GROUP BY state")
    return {row["state"]: row["count"] for row in rows}


def picture_environ(s3: S3, media_url: str, **more: str) -> dict[str, str]:
    return {
        "CLOUD_MEDIA_URL": media_url,
        "S3_ENDPOINT": s3.endpoint,
        "S3_ACCESS_KEY": s3.access_key,
        "S3_SECRET_KEY": s3.secret_key,
        "MEDIA_SYNC_BYTES_PER_SECOND": "0",
        **more,
    }
