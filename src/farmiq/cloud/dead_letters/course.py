"""The course of an action on dead letters, the same for all: written down, gone through window by window, counted, finished."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from farmiq.cloud.dead_letters import audit
from farmiq.cloud.dead_letters.audit import Asked, Counts, alone_with
from farmiq.cloud.dead_letters.filters import matches
from farmiq.cloud.dead_letters.letters import letter_of
from farmiq.cloud.dead_letters.walk import Walk, walking
from farmiq.kit.amqp import Delivery
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Transient
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection

WALK_SECONDS_MAX: Final = 900.0
"""RabbitMQ takes a message away from whoever has held it for half an hour. A slow replay therefore goes in several walks."""

log = get_logger(__name__)

OnProgress = Callable[[Counts, int], None]
"""The counts so far, and how many letters there were at the start."""


class Result(msgspec.Struct, frozen=True):
    """`messages` were in the queue at the start. Those that failed are still there."""

    action_id: UUID
    messages: int
    counts: Counts


class Taken(msgspec.Struct, frozen=True):
    """Of the letters that were meant: which are safe elsewhere, how many stay, and why nothing more is tried."""

    done: Sequence[Delivery]
    failed: int = 0
    error: Transient | None = None


Take = Callable[[UUID, Sequence[Delivery]], Awaitable[Taken]]


class Course:
    def __init__(
        self,
        connection: Connection,
        asked: Asked,
        take: Take,
        seen_max: int,
        clock: Clock,
        on_progress: OnProgress | None,
    ) -> None:
        self._connection = connection
        self._asked = asked
        self._take = take
        self._seen_max = seen_max
        self._clock = clock
        self._on_progress = on_progress
        self._counts = Counts()
        self._messages = 0

    async def run(self, amqp_url: str) -> Result:
        action_id = await audit.begin(self._connection, self._asked)
        told = {"action_id": str(action_id), "kind": self._asked.kind, "queue": self._asked.queue}
        log.info("dead_letter_action_begun", **told, asked_by=self._asked.asked_by, is_dry_run=self._asked.is_dry_run)
        try:
            async with alone_with(self._connection, self._asked.queue):
                await self._walk_until_over(amqp_url, action_id)
        except (Exception, asyncio.CancelledError) as error:
            with contextlib.suppress(*RETRY):
                await audit.finish(self._connection, action_id, str(error) or "cut short")
            raise
        await audit.finish(self._connection, action_id)
        log.info("dead_letter_action_finished", **told, matched=self._counts.matched, done=self._counts.done)
        return Result(action_id, self._messages, self._counts)

    async def _walk_until_over(self, amqp_url: str, action_id: UUID) -> None:
        is_over = False
        while not is_over:
            before = self._counts.done
            async with walking(amqp_url, self._asked.queue) as walk:
                self._messages = self._messages or walk.messages
                is_over = await self._go_through(walk, action_id)
            # A walk that was cut for its time and moved nothing would be followed by one just like it.
            is_over = is_over or self._counts.done == before

    async def _go_through(self, walk: Walk, action_id: UUID) -> bool:
        """False when it was cut because RabbitMQ would not wait any longer."""
        started = self._clock.monotonic()
        async for window in walk.windows(self._seen_max - self._counts.seen):
            await self._handle(walk, action_id, window)
            if self._has_enough():
                return True
            if self._clock.monotonic() - started > WALK_SECONDS_MAX:
                return False
        return True

    async def _handle(self, walk: Walk, action_id: UUID, window: Sequence[Delivery]) -> None:
        counts, limit = self._counts, self._asked.messages_max
        meant = [delivery for delivery in window if matches(self._asked.wanted, letter_of(delivery))]
        meant = meant if limit is None else meant[: limit - counts.matched]
        taken = Taken(()) if self._asked.is_dry_run or not meant else await self._take(action_id, meant)
        await walk.remove(taken.done)
        counts.seen += len(window)
        counts.matched += len(meant)
        counts.done += len(taken.done)
        counts.failed += taken.failed
        await audit.count(self._connection, action_id, counts)
        if self._on_progress is not None:
            self._on_progress(counts, self._messages)
        if taken.error is not None:
            raise taken.error

    def _has_enough(self) -> bool:
        limit = self._asked.messages_max
        return limit is not None and self._counts.matched >= limit
