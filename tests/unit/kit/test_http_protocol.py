"""What is written to a connection, and when."""

import asyncio
from typing import cast

import pytest

from farmiq.kit.http_protocol import JOINED_BYTES_MAX, HeadKeeper

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire:
    """A transport that remembers."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.written.append(data)

    def close(self) -> None:
        self.is_closed = True

    def get_extra_info(self, name: str) -> str:
        return f"the {name}"


@pytest.fixture
def wire() -> Wire:
    return Wire()


async def keeper_of(wire: Wire) -> HeadKeeper:
    return HeadKeeper(cast("asyncio.Transport", wire), asyncio.get_running_loop())


async def test_head_and_body_leave_together(wire: Wire) -> None:
    keeper = await keeper_of(wire)
    for _ in range(2):
        keeper.write(HEAD)
        keeper.write(b"ok")
    await asyncio.sleep(0)
    assert wire.written == [HEAD + b"ok"] * 2


async def test_a_head_does_not_wait_for_a_body_that_takes_its_time(wire: Wire) -> None:
    keeper = await keeper_of(wire)
    keeper.write(HEAD)
    await asyncio.sleep(0)
    assert wire.written == [HEAD]
    keeper.write(b"o")
    keeper.write(b"k")
    assert wire.written == [HEAD, b"o", b"k"]


async def test_a_large_body_is_not_copied(wire: Wire) -> None:
    keeper = await keeper_of(wire)
    body = bytes(JOINED_BYTES_MAX + 1)
    keeper.write(HEAD)
    keeper.write(body)
    assert wire.written == [HEAD, body]
    assert wire.written[1] is body


async def test_an_answer_without_a_body_leaves_before_the_next_and_before_the_end(wire: Wire) -> None:
    keeper = await keeper_of(wire)
    keeper.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    keeper.write(HEAD)
    keeper.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    keeper.close()
    assert b"".join(wire.written) == b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"HTTP/1.1 204 No Content\r\n\r\n"
    assert wire.is_closed


async def test_anything_else_is_the_connections_own(wire: Wire) -> None:
    keeper = await keeper_of(wire)
    assert keeper.get_extra_info("peername") == "the peername"
