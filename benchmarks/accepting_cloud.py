"""A cloud that takes every batch and keeps nothing: the far end of the HTTP hop, in a process of its own.

    python accepting_cloud.py PORT

Inflates and decodes each request as the real entrance does and answers for every event. GET /accepted tells how many there were.
"""

import asyncio
import sys
from uuid import UUID

import msgspec
from aiohttp import web
from msgspec import Raw, Struct

from farmiq.cloud.ingestion.body import decoder_for
from farmiq.contracts.decoding import encode
from farmiq.contracts.sync import EventResult, answer_of

REQUEST_BYTES_MAX = 16 * 1024 * 1024


class _Named(Struct):
    event_id: UUID


class _Batch(Struct):
    batch_id: str
    events: list[Raw]


class AcceptingCloud:
    def __init__(self) -> None:
        self.accepted = 0
        self._batch = msgspec.json.Decoder(_Batch)
        self._named = msgspec.json.Decoder(_Named)

    async def take(self, request: web.Request) -> web.Response:
        decoder = decoder_for(request.headers.get("content-encoding", ""))
        decoder.feed(await request.read())
        batch = self._batch.decode(decoder.finish())
        ids = [self._named.decode(event).event_id for event in batch.events]
        results = [EventResult(event_id=event_id, status="accepted") for event_id in ids]
        self.accepted += len(ids)
        return web.Response(body=encode(answer_of(batch.batch_id, results)), content_type="application/json")

    async def tell(self, _request: web.Request) -> web.Response:
        return web.json_response(self.accepted)


async def serve(port: int) -> None:
    cloud, app = AcceptingCloud(), web.Application(client_max_size=REQUEST_BYTES_MAX)
    app.add_routes([web.post("/api/v1/edge/batch", cloud.take), web.get("/accepted", cloud.tell)])
    # The body is inflated by what the real entrance uses.
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


def main() -> None:
    asyncio.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
