"""What a service does with messages, and what becomes of each. Knows nothing of RabbitMQ but the shape of a delivery.

A service says two things: what a message means (`read`), and how a few of them become durable together (`commit`). Which of them
failed, alone or with others, and whether another try could help, is found out here.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import asyncpg
import msgspec

from farmiq.kit.amqp import Delivery
from farmiq.kit.bus_headers import as_first_published
from farmiq.kit.errors import Fatal, Rejected, Transient
from farmiq.kit.logging import get_logger
from farmiq.kit.micro_batch import UNFIT, together_or_alone
from farmiq.kit.postgres import RETRY

Item = TypeVar("Item")

log = get_logger(__name__)


class Refusal(msgspec.Struct, frozen=True):
    """Why one message of a micro-batch can never be stored. `code` is stable, `detail` is for a person."""

    code: str
    detail: str


class Work(Protocol, Generic[Item]):
    def read(self, delivery: Delivery) -> Item | None:
        """What the message holds, decided from the message alone; None when there is nothing to do with it here.

        Raises a `Rejected`, or anything else with a `code`, when it will never be good.
        """

    async def commit(self, items: Sequence[Item]) -> Sequence[Refusal | None]:
        """One transaction for all of them: when this returns, they are durable. An answer for each, in their order.

        It is called again with the same items after an error or a lost answer, together or in smaller groups: it is idempotent.
        """


class Failure(msgspec.Struct, frozen=True):
    """A message that was not stored. `may_pass`: it was nothing that we know, so another try may help."""

    delivery: Delivery
    code: str
    detail: str
    may_pass: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """Every delivery is in one of the two. Those that are done are durable, or there was nothing to do."""

    done: list[Delivery]
    failures: list[Failure]


class Unexpected(Rejected):
    """Handling this message failed in a way that nobody foresaw. It is tried again a few times, then kept as a dead letter."""

    code = "unexpected_error"


Answer = tuple[Delivery, Failure | None]

_UNDERSTOOD: tuple[type[BaseException], ...] = (*RETRY, *UNFIT, asyncpg.PostgresError, Transient, Fatal)


async def work_through(work: Work[Item], deliveries: Sequence[Delivery]) -> Outcome:
    """Raises what is no message's fault: a database that is away (`RETRY`, `Transient`), or is not as it should be."""
    done: list[Delivery] = []
    failures: list[Failure] = []
    items: list[tuple[Delivery, Item]] = []
    for delivery in deliveries:
        read = _read(work, delivery)
        if isinstance(read, Failure):
            failures.append(read)
        elif read is None:
            done.append(delivery)
        else:
            items.append((delivery, read))
    for delivery, failure in await _commit(work, items) if items else []:
        if failure is None:
            done.append(delivery)
        else:
            failures.append(failure)
    return Outcome(done, failures)


def _read(work: Work[Item], delivery: Delivery) -> Item | Failure | None:
    try:
        return work.read(as_first_published(delivery))
    except Fatal:
        raise
    except Exception as error:
        code = getattr(error, "code", None)
        if isinstance(code, str):
            return Failure(delivery, code, str(getattr(error, "detail", error)))
        # The same bytes would fail in the same way: another try is of no use before our code is another.
        log.exception("message_reading_failed", event_id=delivery.message_id)
        return Failure(delivery, "unreadable", f"{type(error).__name__}: {error}")


async def _commit(work: Work[Item], items: Sequence[tuple[Delivery, Item]]) -> list[Answer]:
    told: set[str] = set()

    async def commit(group: Sequence[tuple[Delivery, Item]]) -> list[Answer]:
        refusals = await _expecting(work, [item for _, item in group], told)
        return [(delivery, _failure(delivery, refusal)) for (delivery, _), refusal in zip(group, refusals, strict=True)]

    async def set_aside(one: tuple[Delivery, Item], error: Exception) -> list[Answer]:
        code = error.code if isinstance(error, Rejected) else "not_storable"
        # PostgreSQL's second line would quote the row.
        detail = str(error).partition("\n")[0]
        return [(one[0], Failure(one[0], code, detail, may_pass=isinstance(error, Unexpected)))]

    return [answer for answers in await together_or_alone(items, commit, set_aside) for answer in answers]


async def _expecting(work: Work[Item], items: Sequence[Item], told: set[str]) -> Sequence[Refusal | None]:
    """What PostgreSQL says about anything but a message's content is about us, and ends the service with nothing acknowledged.

    A bug has the same traceback for every message that meets it: it is told once for each micro-batch.
    """
    try:
        return await work.commit(items)
    except _UNDERSTOOD:
        raise
    except Exception as error:
        if type(error).__name__ not in told:
            told.add(type(error).__name__)
            log.exception("message_handling_failed", messages=len(items))
        raise Unexpected(f"{type(error).__name__}: {error}") from error


def _failure(delivery: Delivery, refusal: Refusal | None) -> Failure | None:
    return None if refusal is None else Failure(delivery, refusal.code, refusal.detail)
