"""The course of an action on dead letters, the same for all: written down, gone through page by page, counted, finished."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import msgspec

from farmiq.cloud.dead_letters import audit, saved
from farmiq.cloud.dead_letters.audit import Asked, Counts, alone_with
from farmiq.cloud.dead_letters.collection import collect
from farmiq.cloud.dead_letters.filters import matches
from farmiq.cloud.dead_letters.saved import SavedLetter
from farmiq.kit.errors import Transient
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection

log = get_logger(__name__)

OnProgress = Callable[[Counts, int], None]
"""The counts so far, and how many letters there were at the start."""


class Result(msgspec.Struct, frozen=True):
    """`messages` were there at the start. Those that failed are still there."""

    action_id: UUID
    messages: int
    counts: Counts


class Taken(msgspec.Struct, frozen=True):
    """Of the letters that were meant: how many are safe elsewhere and settled, how many stay, and why nothing more is tried."""

    done: int = 0
    failed: int = 0
    error: Transient | None = None


Take = Callable[[UUID, Sequence[SavedLetter]], Awaitable[Taken]]


class Course:
    def __init__(
        self, connection: Connection, asked: Asked, take: Take, seen_max: int, on_progress: OnProgress | None
    ) -> None:
        self._connection = connection
        self._asked = asked
        self._take = take
        self._seen_max = seen_max
        self._on_progress = on_progress
        self._counts = Counts()
        self._messages = 0

    async def run(self, amqp_url: str) -> Result:
        action_id = await audit.begin(self._connection, self._asked)
        told = {"action_id": str(action_id), "kind": self._asked.kind, "queue": self._asked.queue}
        log.info("dead_letter_action_begun", **told, asked_by=self._asked.asked_by, is_dry_run=self._asked.is_dry_run)
        try:
            async with alone_with(self._connection, self._asked.queue):
                self._messages = await collected(self._connection, amqp_url, self._asked.queue, self._seen_max)
                await self._go_through(action_id)
        except (Exception, asyncio.CancelledError) as error:
            with contextlib.suppress(*RETRY):
                await audit.finish(self._connection, action_id, str(error) or "cut short")
            raise
        await audit.finish(self._connection, action_id)
        log.info("dead_letter_action_finished", **told, matched=self._counts.matched, done=self._counts.done)
        return Result(action_id, self._messages, self._counts)

    async def _go_through(self, action_id: UUID) -> None:
        async for page in saved.pages(self._connection, self._asked.queue, self._seen_max):
            await self._handle(action_id, page)
            if self._has_enough():
                return

    async def _handle(self, action_id: UUID, page: Sequence[SavedLetter]) -> None:
        counts, limit = self._counts, self._asked.messages_max
        meant = [one for one in page if matches(self._asked.wanted, one.letter)]
        meant = meant if limit is None else meant[: limit - counts.matched]
        taken = Taken() if self._asked.is_dry_run or not meant else await self._take(action_id, meant)
        counts.seen += len(page)
        counts.matched += len(meant)
        counts.done += taken.done
        counts.failed += taken.failed
        await audit.count(self._connection, action_id, counts)
        if self._on_progress is not None:
            self._on_progress(counts, self._messages)
        if taken.error is not None:
            raise taken.error

    def _has_enough(self) -> bool:
        limit = self._asked.messages_max
        return limit is not None and self._counts.matched >= limit


async def collected(connection: Connection, amqp_url: str, queue: str, letters_max: int) -> int:
    """How many letters there are, in the database and in the queue. Up to `letters_max` of them are in the database by then.

    For whoever has the queue for himself, with `alone_with`.
    """
    room = max(0, letters_max - await saved.count(connection, queue))
    left = await collect(connection, amqp_url, queue, room)
    return await saved.count(connection, queue) + left
