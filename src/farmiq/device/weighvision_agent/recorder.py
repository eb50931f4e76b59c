"""The queue on a thread of its own: the disk may take its time, and the event loop goes on."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from farmiq.contracts.ack import DeviceAck
from farmiq.device.weighvision_agent.database import QueueFailed
from farmiq.device.weighvision_agent.drops import Limits
from farmiq.device.weighvision_agent.losses import Lost
from farmiq.device.weighvision_agent.messages import Messages
from farmiq.device.weighvision_agent.queue import Queue
from farmiq.device.weighvision_agent.replay import Settled
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Fatal
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger

HOUSE_SECONDS = 10.0

T = TypeVar("T")

log = get_logger(__name__)


class QueueDamaged(Fatal):
    """The station's queue can't be read any more. At the next start it is set aside, declared lost, and a new one begins."""

    code = "queue_damaged"


class Recorder:
    """Every call on the queue goes through `run`, one after the other."""

    def __init__(self, queue: Queue, thread: ThreadPoolExecutor) -> None:
        self._queue = queue
        self._thread = thread
        self.epoch = queue.epoch  # of the edge, as it is known on disk
        self.events_added = asyncio.Event()
        self.pictures_added = asyncio.Event()

    @classmethod
    async def open(cls, folder: Path, limits: Limits, messages: Messages, clock: Clock) -> "Recorder":
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="queue")
        queue = await asyncio.get_running_loop().run_in_executor(thread, Queue, folder, limits, messages, clock)
        return cls(queue, thread)

    async def run(self, work: Callable[[Queue], T], at_stake: Sequence[Lost] = ()) -> T:
        """What `work` answers, committed. Or `QueueFailed`, and nothing of it has happened: what was `at_stake` is lost then,
        and will be declared. Nothing is at stake for whoever tries again."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._attempt, work, at_stake)

    async def record(self, work: Callable[[Queue], T], at_stake: Sequence[Lost] = ()) -> T:
        """The same, and whoever sends is told that there may be something new."""
        answer = await self.run(work, at_stake)
        self.events_added.set()
        self.pictures_added.set()
        return answer

    async def settle(self, ack: DeviceAck, *, is_back: bool) -> Settled:
        settled = await self.record(lambda queue: queue.settle(ack, is_back=is_back))
        self.epoch = ack.epoch
        return settled

    async def keep_house(self, life: Lifetime) -> None:
        while await life.pause(HOUSE_SECONDS):
            try:
                await self.record(lambda queue: queue.keep_house())
            except QueueFailed as error:
                log.error("house_not_kept", reason=str(error))  # noqa: TRY400 - nothing is lost by it; tried again

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._queue.close)
        self._thread.shutdown()

    def _attempt(self, work: Callable[[Queue], T], at_stake: Sequence[Lost]) -> T:
        try:
            return work(self._queue)
        except (sqlite3.OperationalError, OSError) as error:
            self._queue.not_taken(at_stake)
            raise QueueFailed(str(error)) from error
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
                raise
            raise QueueDamaged(f"the queue is damaged: {error}") from error
