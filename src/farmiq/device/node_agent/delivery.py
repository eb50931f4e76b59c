"""The agent's side of the socket: offers samples, and forgets them only when they are stored."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

from farmiq.device import handover
from farmiq.device.handover import BadHandover, Condition, NotCaptured, Refused, Samples, Stored, Welcome
from farmiq.device.node_agent.backlog import Backlog
from farmiq.device.node_agent.health import Health
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.retry import Backoff

ANSWER_SECONDS_MAX = 10.0
STOP_SECONDS_MAX = 3.0
"""For what still waits when the service is asked to stop."""

log = get_logger(__name__)


class ForwarderGone(Exception):
    """The forwarder closed the connection or did not answer in time."""


async def deliver(
    life: Lifetime,
    socket_path: str,
    hello: handover.Hello,
    backlog: Backlog,
    health: Health,
    stop_seconds: float = STOP_SECONDS_MAX,
) -> None:
    """Until the service is asked to stop and everything is told, or the time for that is over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None) as limit:
            with _limited_after_stop(life, limit, stop_seconds):
                await _keep_talking(life, socket_path, hello, backlog, health)
    if not backlog.is_told:
        reason = "stopped before the forwarder had them"
        log.error("samples_not_captured", count=len(backlog) + backlog.untold, reason=reason)


@contextlib.contextmanager
def _limited_after_stop(life: Lifetime, limit: asyncio.Timeout, stop_seconds: float) -> Iterator[None]:
    async def watch() -> None:
        await life.stopping.wait()
        limit.reschedule(asyncio.get_running_loop().time() + stop_seconds)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


async def _keep_talking(
    life: Lifetime, socket_path: str, hello: handover.Hello, backlog: Backlog, health: Health
) -> None:
    """Connect, hand over, and connect again whenever that ends."""
    # Quick to ask again: it costs a local call, and every second of waiting fills the backlog.
    backoff = Backoff(base_seconds=0.05, cap_seconds=1.0)
    while not (life.stopping.is_set() and backlog.is_told):
        try:
            async with _connected(socket_path) as line:
                await _converse(life, line, hello, backlog, health, backoff)
        except (OSError, BadHandover, ForwarderGone, TimeoutError) as error:
            if backoff.failures == 0:
                log.warning("forwarder_waited_for", reason=str(error) or type(error).__name__, waiting=len(backlog))
            await _rest(life, backoff.next_seconds())


async def _rest(life: Lifetime, seconds: float) -> None:
    """Cut short by the stop, once: from then on every attempt counts."""
    if life.stopping.is_set():
        await asyncio.sleep(seconds)
    else:
        await life.pause(seconds)


class _Line:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, message: handover.FromAgent) -> handover.FromForwarder:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            self._writer.write(handover.pack(message))
            await self._writer.drain()
            answer = await handover.read_from_forwarder(self._reader)
        if answer is None:
            raise ForwarderGone("closed the connection")
        return answer


@contextlib.asynccontextmanager
async def _connected(socket_path: str) -> AsyncIterator[_Line]:
    reader, writer = await asyncio.open_unix_connection(socket_path)
    try:
        yield _Line(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _converse(
    life: Lifetime, line: _Line, hello: handover.Hello, backlog: Backlog, health: Health, backoff: Backoff
) -> None:
    welcome = await line.ask(hello)
    if not isinstance(welcome, Welcome):
        raise ForwarderGone(f"answered the greeting with {welcome}")
    backlog.resume_after(welcome.last)
    log.info("forwarder_connected", waiting=len(backlog))
    told: Condition | None = None
    while not (life.stopping.is_set() and backlog.is_told):
        backlog.news.clear()
        condition = Condition(0, health.faulty_sensors, backlog.not_captured)
        if condition != told:
            await _tell(line, condition)
            told = condition
        elif (message := backlog.offer()) is not None:
            await _hand_over(line, message, backlog)
            # A disk that is full lets everybody in and stores nothing: only what is stored proves that it is worth hurrying.
            backoff.reset()
        else:
            await life.until_stopped(_news(backlog))


async def _tell(line: _Line, condition: Condition) -> None:
    answer = await line.ask(condition)
    if answer != Stored(condition.number):
        raise ForwarderGone(f"answered the agent's condition with {answer}")


async def _hand_over(line: _Line, message: Samples | NotCaptured, backlog: Backlog) -> None:
    answer = await line.ask(message)
    if isinstance(answer, Refused) and answer.is_final:
        log.error("samples_not_captured", count=backlog.give_up(), reason=answer.reason)
    if not isinstance(answer, Stored) or not backlog.stored(answer.number):
        raise ForwarderGone(f"answered message {message.number} with {answer}")
    if isinstance(message, NotCaptured):
        log.warning("loss_declared", count=message.count, loss_id=str(message.loss_id))


async def _news(backlog: Backlog) -> None:
    await backlog.news.wait()
