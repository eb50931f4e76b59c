"""A peer for the picture lane: a real HTTP server that presigns and completes as cloud-media-store does, on a real object store.

What a test wants otherwise it puts into `presign_script`, `complete_script`, or into `put`, which makes the server take the
bytes itself.
"""

import hashlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import pytest_asyncio
from aiohttp import web

from farmiq.contracts.decoding import encode, parse
from farmiq.contracts.media import CloudMediaState, CloudPresignAnswer, CloudPresignRequest
from farmiq.kit.clock import Clock
from farmiq.kit.s3 import ObjectMissing, ObjectStore
from support.s3 import S3
from support.scripted_cloud import TOKEN

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BYTES_MAX = 64 * 1024 * 1024
FOLDER = "in-the-cloud/"


class ScriptedMediaCloud:
    def __init__(self, store: ObjectStore, bucket: str) -> None:
        self.url = ""
        self.asked: dict[UUID, CloudPresignRequest] = {}
        self.presigned: Counter[UUID] = Counter()
        self.stored: Counter[UUID] = Counter()
        """How often `complete` said yes."""
        self.presign_script: deque[Handler] = deque()
        self.complete_script: deque[Handler] = deque()
        self.otherwise: Handler | None = None
        """Answers every presign when it is set and the script is over."""
        self.put: Handler | None = None
        self.store = store
        self.bucket = bucket

    def key(self, media_id: UUID) -> str:
        return f"{FOLDER}{media_id}"

    async def keys(self) -> list[str]:
        return [found.key async for found in self.store.list_objects(self.bucket, FOLDER)]

    async def body_of(self, media_id: UUID) -> bytes:
        return await self.store.get(self.bucket, self.key(media_id), bytes_max=BYTES_MAX)

    async def presign(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return web.json_response({"error": {"code": "unauthorized", "message": "who are you"}}, status=401)
        asked = parse(CloudPresignRequest, await request.read())
        self.asked[asked.media_id] = asked
        self.presigned[asked.media_id] += 1
        handler = self.presign_script.popleft() if self.presign_script else self.otherwise
        return await handler(request) if handler else web.Response(body=encode(await self.answer_to(asked)))

    async def complete(self, request: web.Request) -> web.StreamResponse:
        asked = self.asked[UUID(request.match_info["media_id"])]
        assert request.query["tenant_id"] == asked.tenant_id
        if self.complete_script:
            return await self.complete_script.popleft()(request)
        try:
            body = await self.body_of(asked.media_id)
        except ObjectMissing:
            return web.json_response({"error": {"code": "object_missing", "message": "no object"}}, status=409)
        assert hashlib.sha256(body).hexdigest() == asked.sha256, "the object store compares it"
        self.stored[asked.media_id] += 1
        return web.Response(body=encode(CloudMediaState(state="stored")))

    async def take(self, request: web.Request) -> web.StreamResponse:
        assert self.put is not None
        assert "authorization" not in request.headers, "the edge's token is not for the object store"
        return await self.put(request)

    async def answer_to(self, asked: CloudPresignRequest) -> CloudPresignAnswer:
        if self.stored[asked.media_id]:
            return CloudPresignAnswer(state="stored")
        url = self.store.presign_put(
            self.bucket,
            self.key(asked.media_id),
            content_type=asked.mime_type,
            size_bytes=asked.size_bytes,
            sha256=bytes.fromhex(asked.sha256),
            expires_seconds=300,
        )
        return CloudPresignAnswer(
            state="wanted",
            upload_url=f"{self.url}/put/{asked.media_id}" if self.put else url.url,
            required_headers=url.headers,
            expires_at=Clock().now() + timedelta(seconds=300),
        )


def answer(code: int, text: str = "", **headers: str) -> Handler:
    async def respond(_request: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=code, text=text, headers=named)

    return respond


@pytest_asyncio.fixture
async def media_cloud(s3: S3) -> AsyncIterator[ScriptedMediaCloud]:
    store = ObjectStore(s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
    # In one bucket with the edge's: an object store has room for some hundred buckets, and a test run has many tests.
    scripted = ScriptedMediaCloud(store, s3.bucket)
    app = web.Application(client_max_size=BYTES_MAX)
    app.router.add_post("/api/v1/media/presign", scripted.presign)
    app.router.add_post("/api/v1/media/{media_id}/complete", scripted.complete)
    app.router.add_put("/put/{media_id}", scripted.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    scripted.url = f"http://{host}:{port}"
    yield scripted
    await runner.cleanup()
    store.close()
