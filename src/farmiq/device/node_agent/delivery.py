"""The agent's side of the socket: offers samples, and forgets them only when they are stored."""

import asyncio
import contextlib

from farmiq.device import handover
from farmiq.device.node_agent.backlog import Backlog
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.retry import Backoff

ANSWER_SECONDS_MAX = 10.0

log = get_logger(__name__)


class ForwarderGone(Exception):
    """The forwarder closed the connection or did not answer in time."""


async def deliver(life: Lifetime, socket_path: str, hello: handover.Hello, backlog: Backlog) -> None:
    """Until the service is asked to stop: connect, hand over, and connect again whenever that ends."""
    backoff = Backoff(base_seconds=0.1, cap_seconds=5.0)
    while not life.stopping.is_set():
        try:
            await _converse(life, socket_path, hello, backlog, backoff)
        except (OSError, ForwarderGone, TimeoutError) as error:
            if backoff.failures == 0:
                log.warning("forwarder_waited_for", reason=str(error) or type(error).__name__, waiting=len(backlog))
            await life.pause(backoff.next_seconds())
    if len(backlog):
        log.error("samples_not_captured", count=len(backlog), reason="stopped before the forwarder had them")


async def _converse(
    life: Lifetime, socket_path: str, hello: handover.Hello, backlog: Backlog, backoff: Backoff
) -> None:
    reader, writer = await asyncio.open_unix_connection(socket_path)
    try:
        welcome = await _ask(reader, writer, hello)
        if not isinstance(welcome, handover.Welcome):
            raise ForwarderGone(f"answered the greeting with {welcome}")
        backlog.resume_after(welcome.last)
        log.info("forwarder_connected", waiting=len(backlog))
        backoff.reset()
        while not (life.stopping.is_set() and len(backlog) == 0):
            samples = backlog.offer()
            if samples is None:
                await life.until_stopped(_filled(backlog))
                continue
            stored = await _ask(reader, writer, samples)
            if isinstance(stored, handover.Refused) and stored.is_final:
                log.error("samples_not_captured", count=backlog.give_up(), reason=stored.reason)
            if not isinstance(stored, handover.Stored) or not backlog.stored(stored.number):
                raise ForwarderGone(f"answered samples {samples.number} with {stored}")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _filled(backlog: Backlog) -> None:
    await backlog.filled.wait()


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: handover.FromAgent
) -> handover.FromForwarder:
    async with asyncio.timeout(ANSWER_SECONDS_MAX):
        writer.write(handover.pack(message))
        await writer.drain()
        answer = await handover.read_from_forwarder(reader)
    if answer is None:
        raise ForwarderGone("closed the connection")
    return answer
