"""What is still in RabbitMQ when nothing new goes in, and waiting until that is nothing."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from aiormq.abc import AbstractConnection

from farmiq.cli.cloud_bus import Bus, own_server
from farmiq.cli.connected_cloud import connected
from farmiq.cli.edge_cloud import Cloud
from farmiq.cli.errors import CommandFailed
from farmiq.cli.terminal import person, say
from farmiq.cloud import drain as drains
from farmiq.cloud.dead_letters import saved
from farmiq.cloud.dead_letters.audit import alone_with
from farmiq.cloud.dead_letters.collection import collect
from farmiq.cloud.drain import Drain
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.amqp_channel import BusAway
from farmiq.kit.amqp_inspection import connected as connected_bus
from farmiq.kit.amqp_inspection import messages_over_management, virtual_host_of
from farmiq.kit.amqp_topology import depth_and_readers
from farmiq.kit.postgres import Connection
from farmiq.stack.rabbitmq import NotEvaluated, RabbitMq

GROUP: Final = "cloud"
LETTERS_MAX: Final = 1_000_000
LOOK_SECONDS: Final = 1.0
EMPTY_LOOKS: Final = 3
"""So often in a row. A look goes from queue to queue, and a message that changes queues meanwhile may be in neither when it is
looked for; it stays for seconds where it went."""
NOT_OURS: Final = "This queue is not FarmIQ's: what its reader has not taken is lost with RabbitMQ's data."
_UNSENT: Final = "SELECT count(*) FROM telemetry_agg_unsent"

# From each queue's own state: what RabbitMQ shows elsewhere is up to five seconds old. What a consumer has in hand counts too.
_TOTALS: Final = """
[{{binary_to_list(element(4, amqqueue:get_name(Q))),
   case amqqueue:get_type(Q) of
     rabbit_quorum_queue ->
       case ra:leader_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1) of
         {{ok, {{_, Count}}, _}} -> Count;
         _ -> -1
       end;
     _ -> proplists:get_value(messages, rabbit_amqqueue:info(Q, [messages]), -1)
   end}} || Q <- rabbit_amqqueue:list(<<"{virtual_host}">>)].
