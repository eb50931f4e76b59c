"""What is on a broker, compared with what should be there. Nothing is changed by looking.

Over AMQP alone the exchanges and queues can be seen, and whether their settings are ours; bindings can't. The management API
shows everything, where its plugin runs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Literal
from urllib.parse import quote

import aiohttp
import aiormq
from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import AMQPConnectionError, ChannelNotFoundEntity, ChannelPreconditionFailed
from yarl import URL

from farmiq.kit.amqp_channel import CONNECT_SECONDS_MAX, BusAway, close, is_away, say
from farmiq.kit.amqp_definitions import Definitions, Finding, compare
from farmiq.kit.amqp_hosts import each_host
from farmiq.kit.amqp_topology import Exchange, Queue, Topology
from farmiq.kit.errors import Fatal

MANAGEMENT_SECONDS_MAX: Final = 30.0


class ManagementRefused(Fatal):
    """The management API does not show this virtual host. Its user needs the tag `administrator`, or `policymaker`."""

    code = "management_refused"


def virtual_host_of(amqp_url: str) -> str:
    """As an AMQP URL gives it: nothing and a lone slash both mean the default one."""
    return each_host(amqp_url)[0].path.removeprefix("/") or "/"


async def inspect_over_amqp(connection: AbstractConnection, topology: Topology) -> list[Finding]:
    """Without bindings."""
    exchanges = [await _exchange(connection, exchange) for exchange in topology.exchanges]
    queues = [await _queue(connection, queue) for queue in topology.queues]
    return [finding for finding in (*exchanges, *queues) if finding is not None]


async def inspect_over_management(
    url: str, topology: Topology, virtual_host: str, own: Sequence[str] = ()
) -> list[Finding]:
    """`url` is where the management page is, with user and password. Raises `BusAway` or `ManagementRefused`."""
    return compare(topology, await _definitions(URL(url), virtual_host), virtual_host, own)


@asynccontextmanager
async def connected(amqp_url: str, name: str) -> AsyncIterator[AbstractConnection]:
    """One connection for one piece of work. Raises `BusAway` when there is none, and when it ends before the work does."""
    connection: AbstractConnection | None = None
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            connection = await _connect(each_host(amqp_url), name)
        yield connection
    except (Exception, asyncio.CancelledError) as error:
        if not is_away(error):
            raise
        raise BusAway(
            f"RabbitMQ {'does not let us in' if connection is None else 'went away'}: {say(error)}"
        ) from error
    finally:
        if connection is not None:
            await close(connection)


async def _connect(hosts: Sequence[URL], name: str) -> AbstractConnection:
    """To the first that answers. What the last one says counts for all."""
    for host in hosts[:-1]:
        with suppress(AMQPConnectionError, OSError):
            return await aiormq.connect(host, client_properties={"connection_name": name})
    return await aiormq.connect(hosts[-1], client_properties={"connection_name": name})


async def messages_over_management(url: str, virtual_host: str) -> dict[str, int]:
    """The messages of every queue, as RabbitMQ counted them a few seconds ago. Raises `BusAway` or `ManagementRefused`."""
    queues: list[dict[str, Any]] = await _managed(URL(url), "queues", virtual_host)
    return {one["name"]: one.get("messages", 0) for one in queues}


async def _definitions(url: URL, virtual_host: str) -> Definitions:
    document: Definitions = await _managed(url, "definitions", virtual_host)
    return document


async def _managed(url: URL, what: str, virtual_host: str) -> Any:
    auth = aiohttp.BasicAuth(url.user or "", url.password or "")
    base = str(url.with_user(None)).rstrip("/")
    where = URL(f"{base}/api/{what}/{quote(virtual_host, safe='')}", encoded=True)
    timeout = aiohttp.ClientTimeout(total=MANAGEMENT_SECONDS_MAX, connect=CONNECT_SECONDS_MAX)
    try:
        async with aiohttp.ClientSession(auth=auth, timeout=timeout) as session, session.get(where) as answer:
            if answer.status != 200:
                raise ManagementRefused(f"The management API answers {answer.status} for virtual host {virtual_host}")
            return await answer.json()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise BusAway(f"The management API does not answer: {str(error) or 'no answer in time'}") from error


async def _exchange(connection: AbstractConnection, exchange: Exchange) -> Finding | None:
    async def declare(channel: AbstractChannel, passive: bool) -> None:
        await channel.exchange_declare(exchange.name, exchange_type=exchange.kind, durable=True, passive=passive)

    return await _look(connection, "exchange", exchange.name, declare)


async def _queue(connection: AbstractConnection, queue: Queue) -> Finding | None:
    async def declare(channel: AbstractChannel, passive: bool) -> None:
        await channel.queue_declare(queue.name, durable=True, arguments=queue.arguments(), passive=passive)

    return await _look(connection, "queue", queue.name, declare)


async def _look(
    connection: AbstractConnection,
    kind: Literal["exchange", "queue"],
    name: str,
    declare: Callable[[AbstractChannel, bool], Awaitable[None]],
) -> Finding | None:
    """Ask whether it is there, then declare it: that changes nothing, and RabbitMQ says what is different.

    It says no by closing the channel, so each has a channel of its own.
    """
    channel = await connection.channel()
    try:
        await declare(channel, True)
        await declare(channel, False)
    except ChannelNotFoundEntity:
        return Finding(kind, name, "missing")
    except ChannelPreconditionFailed as error:
        return Finding(kind, name, "different", str(error))
    await channel.close()
    return None
