"""A weigh station's world: its device, a real object store, and the edge's media store over HTTP."""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import aiohttp

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.media_store.main import serve
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectStore
from farmiq.kit.s3_settings import ObjectStoreSettings, open_store
from farmiq.timeseries.stream import Origin
from support.s3 import S3
from support.service_process import running

SERVICE = "edge-media-store"
ADMIN_TOKEN = "for-this-test-only"
STATION = Origin("demo", "farm-1", "barn-1", "scale-1")
CAPTURED_AT = datetime(2026, 5, 4, 10, 5, tzinfo=UTC)


def environment(database_url: str, s3: S3, **more: str) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "S3_ENDPOINT": s3.endpoint,
        "S3_ACCESS_KEY": s3.access_key,
        "S3_SECRET_KEY": s3.secret_key,
        "MEDIA_BUCKET": s3.bucket,
    } | more


def store_settings(s3: S3) -> ObjectStoreSettings:
    return ObjectStoreSettings(
        s3_endpoint=s3.endpoint, s3_access_key=s3.access_key, s3_secret_key=s3.secret_key, media_bucket=s3.bucket
    )


def objects_of(s3: S3) -> ObjectStore:
    return open_store(store_settings(s3))


async def register(pool: Pool, origin: Origin = STATION) -> str:
    """A device with its HTTP token."""
    token = f"token-of-{origin.tenant_id}-{origin.device_id}"
    async with pool.acquire() as connection:
        await devices.add(connection, origin, "weigh-station", devices.Credential("$7$unused", token))
    return token


def request_for(origin: Origin, data: bytes | None = None, /, **changes: Any) -> dict[str, Any]:
    """The documented body. With `data`, everything that lets the URL be the object store's own."""
    known = {} if data is None else {"contentLength": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {
        "tenantId": origin.tenant_id,
        "farmId": origin.farm_id,
        "barnId": origin.barn_id,
        "deviceId": origin.device_id,
        "traceId": "trace-1",
        "capturedAt": CAPTURED_AT.isoformat(),
        "contentType": "image/jpeg",
        **known,
        **changes,
    }


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def code(self) -> str | None:
        """Of an error."""
        return self.body["error"]["code"] if isinstance(self.body, dict) and "error" in self.body else None

    def with_url(self, url: str) -> "Answer":
        """What was presigned, at another address."""
        return Answer(self.status, {**self.body, "upload_url": url}, self.headers)


class Station:
    """One device with its token, as a client of the media store."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str, origin: Origin = STATION) -> None:
        self._session = session
        self.url = url
        self._token = token
        self.origin = origin

    def at(self, url: str) -> "Station":
        """The same station, at another replica."""
        return Station(self._session, url, self._token, self.origin)

    def beside(self, origin: Origin, token: str) -> "Station":
        """Another device at the same service."""
        return Station(self._session, self.url, token, origin)

    async def call(self, method: str, path: str, token: str | None = None, **options: Any) -> Answer:
        headers = {"authorization": f"Bearer {token or self._token}"}
        async with self._session.request(method, f"{self.url}{path}", headers=headers, **options) as answer:
            return Answer(answer.status, await answer.json(content_type=None), answer.headers)

    async def text(self, path: str) -> str:
        async with self._session.get(f"{self.url}{path}") as answer:
            return await answer.text()

    async def presign(self, data: bytes | None = None, /, **changes: Any) -> Answer:
        return await self.call("POST", "/api/v1/media/images/presign", json=request_for(self.origin, data, **changes))

    async def put(self, presigned: Answer, data: bytes, **headers: str) -> Answer:
        assert presigned.status == 200, presigned.body
        sent = {**presigned.body["required_headers"], **headers}
        async with self._session.put(presigned.body["upload_url"], data=data, headers=sent) as answer:
            text = await answer.text()
            return Answer(answer.status, json.loads(text) if text.startswith("{") else text, answer.headers)

    async def upload(self, data: bytes, *, is_told: bool = True, **changes: Any) -> UUID:
        """Presigned and put. Nobody is told of it."""
        presigned = await self.presign(data if is_told else None, **changes)
        put = await self.put(presigned, data)
        assert put.status == 200, put.body
        return UUID(presigned.body["media_id"])

    async def complete(self, media_id: UUID | str, **query: str) -> Answer:
        return await self.call("POST", f"/api/v1/media/images/{media_id}/complete", params=query)

    async def ask(self, path: str, token: str = ADMIN_TOKEN, **query: Any) -> Answer:
        return await self.call("GET", path, token=token, params=query)


@asynccontextmanager
async def station(
    pool: Pool, database_url: str, s3: S3, clock: Clock | None = None, /, **more: str
) -> AsyncIterator[Station]:
    """The service in this loop, and a registered station."""
    token = await register(pool)
    async with (
        running(serve, SERVICE, environment(database_url, s3, **more), clock) as url,
        aiohttp.ClientSession() as session,
    ):
        yield Station(session, url, token)


@asynccontextmanager
async def replica(of: Station, database_url: str, s3: S3, **more: str) -> AsyncIterator[Station]:
    """One more service, on the same database and object store."""
    async with running(serve, SERVICE, environment(database_url, s3, **more)) as url:
        yield of.at(url)


async def stored_events(pool: Pool) -> list[dict[str, Any]]:
    """Every `media.stored` of the outbox, with its payload."""
    rows = await pool.fetch("SELECT * FROM sync_outbox WHERE event_type = 'media.stored' ORDER BY occurred_at")
    return [{**dict(row), "payload": json.loads(bytes(row["payload_json"]))} for row in rows]


async def assert_stored_once(pool: Pool, media_ids: list[UUID]) -> None:
    """Each of these pictures is stored, told once, and followed once; and nothing else is."""
    wanted = sorted(media_ids)
    for statement in (
        "SELECT id FROM media_objects WHERE state = 'stored' ORDER BY id",
        "SELECT (payload_json->>'media_id')::uuid AS id FROM sync_outbox WHERE event_type = 'media.stored' ORDER BY 1",
        "SELECT media_id AS id FROM media_transfers ORDER BY 1",
    ):
        assert [row["id"] for row in await pool.fetch(statement)] == wanted, statement
