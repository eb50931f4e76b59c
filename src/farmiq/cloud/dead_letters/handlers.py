"""What is done with dead letters. In order: the action is written down, letters are taken, safe elsewhere, then removed."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from farmiq.cloud.dead_letters import audit
from farmiq.cloud.dead_letters.audit import Asked, alone_with
from farmiq.cloud.dead_letters.course import Course, OnProgress, Result, Taken
from farmiq.cloud.dead_letters.filters import EVERYTHING, Filter, matches
from farmiq.cloud.dead_letters.letters import Letter, letter_of, replayed
from farmiq.cloud.dead_letters.pace import Pace
from farmiq.cloud.dead_letters.summary import Groups, Summary
from farmiq.cloud.dead_letters.walk import walking
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.amqp import Delivery, Publisher
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection


class NoSuchService(Rejected):
    """No service of this name has dead letters."""

    code = "no_such_service"


class Found(msgspec.Struct, frozen=True):
    letter: Letter
    delivery: Delivery


def dead_letter_queue_of(service: str) -> str:
    if service not in WORK_QUEUES:
        raise NoSuchService(
            f"There are no dead letters of {service[:80]!r}; there are those of {', '.join(WORK_QUEUES)}"
        )
    return WORK_QUEUES[service].dead_letter_queue


async def summarize(
    connection: Connection, amqp_url: str, service: str, messages_max: int, wanted: Filter = EVERYTHING
) -> Summary:
    """Of all of them, or of some. Letters that could not be read belong to no tenant."""
    queue, groups = dead_letter_queue_of(service), Groups()
    async with alone_with(connection, queue), walking(amqp_url, queue) as walk:
        async for window in walk.windows(messages_max):
            for letter in map(letter_of, window):
                if matches(wanted, letter):
                    groups.add(letter)
    return Summary(service, queue, walk.messages, walk.seen, groups.largest_first())


async def find(
    connection: Connection, amqp_url: str, service: str, wanted: Filter, *, limit: int, messages_max: int
) -> list[Found]:
    """The first that match. All are looked at, so that the next look finds them in the same order."""
    queue, found = dead_letter_queue_of(service), list[Found]()
    async with alone_with(connection, queue), walking(amqp_url, queue) as walk:
        async for window in walk.windows(messages_max):
            letters = [Found(letter_of(delivery), delivery) for delivery in window]
            found += [one for one in letters if matches(wanted, one.letter)][: limit - len(found)]
    return found


async def replay(
    connection: Connection,
    amqp_url: str,
    publisher: Publisher,
    asked: Asked,
    *,
    seen_max: int,
    pace: Pace,
    clock: Clock,
    on_progress: OnProgress | None = None,
) -> Result:
    """Back into the queue of their service, as if they had never failed. Raises what RabbitMQ said when it took no more."""
    queue = WORK_QUEUES[asked.service].name

    async def take(_action_id: UUID, deliveries: Sequence[Delivery]) -> Taken:
        return await _publish(publisher, queue, deliveries, pace)

    return await Course(connection, asked, take, seen_max, clock, on_progress).run(amqp_url)


async def discard(
    connection: Connection,
    amqp_url: str,
    asked: Asked,
    *,
    seen_max: int,
    clock: Clock,
    on_progress: OnProgress | None = None,
) -> Result:
    """Out of the queue, and into `discarded_letters`."""

    async def take(action_id: UUID, deliveries: Sequence[Delivery]) -> Taken:
        await audit.keep(connection, action_id, deliveries)
        return Taken(deliveries)

    return await Course(connection, asked, take, seen_max, clock, on_progress).run(amqp_url)


async def _publish(publisher: Publisher, queue: str, deliveries: Sequence[Delivery], pace: Pace) -> Taken:
    messages = [(delivery, replayed(delivery, queue)) for delivery in deliveries]
    ready = [(delivery, message) for delivery, message in messages if message is not None]
    done: list[Delivery] = []
    for first in range(0, len(ready), pace.at_once):
        part = ready[first : first + pace.at_once]
        await pace.wait(len(part))
        answers = await publisher.publish_many([message for _, message in part])
        done += [delivery for (delivery, _), answer in zip(part, answers, strict=True) if answer is None]
        error = next((answer for answer in answers if answer is not None), None)
        if error is not None:
            return Taken(done, len(deliveries) - len(done), error)
    return Taken(done, len(deliveries) - len(done))
