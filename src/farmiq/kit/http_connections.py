"""How many connections an HTTP port holds, and how long it waits for what a client has begun to send.

A client that opens connections and sends half a request must cost nobody else anything. When there are too many, one
that has no request under way makes room: the oldest with half a request, else the oldest. Only when every connection has a
request under way is the new one closed.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from farmiq.kit.http_protocol import WholeAnswers

CHECK_SECONDS: Final = 1.0
# A body may take this many times as long as one pause in it: it may come slowly, but not drop by drop for ever.
BODY_PAUSES_MAX: Final = 10


class ConnectionLimits(Struct, frozen=True):
    connections_max: int
    per_address_max: int
    header_seconds: float
    body_seconds: float
    # These stand for many clients each, so no limit for one address applies.
    proxies: frozenset[str] = frozenset()


class Connections:
    """All connections of one port."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: dict[LimitedConnection, None] = {}  # the oldest first
        self._per_address: Counter[str] = Counter()

    def protocol(self) -> type[asyncio.Protocol]:
        """For uvicorn, which makes one for each connection."""
        connections = self

        class Connection(LimitedConnection):
            port = connections

        return Connection

    def take(self, connection: "LimitedConnection") -> bool:
        """Whether there is room, or room could be made."""
        limits, address = self.limits, connection.address
        has_room = True
        if address not in limits.proxies and self._per_address[address] >= limits.per_address_max:
            has_room = _make_room(other for other in self._open if other.address == address)
        elif len(self._open) >= limits.connections_max:
            has_room = _make_room(self._open)
        if has_room:
            self._open[connection] = None
            self._per_address[address] += 1
        return has_room

    def forget(self, connection: "LimitedConnection") -> None:
        if connection in self._open:
            del self._open[connection]
            self._per_address[connection.address] -= 1
            if not self._per_address[connection.address]:
                del self._per_address[connection.address]

    async def close_slow_ones(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            now = loop.time()
            for connection in [each for each in self._open if each.is_too_slow(now, self.limits)]:
                connection.cut()


class LimitedConnection(WholeAnswers):
    port: Connections

    address = ""
    # Since when the rest of a request's head is awaited, the body of a request, and the next part of that body.
    _head_since: float | None = None
    _body_since: float | None = None
    _part_since: float = 0.0
    # Since when the client has not taken enough of its answer for more of it to be written.
    _full_since: float | None = None

    @property
    def awaits_head(self) -> bool:
        return self._head_since is not None

    @property
    def is_waiting(self) -> bool:
        """No request is under way: nobody loses an answer when it is closed."""
        return self.cycle is None or self.cycle.response_complete

    def is_too_slow(self, now: float, limits: ConnectionLimits) -> bool:
        if self._head_since is not None:
            return now - self._head_since > limits.header_seconds
        if self._full_since is not None:
            return now - self._full_since > limits.body_seconds
        if self._body_since is None or self._is_held_up():
            self._part_since = now
            return False
        longest = limits.body_seconds * BODY_PAUSES_MAX
        return now - self._part_since > limits.body_seconds or now - self._body_since > longest

    def cut(self) -> None:
        """At once: what is not read by its client must not keep it open."""
        self.transport.abort()
        self.port.forget(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._head_since = self.loop.time()
        if not self.port.take(self):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.port.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        now = self.loop.time()
        self._part_since = now
        if self._head_since is None and self.is_waiting:
            self._head_since = now
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._head_since, self._body_since = None, self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._body_since = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        self._full_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._full_since = None
        super().resume_writing()

    def _is_held_up(self) -> bool:
        """By us: the request's handler has not read what came, or not yet allowed the body to be sent."""
        return self.flow.read_paused or self.cycle.waiting_for_100_continue


def _make_room(connections: Iterable[LimitedConnection]) -> bool:
    waiting = [connection for connection in connections if connection.is_waiting]
    if not waiting:
        return False
    next((connection for connection in waiting if connection.awaits_head), waiting[0]).cut()
    return True


def uvicorn_options(connections: Connections) -> dict[str, Any]:
    """`X-Forwarded-For` and its like are believed when they come from one of the proxies, and from nobody else."""
    proxies = sorted(connections.limits.proxies)
    return {"http": connections.protocol(), "proxy_headers": bool(proxies), "forwarded_allow_ips": proxies}
