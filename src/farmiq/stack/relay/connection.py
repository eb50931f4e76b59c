"""Both sockets of one relayed connection, and what ends it."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

from farmiq.stack.relay.faults import RouteFaults
from farmiq.stack.relay.pipe import Pipe
from farmiq.stack.relay.shaping import Doom

CONNECT_SECONDS = 10.0
_NO_LINGER = struct.pack("ii", 1, 0)


class End(asyncio.Protocol):
    """One of the two sockets. Bytes that come in here go into `pipe`, whose sink is the other one."""

    def __init__(self, pipe: Pipe, on_lost: "Callable[[End, bool], None]") -> None:
        self.pipe = pipe
        self.transport: asyncio.Transport | None = None
        self.is_full = False
        self.is_gone = True
        self._on_lost = on_lost
        self._drains: Pipe | None = None
        self._is_held = True
        self._is_refused = False

    def feed_from(self, pipe: Pipe) -> None:
        """The pipe that ends here: it moves on when this socket takes bytes again."""
        self._drains = pipe

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.is_gone = False
        # A port whose last connections are still being forgotten by the kernel has to look free at the next start.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._is_refused:
            self.reset()
        elif self._is_held:
            self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if self._is_held and self.transport is not None:
            # Python 3.11.2 reads although connection_made has paused reading, and takes a second pause for done already.
            self.transport.resume_reading()
            self.transport.pause_reading()
        self.pipe.take(data)

    def eof_received(self) -> bool:
        self.pipe.take_end()
        return True  # the other direction goes on

    def pause_writing(self) -> None:
        self.is_full = True
        if self._drains is not None:
            self._drains.regulate()

    def resume_writing(self) -> None:
        self.is_full = False
        if self._drains is not None:
            self._drains.move()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_gone = True
        self._on_lost(self, error is not None)

    def hold(self, is_held: bool) -> None:
        if is_held == self._is_held:
            return
        self._is_held = is_held
        if self.transport is None or self.transport.is_closing():
            return
        if is_held:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def write(self, data: bytes) -> None:
        """A transport that is closing drops the bytes: the connection is over, and its sender sees that it is."""
        if self.transport is None:
            raise RuntimeError(f"{len(data)} bytes for a socket that is not connected yet")
        if not self.transport.is_closing():
            self.transport.write(data)

    def end(self) -> None:
        if self.transport is None or self.transport.is_closing() or not self.transport.can_write_eof():
            return
        try:
            self.transport.write_eof()
        except OSError:
            # The peer has reset the connection while we did not read from it, so this is the first that we hear of it.
            self.reset()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def reset(self) -> None:
        """With a reset, so that the peer can't take it for an orderly end. Before the connection is made: as soon as it is."""
        if self.transport is None:
            self._is_refused = True
            return
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()


class Connection:
    def __init__(self, upstream: Pipe, downstream: Pipe, on_gone: Callable[["Connection"], None]) -> None:
        self._pipes = (upstream, downstream)
        self._on_gone = on_gone
        self._doom: asyncio.TimerHandle | None = None
        self._is_over = False
        self.client = End(upstream, self._lost)
        self.server = End(downstream, self._lost)
        for pipe, source, sink in ((upstream, self.client, self.server), (downstream, self.server, self.client)):
            pipe.lay(_Sink(sink, self._ended), source.hold, self.close)
            sink.feed_from(pipe)

    async def open(self, host: str, port: int) -> None:
        """Until the server has taken the connection, the client's bytes wait in the kernel and in the pipe."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.get_running_loop().create_connection(lambda: self.server, host, port)
        except OSError:
            self.reset()
            return
        if self._is_over:  # the client has left meanwhile
            self.reset()
            return
        self._meet_doom()
        for pipe in self._pipes:
            pipe.move()

    def change(self, faults: RouteFaults) -> None:
        if self._is_over:
            return
        was_robbed = any(pipe.shaper.has_swallowed for pipe in self._pipes)
        for pipe, told in zip(self._pipes, (faults.upstream, faults.downstream), strict=True):
            pipe.change(told)
        if was_robbed and not any(pipe.shaper.swallows for pipe in self._pipes):
            self.reset()
            return
        self._meet_doom()

    def close(self) -> None:
        """What was handed on still arrives, however slow its receiver; nothing more is taken."""
        self._finish()
        for end in (self.client, self.server):
            end.close()

    def reset(self) -> None:
        self._finish()
        for end in (self.client, self.server):
            end.reset()

    def _meet_doom(self) -> None:
        if self._doom is not None:
            self._doom.cancel()
            self._doom = None
        dooms = [doom for pipe in self._pipes if (doom := pipe.shaper.doom())]
        if dooms and not self._is_over:
            first = min(dooms, key=lambda doom: doom.at)
            self._doom = asyncio.get_running_loop().call_at(first.at, self._end_by, first)

    def _end_by(self, doom: Doom) -> None:
        if doom.is_reset:
            self.reset()
        else:
            self.close()

    def _ended(self) -> None:
        if all(pipe.is_ended for pipe in self._pipes):
            self.close()

    def _lost(self, end: End, is_reset: bool) -> None:
        if self.client.is_gone and self.server.is_gone:
            self._finish()
            self._on_gone(self)
        elif not self._is_over and end.pipe.shaper.swallows:
            end.pipe.shaper.has_swallowed = True  # half-open: the other end is not told, not even of this
        elif is_reset:
            self.reset()
        else:
            self.close()

    def _finish(self) -> None:
        self._is_over = True
        if self._doom is not None:
            self._doom.cancel()
            self._doom = None
        for pipe in self._pipes:
            pipe.drop()


class _Sink:
    """A socket as the end of a pipe. Tells the connection when the direction has ended there."""

    def __init__(self, end: End, on_end: Callable[[], None]) -> None:
        self._end = end
        self._on_end = on_end

    @property
    def is_full(self) -> bool:
        return self._end.is_full or self._end.transport is None

    def write(self, data: bytes) -> None:
        self._end.write(data)

    def end(self) -> None:
        self._end.end()
        self._on_end()
