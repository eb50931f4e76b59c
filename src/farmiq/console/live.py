"""One stream a browser tab: it says that there is something new, and the page asks for the parts that it shows."""

from collections.abc import AsyncIterator
from typing import Any, Final

from litestar import get
from litestar.response import Stream

from farmiq.console.desk import Desk
from farmiq.kit.http_server import ApiError
from farmiq.kit.lifecycle import Lifetime

STREAMS_MAX: Final = 200


def live_routes(desk: Desk, life: Lifetime) -> list[Any]:
    @get("/live", include_in_schema=False)
    async def live() -> Stream:
        if desk.pulse.watchers >= STREAMS_MAX:
            raise ApiError(
                503, "too_many_watchers", "Too many pages are open at once; this one goes on without being live"
            )
        return Stream(_beats(desk, life), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    return [live]


async def _beats(desk: Desk, life: Lifetime) -> AsyncIterator[bytes]:
    desk.pulse.watchers += 1
    number = 0
    try:
        yield b"retry: 2000\n\n"
        while not life.stopping.is_set():
            number = await desk.pulse.after(number)
            yield b"event: pulse\ndata: %d\n\n" % number
    finally:
        desk.pulse.watchers -= 1
