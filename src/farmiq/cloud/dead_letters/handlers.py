"""What is done with dead letters. In order: the action is written down, letters are safe elsewhere, then settled."""

from collections.abc import Sequence
from uuid import UUID

from farmiq.cloud import drain
from farmiq.cloud.dead_letters import audit, losses, saved
from farmiq.cloud.dead_letters.audit import Asked, alone_with
from farmiq.cloud.dead_letters.course import Course, OnProgress, Result, Taken, collected
from farmiq.cloud.dead_letters.filters import EVERYTHING, Filter, matches
from farmiq.cloud.dead_letters.letters import replayed
from farmiq.cloud.dead_letters.losses import STORING_SERVICE, Declared
from farmiq.cloud.dead_letters.pace import Pace
from farmiq.cloud.dead_letters.saved import SavedLetter
from farmiq.cloud.dead_letters.summary import Groups, Summary
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.amqp import Publisher
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection


class NoSuchService(Rejected):
    """No service of this name has dead letters."""

    code = "no_such_service"


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
    queue, groups, seen = dead_letter_queue_of(service), Groups(), 0
    async with alone_with(connection, queue):
        messages = await collected(connection, amqp_url, queue, messages_max)
    async for page in saved.pages(connection, queue, messages_max):
        seen += len(page)
        for one in page:
            if matches(wanted, one.letter):
                groups.add(one.letter)
    return Summary(service, queue, messages, seen, groups.largest_first())


async def find(
    connection: Connection, amqp_url: str, service: str, wanted: Filter, *, limit: int, messages_max: int
) -> list[SavedLetter]:
    """The first that match."""
    queue, letters = dead_letter_queue_of(service), list[SavedLetter]()
    async with alone_with(connection, queue):
        await collected(connection, amqp_url, queue, messages_max)
    async for page in saved.pages(connection, queue, messages_max):
        letters += [one for one in page if matches(wanted, one.letter)][: limit - len(letters)]
        if len(letters) >= limit:
            break
    return letters


async def replay(
    connection: Connection,
    amqp_url: str,
    publisher: Publisher,
    asked: Asked,
    *,
    seen_max: int,
    pace: Pace,
    on_progress: OnProgress | None = None,
) -> Result:
    """Back into the queue of their service, as if they had never failed. Raises what RabbitMQ said when it took no more, or
    `Drained`."""
    queue = WORK_QUEUES[asked.service].name

    async def take(_action_id: UUID, letters: Sequence[SavedLetter]) -> Taken:
        return await _publish(connection, publisher, queue, letters, pace)

    return await Course(connection, asked, take, seen_max, on_progress).run(amqp_url)


async def discard(
    connection: Connection, amqp_url: str, asked: Asked, *, seen_max: int, on_progress: OnProgress | None = None
) -> Result:
    """Into `discarded_letters`, in the transaction that settles them and writes their losses into the ledger."""
    declared = Declared(asked.asked_by, asked.note, Clock().now())

    async def take(action_id: UUID, letters: Sequence[SavedLetter]) -> Taken:
        async with connection.transaction():
            await audit.keep(connection, action_id, letters)
            if asked.service == STORING_SERVICE:
                await losses.declare(connection, letters, declared)
            await saved.settle(connection, letters)
        return Taken(len(letters))

    return await Course(connection, asked, take, seen_max, on_progress).run(amqp_url)


async def _publish(
    connection: Connection, publisher: Publisher, queue: str, letters: Sequence[SavedLetter], pace: Pace
) -> Taken:
    messages = [(one, replayed(one.delivery, queue)) for one in letters]
    ready = [(one, message) for one, message in messages if message is not None]
    done = 0
    for first in range(0, len(ready), pace.at_once):
        part = ready[first : first + pace.at_once]
        await pace.wait(len(part))
        async with connection.transaction():
            await drain.enter(connection)
            answers = await publisher.publish_many([message for _, message in part])
            confirmed = [one for (one, _), answer in zip(part, answers, strict=True) if answer is None]
            await saved.settle(connection, confirmed)
        done += len(confirmed)
        error = next((answer for answer in answers if answer is not None), None)
        if error is not None:
            return Taken(done, len(letters) - done, error)
    return Taken(done, len(letters) - done)
