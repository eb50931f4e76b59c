"""Every fault on real sockets: what the two ends of a connection see of it."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from farmiq.stack.relay.connection import Connection
from farmiq.stack.relay.faults import (
    HEALTHY,
    NO_FAULTS,
    Bandwidth,
    Faults,
    Latency,
    LimitData,
    ResetPeer,
    RouteFaults,
    Slicer,
    SlowClose,
    Timeout,
    both_ways,
)
from farmiq.stack.relay.pipe import QUEUE_BYTES_MAX, Pipe, Tally
from farmiq.stack.relay.shaping import Shaper
from support.relayed import Ends, Far, is_reset, never, relayed
from support.waiting import eventually

DOWN = RouteFaults(down=True)
NO_LINGER = b"\x01\0\0\0\0\0\0\0"
BIG = bytes(range(256)) * 16384  # 4 MiB
FLOOD = BIG * 16  # more than a kernel holds for a socket: Linux 6.18 takes 4 MiB before anybody reads


async def exchange(near: Ends, far: Ends, text: bytes = b"ping") -> None:
    near.writer.write(text)
    assert await asyncio.wait_for(far.reader.readexactly(len(text)), 10) == text
    far.writer.write(text[::-1])
    assert await asyncio.wait_for(near.reader.readexactly(len(text)), 10) == text[::-1]


async def send_all(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
    writer.write_eof()


async def test_without_faults_bytes_pass_both_ways_and_the_end_of_each_direction_by_itself() -> None:
    async with relayed() as world:
        near, far = await world.pair()
        await exchange(near, far)
        sending = asyncio.create_task(send_all(near.writer, BIG))
        assert await asyncio.wait_for(far.reader.read(-1), 20) == BIG
        await sending
        # The client has closed its direction. The answer still comes.
        await send_all(far.writer, BIG[::-1])
        assert await asyncio.wait_for(near.reader.read(-1), 20) == BIG[::-1]
        await eventually(lambda: is_gone(world.route.state().connections), what="the connection to be forgotten")
        state = world.route.state()
        assert (state.upstream_bytes, state.downstream_bytes) == (len(BIG) + 4, len(BIG) + 4)


async def is_gone(connections: int) -> bool:
    return connections == 0


async def test_a_receiver_that_does_not_read_makes_the_sender_wait() -> None:
    async with relayed() as world:
        near, far = await world.pair()
        far.reader._transport.pause_reading()  # type: ignore[attr-defined]  # a receiver whose program is busy
        near.writer.transport.set_write_buffer_limits(high=65536)

        async def flood() -> None:
            while True:
                near.writer.write(bytes(65536))
                await near.writer.drain()

        flooding = asyncio.create_task(flood())
        held = -1

        async def is_still() -> bool:
            nonlocal held
            before, held = held, world.route.state().upstream_bytes
            return not await never(lambda: asyncio.shield(flooding), 0.2) or before == held

        await eventually(is_still, what="the sender to be held")
        assert not flooding.done()
        # Kernel buffers and ours; a relay without back-pressure would take all there is.
        assert 0 < held < 32 * 1024 * 1024
        flooding.cancel()


async def test_down_resets_who_is_connected_refuses_who_comes_and_keeps_the_port() -> None:
    async with relayed() as world:
        near, far = await world.pair()
        await exchange(near, far)
        await world.route.apply(DOWN)
        assert await is_reset(near.reader)
        assert await is_reset(far.reader)
        with pytest.raises(ConnectionRefusedError):
            await world.connect()
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                stranger.bind(("127.0.0.1", world.port))
        await world.route.apply(HEALTHY)
        await exchange(*await world.pair())


async def test_a_route_that_starts_down_refuses() -> None:
    async with relayed(DOWN) as world:
        with pytest.raises(ConnectionRefusedError):
            await world.connect()


@pytest.mark.parametrize("direction", ["upstream", "downstream"])
async def test_latency_delays_one_direction_and_not_the_other(direction: str) -> None:
    late = Faults(latency=Latency(seconds=0.4))
    async with relayed(
        RouteFaults(upstream=late) if direction == "upstream" else RouteFaults(downstream=late)
    ) as world:
        near, far = await world.pair()
        slow, fast = ((near, far), (far, near)) if direction == "upstream" else ((far, near), (near, far))
        began = time.monotonic()
        fast[0].writer.write(b"fast")
        slow[0].writer.write(b"slow")
        assert await asyncio.wait_for(fast[1].reader.readexactly(4), 10) == b"fast"
        came_slow = asyncio.create_task(slow[1].reader.readexactly(4))
        assert not came_slow.done()
        assert await asyncio.wait_for(came_slow, 10) == b"slow"
        assert time.monotonic() - began >= 0.4


async def test_latency_delays_without_making_the_line_slower() -> None:
    async with relayed(both_ways(Faults(latency=Latency(seconds=0.2, jitter_seconds=0.1)))) as world:
        near, far = await world.pair()
        sending = asyncio.create_task(send_all(near.writer, BIG))
        assert await asyncio.wait_for(far.reader.read(-1), 60) == BIG
        await sending


async def test_healing_latency_lets_out_at_once_what_waits_on_the_line() -> None:
    async with relayed(both_ways(Faults(latency=Latency(seconds=3600)))) as world:
        near, far = await world.pair()
        near.writer.write(b"late")
        assert await never(lambda: far.reader.read(1))
        await world.route.apply(HEALTHY)
        await exchange_after(near, far, b"late")


async def exchange_after(near: Ends, far: Ends, waiting: bytes) -> None:
    assert await asyncio.wait_for(far.reader.readexactly(len(waiting)), 10) == waiting
    await exchange(near, far)


async def test_bandwidth_is_kept_and_holds_no_more_than_its_queue() -> None:
    async with relayed(RouteFaults(upstream=Faults(bandwidth=Bandwidth(bytes_per_second=100_000)))) as world:
        near, far = await world.pair()
        began = time.monotonic()
        near.writer.write(bytes(50_000))
        assert len(await asyncio.wait_for(far.reader.readexactly(50_000), 20)) == 50_000
        assert time.monotonic() - began >= 0.45
        near.writer.write(BIG)
        await asyncio.wait_for(far.reader.readexactly(10_000), 20)
        (connection,) = world.route._connections
        assert connection._pipes[0]._queued_bytes <= QUEUE_BYTES_MAX + 256 * 1024


async def test_timeout_keeps_the_connection_and_lets_every_byte_vanish_until_it_is_healed_with_a_reset() -> None:
    async with relayed() as world:
        near, far = await world.pair()
        await exchange(near, far)
        await world.route.apply(both_ways(Faults(timeout=Timeout())))
        near.writer.write(b"lost")
        far.writer.write(b"lost too")
        assert await never(lambda: far.reader.read(1))
        near.writer.transport.abort()  # not even a reset gets through
        assert await never(lambda: far.reader.read(1))
        late, late_far = await world.pair()
        late.writer.write(b"into the void")
        assert await never(lambda: late_far.reader.read(1))
        await world.route.apply(HEALTHY)
        # A stream with a hole in it must not go on.
        assert await is_reset(far.reader)
        assert await is_reset(late.reader)
        await exchange(*await world.pair())


async def test_a_silence_in_which_nothing_was_said_harms_nobody() -> None:
    async with relayed() as world:
        near, far = await world.pair()
        await world.route.apply(both_ways(Faults(timeout=Timeout())))
        await world.route.apply(HEALTHY)
        await exchange(near, far)
        assert world.route.state().connections == 1


async def test_timeout_with_a_time_closes_the_connection_after_it() -> None:
    async with relayed(both_ways(Faults(timeout=Timeout(seconds=0.3)))) as world:
        near, _ = await world.pair()
        near.writer.write(b"lost")
        assert await asyncio.wait_for(near.reader.read(1), 10) == b""


async def test_reset_peer_resets_both_ends_of_those_who_are_there_and_those_who_come() -> None:
    async with relayed() as world:
        near, far = await world.pair()
        await world.route.apply(RouteFaults(upstream=Faults(reset_peer=ResetPeer(seconds=0.1))))
        assert await is_reset(near.reader)
        assert await is_reset(far.reader)
        late, late_far = await world.pair()
        assert await is_reset(late.reader)
        assert await is_reset(late_far.reader)


async def test_slicer_changes_no_byte() -> None:
    slicer = Faults(slicer=Slicer(average_bytes=100, variation_bytes=90, delay_seconds=0.0001))
    async with relayed(both_ways(slicer)) as world:
        near, far = await world.pair()
        near.writer.write(BIG[:20_000])
        first = await asyncio.wait_for(far.reader.read(65536), 10)
        assert len(first) < 20_000
        assert first + await asyncio.wait_for(far.reader.readexactly(20_000 - len(first)), 20) == BIG[:20_000]


async def test_slow_close_keeps_the_end_back_and_nothing_else() -> None:
    async with relayed(RouteFaults(upstream=Faults(slow_close=SlowClose(seconds=0.5)))) as world:
        near, far = await world.pair()
        began = time.monotonic()
        await send_all(near.writer, b"last words")
        assert await asyncio.wait_for(far.reader.readexactly(10), 10) == b"last words"
        assert await asyncio.wait_for(far.reader.read(1), 10) == b""
        assert time.monotonic() - began >= 0.5


async def test_limit_data_closes_after_exactly_so_many_bytes() -> None:
    async with relayed(RouteFaults(upstream=Faults(limit_data=LimitData(bytes=10_000)))) as world:
        near, far = await world.pair()
        near.writer.write(BIG[:30_000])
        assert await asyncio.wait_for(far.reader.read(-1), 10) == BIG[:10_000]
        # Bytes that were still under way make a reset of the close, as with any program that closes early.
        assert await is_reset(near.reader) or near.reader.at_eof()


async def test_a_reset_of_one_end_is_a_reset_at_the_other() -> None:
    async with relayed() as world:
        near, far = await world.pair()
        await exchange(near, far)
        linger = near.writer.get_extra_info("socket")
        linger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        near.writer.transport.abort()
        assert await is_reset(far.reader)


async def test_a_server_that_is_away_is_a_reset_for_the_client_and_nothing_for_the_relay() -> None:
    async with relayed() as world:
        await world.far.stop()
        near = await world.connect()
        assert await is_reset(near.reader)
        await world.far.start()
        await exchange(*await world.pair())


async def test_an_end_that_comes_for_somebody_who_has_been_reset_does_not_stop_the_healing() -> None:
    """Seen in a campaign: the order to heal was refused, and every other route stayed broken."""
    slow = RouteFaults(upstream=Faults(latency=Latency(seconds=3600)), downstream=Faults(latency=Latency(seconds=3600)))
    async with relayed(slow) as world:
        near, far = await world.pair()
        near.writer.write(
            BIG
        )  # more than the line holds: the relay does not read there any more, and hears of no reset
        (connection,) = world.route._connections
        await eventually(lambda: _is_so(connection.client._is_held), what="a client that has to wait")
        near.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        near.writer.transport.abort()
        far.writer.write_eof()
        await eventually(
            lambda: _is_so(bool(connection._pipes[1]._queue)), what="the end of the server's words on the line"
        )
        await world.route.apply(HEALTHY)
        await exchange(*await world.pair())


async def _is_so(value: bool) -> bool:
    return value


# Some Python versions (3.11.2, which is Debian 12's) read from a socket although `connection_made` has paused it. So data comes
# while the connection to the server is still being made. These tests deliver it so on every version.


@asynccontextmanager
async def half_open(faults: Faults = NO_FAULTS) -> AsyncIterator[tuple[Connection, Ends, Far]]:
    """A client that is connected to the relay, which is not connected to the server yet."""
    loop = asyncio.get_running_loop()
    upstream, downstream = (Pipe(Shaper(faults, Random(1), loop.time()), Tally(), loop.time) for _ in range(2))
    connection = Connection(upstream, downstream, lambda _: None)
    door = await loop.create_server(lambda: connection.client, "127.0.0.1", 0)
    far = Far()
    await far.start()
    near = Ends(*await asyncio.open_connection("127.0.0.1", door.sockets[0].getsockname()[1]))
    try:
        await eventually(lambda: _is_so(connection.client.transport is not None), what="the client's connection")
        yield connection, near, far
    finally:
        near.writer.transport.abort()
        connection.reset()
        door.close()
        await far.stop()


@pytest.mark.parametrize("faults", [NO_FAULTS, Faults(latency=Latency(seconds=0.01))])
async def test_bytes_that_come_before_the_server_is_connected_wait_and_arrive_in_order(faults: Faults) -> None:
    async with half_open(faults) as (connection, near, far):
        connection.client.data_received(b"head")
        connection.client.data_received(b"body")
        near.writer.write(b"tail")
        near.writer.write_eof()
        await connection.open("127.0.0.1", far.port)
        distant = await far.next()
        assert await asyncio.wait_for(distant.reader.read(-1), 10) == b"headbodytail"
        distant.writer.write(b"response")
        assert await asyncio.wait_for(near.reader.readexactly(8), 10) == b"response"


async def test_an_end_that_comes_before_the_server_is_connected_arrives_after_the_bytes() -> None:
    async with half_open() as (connection, _, far):
        connection.client.data_received(b"all")
        connection.client.eof_received()
        await connection.open("127.0.0.1", far.port)
        distant = await far.next()
        assert await asyncio.wait_for(distant.reader.read(-1), 10) == b"all"


async def test_a_client_that_floods_before_the_server_is_connected_is_held_after_one_read() -> None:
    async with half_open() as (connection, near, far):
        transport = connection.client.transport
        assert isinstance(transport, asyncio.Transport)
        sock = transport.get_extra_info("socket")
        # What Python 3.11.2 does after connection_made, whether reading was paused or not.
        loop: Any = asyncio.get_running_loop()
        loop._add_reader(sock.fileno(), transport._read_ready)  # type: ignore[attr-defined]  # what the library itself calls
        sending = asyncio.create_task(send_all(near.writer, FLOOD))
        await eventually(lambda: _is_so(connection._pipes[0]._queued_bytes > 0), what="a first read")
        assert await never(lambda: asyncio.shield(sending))
        assert connection._pipes[0]._queued_bytes <= QUEUE_BYTES_MAX
        await connection.open("127.0.0.1", far.port)
        assert await asyncio.wait_for((await far.next()).reader.read(-1), 20) == FLOOD
        await sending


async def test_bytes_that_come_although_the_receiver_is_full_wait_in_the_queue() -> None:
    async with half_open() as (connection, near, far):
        await connection.open("127.0.0.1", far.port)
        distant = await far.next()
        await exchange(near, distant)
        connection.server.pause_writing()
        connection.client.data_received(b"early")
        assert connection._pipes[0]._queued_bytes == 5
        connection.server.resume_writing()
        assert await asyncio.wait_for(distant.reader.readexactly(5), 10) == b"early"
        await exchange(near, distant)


async def test_writing_to_a_socket_that_is_not_connected_is_an_error_and_to_one_that_closes_is_none() -> None:
    async with half_open() as (connection, near, far):
        with pytest.raises(RuntimeError, match="4 bytes for a socket that is not connected yet"):
            connection.server.write(b"lost")
        with pytest.raises(RuntimeError, match="leads nowhere"):
            Pipe(Shaper(NO_FAULTS, Random(1), 0.0), Tally(), time.monotonic)._pass_on(b"lost")
        await connection.open("127.0.0.1", far.port)
        distant = await far.next()
        distant.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        distant.writer.transport.abort()
        assert await is_reset(near.reader)
        connection.server.write(b"nobody receives this, and the client's connection was reset")


async def test_head_and_body_sent_back_to_back_on_new_connections_are_all_answered() -> None:
    async with relayed() as world:

        async def serve() -> None:
            for _ in range(40):
                distant = await world.far.next()
                await distant.reader.readexactly(3100)
                distant.writer.write(b"OK")

        def send() -> bytes:
            with socket.create_connection(("127.0.0.1", world.port), timeout=10) as client:
                client.sendall(b"h" * 100)
                client.sendall(b"b" * 3000)
                return client.recv(2)

        serving = asyncio.create_task(serve())
        assert [await asyncio.to_thread(send) for _ in range(40)] == [b"OK"] * 40
        await serving


async def test_a_client_that_is_turned_away_is_reset_and_forgotten() -> None:
    async with relayed() as world:
        world.route.faults = (
            DOWN  # the door is still open: the order came between the client's connect and its admission
        )
        near = await world.connect()
        assert await is_reset(near.reader)
        await eventually(lambda: is_gone(world.route.state().connections), what="the connection to be forgotten")
        assert world.route.state().turned_away == 1
