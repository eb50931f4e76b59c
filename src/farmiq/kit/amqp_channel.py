"""One channel on one connection to RabbitMQ, opened again for ever.

aio-pika can restore connections too, but it hides when: a publisher must know that the channel it used is gone, and a
consumer that its delivery tags are. So this stands on aiormq, the layer below, and each new channel has a number.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiormq
from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import AMQPConnectionError, AMQPError, ChannelInvalidStateError, ProbableAuthenticationError
from yarl import URL

from farmiq.kit.amqp_hosts import each_host, said
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Fatal, Transient, reason_of
from farmiq.kit.logging import get_logger
from farmiq.kit.retry import Backoff

CONNECT_SECONDS_MAX = 15.0
CLOSE_SECONDS_MAX = 3.0
RECONNECT_CAP_SECONDS = 5.0
# aiormq gives a silent broker three of these before it ends the connection.
HEARTBEAT_SECONDS = 10

log = get_logger(__name__)


class BusAway(Transient):
    """RabbitMQ is not connected, has blocked publishers (memory or disk alarm), or did not confirm in time."""

    code = "bus_away"


def is_away(error: BaseException) -> bool:
    """Whether this is what a broker that is away, closing or restarting looks like.

    aiormq ends what waited on a closed connection with whatever closed it: that may be a bare `Exception`, or a
    `CancelledError` that nobody asked for, which has to be told from a real cancellation of the task we run in.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() == 0
    is_known = isinstance(error, AMQPError | ChannelInvalidStateError | OSError | TimeoutError)
    return is_known or type(error) is Exception


def say(error: BaseException) -> str:
    """aiormq's own text forms leave out half of the story, and a time-out has none."""
    if isinstance(error, ProbableAuthenticationError):
        return f"it refused the login, check user, password and virtual host in AMQP_URL ({error})"
    return reason_of(error)


async def close(connection: AbstractConnection) -> None:
    """A broker that is gone, or does not answer, is no reason to fail here."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            # Given an error of its own, aiormq ends what still waits here with it, and not with a CancelledError.
            await connection.close(AMQPConnectionError("the connection was closed"))
    except (Exception, asyncio.CancelledError) as error:
        if not is_away(error):
            raise


class LastingChannel:
    """`prepare` declares and consumes on each new channel; `fail` hears of what can't heal by itself."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        prepare: Callable[[AbstractChannel], Awaitable[None]],
        fail: Callable[[Fatal], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.number = 0
        self.connections = 0
        self._hosts = [host.update_query(heartbeat=HEARTBEAT_SECONDS) for host in each_host(url)]
        self._where = said(self._hosts)
        self._name = name
        self._prepare = prepare
        self._fail = fail
        self._clock = clock or Clock()
        self._log = log.bind(connection_name=name)
        self._channel: AbstractChannel | None = None
        self._failure: Fatal | None = None
        self._settled = asyncio.Event()  # ready, or failed for good
        self._given_up = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_open(), name=f"amqp-{self._name}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    @property
    def is_ready(self) -> bool:
        return self._channel is not None

    async def wait_ready(self) -> None:
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure

    def require(self) -> AbstractChannel:
        if self._failure is not None:
            raise self._failure
        if self._channel is None:
            raise BusAway(f"No connection to RabbitMQ at {self._where}")
        return self._channel

    def give_up(self) -> None:
        """Drop the present channel and open another."""
        self._given_up.set()

    async def _keep_open(self) -> None:
        backoff = Backoff(0.1, RECONNECT_CAP_SECONDS)
        noted: set[str] = set()
        while True:
            started, connections = self._clock.monotonic(), self.connections
            try:
                reason = await self._live(self._hosts[0])
            except Fatal as error:
                self._end_with(error)
                return
            self._note(self.connections > connections, reason, noted)
            # The next one, also when this one had worked: it may be the only node of a cluster that is gone.
            self._hosts = [*self._hosts[1:], self._hosts[0]]
            if self._clock.monotonic() - started > RECONNECT_CAP_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.next_seconds())

    async def _live(self, host: URL) -> str:
        """From connecting to the end of the connection. Returns why it ended."""
        connection: AbstractConnection | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                connection = await aiormq.connect(host, client_properties={"connection_name": self._name})
                channel = await self._open(connection)
            self._become_ready(channel, host)
            return await self._end_of(channel)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - what is not the broker's is logged or raised
            self._pass_over(error, "bus_connection_broken")
            return say(error)
        finally:
            self._channel = None
            if self._failure is None:
                self._settled.clear()
            if connection is not None:
                await self._close(connection)

    async def _open(self, connection: AbstractConnection) -> AbstractChannel:
        self.number += 1
        channel = await connection.channel(on_return_raises=True)
        await self._prepare(channel)
        return channel

    def _become_ready(self, channel: AbstractChannel, host: URL) -> None:
        self.connections += 1
        self._channel = channel
        self._settled.set()
        self._log.info("bus_connected", bus=said([host]))

    async def _end_of(self, channel: AbstractChannel) -> str:
        given_up = asyncio.create_task(self._given_up.wait())
        ends: list[asyncio.Future[Any]] = [channel.closing, channel.connection.closing, given_up]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._given_up.clear()
            for end in ends:
                end.cancel()
        errors = [end.exception() for end in done if not end.cancelled()]
        return say(next((error for error in errors if error is not None), AMQPConnectionError()))

    async def _close(self, connection: AbstractConnection) -> None:
        try:
            await close(connection)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - what is not the broker's is logged or raised
            self._pass_over(error, "bus_close_failed")

    def _pass_over(self, error: BaseException, event: str) -> None:
        """Only a real cancellation and what is fatal end the loop: one that just ended would look like a silent bus."""
        if is_away(error):
            return
        if isinstance(error, asyncio.CancelledError | Fatal):
            raise error
        self._log.error(event, bus=self._where, exc_info=error)

    def _end_with(self, error: Fatal) -> None:
        self._log.error("bus_failed", bus=self._where, reason=str(error))
        self._failure = error
        self._settled.set()
        if self._fail is not None:
            self._fail(error)

    def _note(self, was_ready: bool, reason: str, noted: set[str]) -> None:
        """Log each change once, however often it is tried and however many nodes are."""
        if was_ready:
            noted.clear()
            self._log.warning("bus_connection_lost", bus=said(self._hosts[:1]), reason=reason)
        elif reason not in noted:
            noted.add(reason)
            self._log.warning("bus_connect_failed", bus=said(self._hosts[:1]), reason=reason)
