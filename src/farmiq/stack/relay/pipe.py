"""One direction of one connection: takes bytes from one socket and hands them to the other, when the shaper says so."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from farmiq.stack.relay.faults import Faults
from farmiq.stack.relay.shaping import Parcel, Shaper

# What a slow or delayed line may hold before its sender has to wait. One read may come on top of it.
QUEUE_BYTES_MAX = 256 * 1024


class Tally:
    """Bytes that have passed one direction of a route, over all its connections."""

    def __init__(self) -> None:
        self.bytes = 0


class Sink(Protocol):
    """The socket that bytes go to."""

    @property
    def is_full(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    def end(self) -> None: ...


class Pipe:
    def __init__(self, shaper: Shaper, tally: Tally, clock: Callable[[], float]) -> None:
        self.shaper = shaper
        self._tally = tally
        self._clock = clock
        self._queue: deque[Parcel] = deque()
        self._queued_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._sink: Sink | None = None
        self._hold_source: Callable[[bool], None] = lambda _: None
        self._end_whole: Callable[[], None] = lambda: None
        self.is_ended = False

    def lay(self, sink: Sink, hold_source: Callable[[bool], None], end_whole: Callable[[], None]) -> None:
        """`hold_source(True)` makes the sender wait; `end_whole` closes both directions."""
        self._sink, self._hold_source, self._end_whole = sink, hold_source, end_whole

    def take(self, data: bytes) -> None:
        if self.shaper.is_transparent and not self._queue and not self._is_blocked:
            self._pass_on(data)
            self.regulate()
            return
        self._enqueue(self.shaper.admit(data, self._clock()))

    def take_end(self) -> None:
        self._enqueue(self.shaper.finish(self._clock()))

    def change(self, faults: Faults) -> None:
        """What waits on the line comes out at once, or vanishes with what follows it."""
        now = self._clock()
        self.shaper.change(faults, now)
        if self.shaper.swallows and self._queue:
            self.shaper.has_swallowed = True
            self._queue.clear()
            self._queued_bytes = 0
        self._queue = deque(Parcel(now, parcel.data, parcel.ending) for parcel in self._queue)
        self.move()

    def move(self) -> None:
        """Hands on what is due, for as long as the receiver takes it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock()
        while self._queue and self._queue[0].due_at <= now and not self._is_blocked:
            parcel = self._queue.popleft()
            self._queued_bytes -= len(parcel.data)
            if parcel.data:
                self._pass_on(parcel.data)
            if parcel.ending:
                self._end(parcel)
        if self._queue and not self._is_blocked:
            wait_seconds = max(0.0, self._queue[0].due_at - now)
            self._timer = asyncio.get_running_loop().call_later(wait_seconds, self.move)
        self.regulate()

    def regulate(self) -> None:
        self._hold_source(self._is_blocked or self._queued_bytes >= QUEUE_BYTES_MAX)

    def drop(self) -> None:
        """The connection is gone."""
        self._queue.clear()
        self._queued_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_blocked(self) -> bool:
        return self._sink is None or self._sink.is_full

    def _enqueue(self, parcels: list[Parcel]) -> None:
        self._queue.extend(parcels)
        self._queued_bytes += sum(len(parcel.data) for parcel in parcels)
        self.move()

    def _pass_on(self, data: bytes) -> None:
        if self._sink is None:
            raise RuntimeError(f"{len(data)} bytes for a pipe that leads nowhere")
        self._sink.write(data)
        self._tally.bytes += len(data)

    def _end(self, parcel: Parcel) -> None:
        self.is_ended = True
        if parcel.ending == "whole":
            self._queue.clear()
            self._queued_bytes = 0
            self._end_whole()
        elif self._sink is not None:
            self._sink.end()
