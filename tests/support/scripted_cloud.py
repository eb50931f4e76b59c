"""A peer for the sync forwarder: a real HTTP server that takes batches as the cloud does, and answers what a test tells it to."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest_asyncio
from aiohttp import web
from msgspec import Struct

from farmiq.cloud.ingestion.body import decoder_for
from farmiq.contracts.decoding import decode, encode
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.contracts.sync import EventResult, HeardAnswer, answer_of, decode_edge_batch

BODY_BYTES_MAX = 64 * 1024 * 1024
TOKEN = "a-token-for-the-scripted-cloud"


class Received(Struct, frozen=True):
    tenant_id: str | None
    edge_cluster_id: str | None
    batch_id: str | None
    headers: dict[str, str]
    events: list[BusEnvelope]
    peer: tuple[str, int]
    heard: HeardAnswer | None = None

    @property
    def ids(self) -> list[UUID]:
        return [event.event_id for event in self.events]


Respond = Callable[[Received], Awaitable[web.StreamResponse]]


class ScriptedCloud:
    """Answers from `script` one after the other, then with `otherwise`."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self.script: deque[Respond] = deque()
        self.otherwise: Respond = accept
        self.encodings_refused: set[str] = set()
        self.refused = 0

    def times_received(self) -> Counter[UUID]:
        return Counter(event_id for batch in self.received for event_id in batch.ids)

    def alone(self) -> Counter[UUID]:
        """How often each event came by itself."""
        return Counter(batch.ids[0] for batch in self.received if len(batch.ids) == 1)

    async def take(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return web.json_response({"error": {"code": "unauthorized", "message": "who are you"}}, status=401)
        encoding = request.headers.get("content-encoding", "")
        if encoding in self.encodings_refused:
            self.refused += 1
            return web.json_response({"error": {"code": "unsupported_encoding", "message": encoding}}, status=415)
        decoder = decoder_for(encoding, BODY_BYTES_MAX)
        decoder.feed(await request.read())
        batch = decode_edge_batch(decoder.finish())
        received = Received(
            batch.tenant_id,
            batch.edge_cluster_id,
            batch.batch_id,
            {name.lower(): value for name, value in request.headers.items()},
            [decode(BusEnvelope, event, max_bytes=BUS_MESSAGE_BYTES_MAX) for event in batch.events],
            request.transport.get_extra_info("peername")[:2] if request.transport else ("", 0),
            batch.heard,
        )
        self.received.append(received)
        respond = self.script.popleft() if self.script else self.otherwise
        return await respond(received)


async def accept(received: Received) -> web.Response:
    return results([EventResult(event_id=event_id, status="accepted") for event_id in received.ids])


def results(given: list[EventResult], batch_id: str | None = None) -> web.Response:
    return web.Response(body=encode(answer_of(batch_id, given)), content_type="application/json")


def status(code: int, *, body: str = "", **headers: str) -> Respond:
    async def respond(_received: Received) -> web.Response:
        return web.Response(
            status=code, text=body, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )

    return respond


def refusal(code: int) -> Respond:
    """In the cloud's own words."""
    return status(code, body='{"error": {"code": "bad_batch", "message": "boom"}}')


@pytest_asyncio.fixture
async def cloud() -> AsyncIterator[ScriptedCloud]:
    scripted = ScriptedCloud()
    app = web.Application(client_max_size=BODY_BYTES_MAX)
    app.router.add_post("/api/v1/edge/batch", scripted.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    scripted.url = f"http://{host}:{port}/api/v1/edge/batch"
    yield scripted
    await runner.cleanup()
