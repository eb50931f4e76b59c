"""`cloud-media-store` as edges, readers and the bus see it: a real service over a real database, object store and broker."""

import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import msgspec

from farmiq.cloud import viewers
from farmiq.cloud.ingestion import edges
from farmiq.cloud.media_store.main import serve
from farmiq.cloud.media_store.topology import topology
from farmiq.contracts import bus, event_types
from farmiq.contracts.media import CloudPresignRequest, MediaStored
from farmiq.kit.amqp import Publisher
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectStore
from support.picture_files import picture
from support.s3 import S3
from support.service_process import running

SERVICE = "cloud-media-store"
ADMIN_TOKEN = secrets.token_urlsafe(24)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def environ(cloud_url: str, amqp_url: str, s3: S3, **more: str) -> dict[str, str]:
    return {
        "DATABASE_URL": cloud_url,
        "AMQP_URL": amqp_url,
        "S3_ENDPOINT": s3.endpoint,
        "S3_ACCESS_KEY": s3.access_key,
        "S3_SECRET_KEY": s3.secret_key,
        "MEDIA_BUCKET": s3.bucket,
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "JOB_SCHEDULER_ENABLED": "false",
        **more,
    }


@dataclass(frozen=True)
class Shot:
    """A picture at an edge."""

    asked: CloudPresignRequest
    body: bytes

    @property
    def media_id(self) -> UUID:
        return self.asked.media_id

    def event(self, **changes: Any) -> dict[str, Any]:
        """Its `media.stored`."""
        asked = self.asked
        payload = MediaStored(
            media_id=asked.media_id,
            mime_type=asked.mime_type,
            size_bytes=asked.size_bytes,
            bucket="farmiq-media",
            object_key=f"edge/{asked.media_id}.jpg",
            sha256=asked.sha256,
            captured_at=asked.captured_at,
        )
        return {
            "event_id": str(new_id()),
            "event_type": event_types.MEDIA_STORED,
            "tenant_id": asked.tenant_id,
            "farm_id": asked.farm_id,
            "barn_id": asked.barn_id,
            "device_id": asked.device_id,
            "session_id": None if asked.session_id is None else str(asked.session_id),
            "occurred_at": "2026-01-01T12:00:05Z",
            "trace_id": "trace-1",
            "payload": msgspec.to_builtins(payload),
            **changes,
        }


def shot(body: bytes | None = None, **changes: Any) -> Shot:
    body = picture() if body is None else body
    given: dict[str, Any] = {
        "tenant_id": "demo",
        "media_id": new_id(),
        "farm_id": "farm-1",
        "barn_id": "barn-1",
        "device_id": "station-1",
        "mime_type": "image/jpeg",
        "size_bytes": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "captured_at": NOON,
    }
    return Shot(CloudPresignRequest(**(given | changes)), body)


class MediaCloud:
    """`token` is the edge's, `viewer` a reader's; both are for tenant `demo` alone."""

    def __init__(self, url: str, session: aiohttp.ClientSession, pool: Pool, store: ObjectStore, bucket: str) -> None:
        self.url = url
        self.session = session
        self.pool = pool
        self.store = store
        self.bucket = bucket
        self.token = ""
        self.viewer = ""

    async def new_edge(self, *tenant_ids: str) -> str:
        """The token of one more edge."""
        async with self.pool.acquire() as connection:
            return (await edges.add(connection, f"edge-{secrets.token_hex(4)}", tenant_ids)).token

    async def new_viewer(self, *tenant_ids: str) -> str:
        async with self.pool.acquire() as connection:
            return (await viewers.add(connection, f"viewer-{secrets.token_hex(4)}", tenant_ids)).token

    async def presign(self, one: Shot, token: str | None = None) -> tuple[int, Any]:
        body = msgspec.json.encode(one.asked)
        return await self.call("POST", "/api/v1/media/presign", token or self.token, data=body)

    async def complete(self, one: Shot, token: str | None = None, tenant_id: str | None = None) -> tuple[int, Any]:
        path = f"/api/v1/media/{one.media_id}/complete?tenant_id={tenant_id or one.asked.tenant_id}"
        return await self.call("POST", path, token or self.token)

    async def put(self, answer: Mapping[str, Any], body: bytes) -> int:
        async with self.session.put(answer["upload_url"], data=body, headers=answer["required_headers"]) as said:
            return said.status

    async def upload(self, one: Shot) -> None:
        status, answer = await self.presign(one)
        assert (status, answer["state"]) == (200, "wanted"), answer
        assert await self.put(answer, one.body) == 200

    async def send(self, one: Shot) -> None:
        await self.upload(one)
        assert await self.complete(one) == (200, {"state": "stored"})

    async def read(self, path: str, token: str | None = None, **query: Any) -> tuple[int, Any]:
        given = {"tenant_id": "demo", **query}
        return await self.call("GET", f"/api/v1/media{path}", token or self.viewer, params=given)

    async def call(self, method: str, path: str, token: str, **options: Any) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        async with self.session.request(
            method, f"{self.url}{path}", headers=headers, allow_redirects=False, **options
        ) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.read())

    async def row(self, one: Shot) -> asyncpg.Record:
        found = await self.pool.fetchrow(
            "SELECT * FROM media_objects WHERE tenant_id = $1 AND id = $2", one.asked.tenant_id, one.media_id
        )
        assert found is not None
        return found

    async def key(self, one: Shot) -> str:
        return str((await self.row(one))["object_key"])


async def publish(amqp_url: str, *events: Mapping[str, Any]) -> None:
    """As cloud-ingestion does."""
    publisher = Publisher(amqp_url, name="test", topology=topology())
    await publisher.start()
    try:
        await publisher.wait_connected()
        for event in events:
            kind = event["event_type"]
            body = msgspec.json.encode(event)
            await publisher.publish(bus.exchange_for(kind), kind, body, message_id=str(event["event_id"]))
    finally:
        await publisher.stop()


@asynccontextmanager
async def media_cloud(
    pool: Pool, variables: Mapping[str, str], s3: S3, clock: Clock | None = None, url: str | None = None
) -> AsyncIterator[MediaCloud]:
    """The service in this loop, or the one that answers at `url`."""
    store = ObjectStore(s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
    try:
        async with aiohttp.ClientSession() as session:
            if url is not None:
                yield await _known(MediaCloud(url, session, pool, store, s3.bucket))
                return
            async with running(serve, SERVICE, variables, clock) as here:
                yield await _known(MediaCloud(here, session, pool, store, s3.bucket))
    finally:
        store.close()


async def _known(cloud: MediaCloud) -> MediaCloud:
    cloud.token, cloud.viewer = await cloud.new_edge("demo"), await cloud.new_viewer("demo")
    return cloud