"""
_TOTAL: Final = re.compile(r'\{"([^"]*)", (\d+)\}')


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """`in_hand`: delivered to a service and not acknowledged; None where RabbitMQ does not show it."""

    service: str
    queue: str
    waiting: int
    readers: int
    in_hand: int | None

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not self.in_hand

    @property
    def is_certainly_empty(self) -> bool:
        return not self.waiting and (self.in_hand == 0 or self.readers == 0)


class LetterState(msgspec.Struct, frozen=True, kw_only=True):
    service: str
    in_queue: int
    saved: int


class BusState(msgspec.Struct, frozen=True, kw_only=True):
    """`other_queues`: messages in the queues of other programs; None where RabbitMQ does not show them."""

    drain: Drain | None
    queues: list[QueueState]
    dead_letters: list[LetterState]
    other_queues: dict[str, int] | None
    aggregates_unpublished: int

    @property
    def are_queues_empty(self) -> bool:
        return all(queue.is_empty for queue in self.queues)

    @property
    def is_empty(self) -> bool:
        return self.are_queues_empty and not any(letters.in_queue for letters in self.dead_letters)

    @property
    def is_certainly_empty(self) -> bool:
        return self.is_empty and all(queue.is_certainly_empty for queue in self.queues)


async def drain(cloud: Cloud, bus: Bus, timeout_seconds: float, watch: Callable[[BusState], None]) -> BusState:
    """Close the intake, wait, save the dead letters. What the last look showed, also when the time was too short."""
    async with connected(cloud, GROUP) as database:
        await drains.begin(database, person())
        try:
            async with connected_bus(bus.amqp_url, "farmiq-drain") as broker:
                look = _looking(database, broker, bus)
                return await _until_empty(database, bus, look, watch, time.monotonic() + timeout_seconds)
        except BusAway as error:
            raise CommandFailed(
                "RabbitMQ can't be looked into",
                why=f"{error}. The cloud takes no events from now on.",
                fix="the same command again when RabbitMQ runs; or open the intake: farmiq cloud resume",
            ) from error


async def state(cloud: Cloud, bus: Bus) -> BusState:
    async with connected(cloud, GROUP) as database, connected_bus(bus.amqp_url, "farmiq-drain") as broker:
        return await _looking(database, broker, bus)()


async def resume(cloud: Cloud) -> Drain | None:
    async with connected(cloud, GROUP) as database:
        return await drains.end(database, person())


async def _until_empty(
    database: Connection,
    bus: Bus,
    look: Callable[[], Awaitable[BusState]],
    watch: Callable[[BusState], None],
    deadline: float,
) -> BusState:
    empty_looks = 0
    while True:
        seen = await look()
        if seen.are_queues_empty and not seen.is_empty:
            await _save_letters(database, bus, seen.dead_letters)
            seen = await look()
        watch(seen)
        empty_looks = empty_looks + 1 if seen.is_empty else 0
        if empty_looks >= EMPTY_LOOKS or time.monotonic() > deadline:
            return seen
        await asyncio.sleep(LOOK_SECONDS)


async def _save_letters(database: Connection, bus: Bus, letters: Sequence[LetterState]) -> None:
    for one in letters:
        if one.in_queue:
            queue = WORK_QUEUES[one.service].dead_letter_queue
            async with alone_with(database, queue):
                await collect(database, bus.amqp_url, queue, LETTERS_MAX)


def _looking(database: Connection, broker: AbstractConnection, bus: Bus) -> Callable[[], Awaitable[BusState]]:
    server, virtual_host = own_server(bus), virtual_host_of(bus.amqp_url)

    async def look() -> BusState:
        exact = await _totals(server, virtual_host) if server else None
        shown = exact
        if exact is None and bus.management_url is not None:
            shown = await messages_over_management(bus.management_url, virtual_host)
        return BusState(
            drain=await drains.current(database),
            queues=[
                await _queue(broker, service, name, exact)
                for service, work in WORK_QUEUES.items()
                for name in work.queue_names()
                if name != work.dead_letter_queue
            ],
            dead_letters=[await _letters(database, broker, service) for service in WORK_QUEUES],
            other_queues=None if shown is None else _others(shown),
            aggregates_unpublished=int(await database.fetchval(_UNSENT)),
        )

    return look


async def _queue(broker: AbstractConnection, service: str, name: str, totals: Mapping[str, int] | None) -> QueueState:
    waiting, readers = await depth_and_readers(broker, name) or (0, 0)
    in_hand = None if totals is None else max(0, totals.get(name, 0) - waiting)
    return QueueState(service=service, queue=name, waiting=waiting, readers=readers, in_hand=in_hand)


async def _letters(database: Connection, broker: AbstractConnection, service: str) -> LetterState:
    queue = WORK_QUEUES[service].dead_letter_queue
    waiting, _ = await depth_and_readers(broker, queue) or (0, 0)
    return LetterState(service=service, in_queue=waiting, saved=await saved.count(database, queue))


async def _totals(server: RabbitMq, virtual_host: str) -> dict[str, int]:
    try:
        answer = await server.evaluate(_TOTALS.format(virtual_host=virtual_host))
    except NotEvaluated as error:
        raise BusAway(f"RabbitMQ does not count its messages: {error}") from error
    return {name: int(count) for name, count in _TOTAL.findall(answer)}


def _others(totals: Mapping[str, int]) -> dict[str, int]:
    own = {name for work in WORK_QUEUES.values() for name in work.queue_names()}
    return {name: count for name, count in sorted(totals.items()) if name not in own}


# --- As a person reads it ------------------------------------------------------------------------------------------------------


def show(seen: BusState) -> None:
    say(_intake(seen.drain))
    for queue in seen.queues:
        if not queue.is_empty:
            say(f"{queue.queue}: {_messages(queue.waiting + (queue.in_hand or 0))} left. {why(queue)}")
    if seen.are_queues_empty:
        say("The work queues and the retry queues are empty.")
    for letters in seen.dead_letters:
        if letters.in_queue or letters.saved:
            say(f"{letters.service}: {letters.saved:,} dead letters are saved, {letters.in_queue:,} are in the queue.")
    if seen.aggregates_unpublished:
        say(
            f"{seen.aggregates_unpublished:,} aggregates are in the database; they are published when the cloud takes events."
        )
    if seen.other_queues is None:
        say("Queues of other programs can't be seen over AMQP. On the broker: rabbitmqctl list_queues name messages")
    for name, count in (seen.other_queues or {}).items():
        say(f"{name}: {_messages(count)}. {NOT_OURS}")


def why(queue: QueueState) -> str:
    if is_retry(queue):
        return "They failed and wait for another try, for five minutes at most."
    if not queue.readers:
        return f"Nobody reads it: start {queue.service}."
    return f"{queue.service} is reading it."


def is_retry(queue: QueueState) -> bool:
    return queue.queue != WORK_QUEUES[queue.service].name


def progress(seen: BusState) -> str:
    left = sum(queue.waiting + (queue.in_hand or 0) for queue in seen.queues)
    unread = sorted(
        {queue.service for queue in seen.queues if queue.waiting and not (queue.readers or is_retry(queue))}
    )
    return f"{_messages(left)} left" + (f"; nobody reads the queue of {', '.join(unread)}" if unread else "")


def _intake(drain: Drain | None) -> str:
    return "The cloud takes events." if drain is None else f"The cloud is {drain}: edges keep their events."


def _messages(count: int) -> str:
    return f"{count:,} message" if count == 1 else f"{count:,} messages"
