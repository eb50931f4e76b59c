"""A cloud that takes every batch and keeps nothing: the far end of the HTTP hop, in a process of its own.

    python accepting_cloud.py PORT

Inflates and decodes each request as the real entrance does and answers for every event. GET /accepted tells how many there were.
"""

import sys
from uuid import UUID

import msgspec
from aiohttp import web
from msgspec import Raw, Struct

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
        batch = self._batch.decode(await request.read())
        ids = [self._named.decode(event).event_id for event in batch.events]
        results = [EventResult(event_id=event_id, status="accepted") for event_id in ids]
        self.accepted += len(ids)
        return web.Response(body=encode(answer_of(batch.batch_id, results)), content_type="application/json")

    async def tell(self, _request: web.Request) -> web.Response:
        return web.json_response(self.accepted)


def main() -> None:
    cloud, app = AcceptingCloud(), web.Application(client_max_size=REQUEST_BYTES_MAX)
    app.add_routes([web.post("/api/v1/edge/batch", cloud.take), web.get("/accepted", cloud.tell)])
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)


if __name__ == "__main__":
    main()
