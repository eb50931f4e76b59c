"""The way in from the bus, for every service: take a micro-batch, make it durable, only then acknowledge it.

What becomes of a message:

- durable, or nothing to do here: acknowledged.
- never good (`read` refuses it, `commit` refuses it, or alone it does not go into the database): to the dead letters at once.
- failed in a way that nobody foresaw: to the retry queues, each with a longer wait, and to the dead letters after the last.
- a neighbour is away (PostgreSQL, whatever raises `Transient`): held and tried again. That costs no message an attempt.

A message that changes queues keeps its body, id and headers; `bus_headers` says what is added. Killed between the other queue's
confirmation and the acknowledgement here, it is in both, and whoever stores it recognises the second.

Asked to stop, a worker takes no more, finishes what it has in hand, and gives the rest back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from farmiq.kit.amqp import Consumer, Publisher
from farmiq.kit.bus_failures import Mover
from farmiq.kit.bus_metrics import BusMetrics
from farmiq.kit.bus_work import Failure, Outcome, Refusal, Work, work_through
from farmiq.kit.errors import Fatal, Transient
from farmiq.kit.lifecycle import CANCEL_SECONDS, Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY
from farmiq.kit.retry import Backoff
from farmiq.kit.work_queue import WorkQueue

__all__ = ["BusWorker", "Failure", "Outcome", "Refusal", "Work", "run_bus_worker", "work_through"]

DRAIN_SECONDS: Final = 10.0
WATCH_INTERVAL_SECONDS: Final = 10.0
AWAY_OR_BUSY: Final[tuple[type[BaseException], ...]] = (*RETRY, Transient)

Item = TypeVar("Item")
CountSaved = Callable[[str], Awaitable[int]]

log = get_logger(__name__)


class BusWorker:
    """One work queue and what is needed to empty it. At most two micro-batches are here and not acknowledged."""

    def __init__(
        self,
        url: str,
        queue: WorkQueue,
        *,
        name: str,
        batch_messages: int = 200,
        batch_wait_seconds: float = 0.02,
    ) -> None:
        self.queue = queue
        self.batch_messages = batch_messages
        self.batch_wait_seconds = batch_wait_seconds
        topology = queue.topology()
        self.consumer = Consumer(url, queue.name, name=name, prefetch=batch_messages * 2, topology=topology)
        # On a connection of its own: RabbitMQ stops reading from publishers when it is short of memory or disk, and
        # acknowledgements, which make room, would be stopped with them.
        self.publisher = Publisher(url, name=f"{name}-failures", topology=topology)

    async def start(self) -> None:
        await self.consumer.start()
        await self.publisher.start()

    async def stop(self) -> None:
        await self.consumer.stop()
        await self.publisher.stop()


async def run_bus_worker(
    life: Lifetime,
    worker: BusWorker,
    work: Work[Item],
    *,
    metrics: BusMetrics | None = None,
    count_saved: CountSaved | None = None,
) -> None:
    """Until the service is asked to stop. Cut anywhere, it loses nothing: what was not acknowledged comes again.

    `count_saved` counts the dead letters of a queue that were moved into the database; they wait for a person as the others do.
    """
    metrics = metrics or BusMetrics(life.registry)
    metrics.expect(worker.queue.name)
    await worker.start()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_watch_queues(life, worker, metrics, count_saved))
            group.create_task(_until_drained(life, worker, _consume(life, worker, work, metrics)))
    finally:
        await worker.stop()


async def _consume(life: Lifetime, worker: BusWorker, work: Work[Item], metrics: BusMetrics) -> None:
    """Ends when the consumer is drained, or when it is time to stop and a neighbour is away."""
    queue, consumer = worker.queue.name, worker.consumer
    mover = Mover(life, worker.queue, consumer, worker.publisher, metrics)
    while deliveries := await consumer.next_batch(worker.batch_messages, worker.batch_wait_seconds):
        metrics.batch_messages.labels(queue).observe(len(deliveries))
        metrics.redelivered.labels(queue).inc(sum(one.is_redelivered for one in deliveries))
        with metrics.batch_seconds.labels(queue).time():
            outcome = await _until_durable(life, queue, metrics, partial(work_through, work, deliveries))
            if outcome is None:
                return
            await consumer.acknowledge(outcome.done)
            metrics.done.labels(queue).inc(len(outcome.done))
            await mover.move(outcome.failures)


async def _until_durable(
    life: Lifetime, queue: str, metrics: BusMetrics, attempt: Callable[[], Awaitable[Outcome]]
) -> Outcome | None:
    """None when the service stops and the neighbour is still away: what is in hand goes back to the queue."""
    backoff = Backoff(base_seconds=0.05, cap_seconds=2.0)
    while True:
        try:
            return await attempt()
        except AWAY_OR_BUSY as error:
            code = error.code if isinstance(error, Transient) else "database_away"
            metrics.held.labels(queue, code).inc()
            if backoff.failures == 0:
                log.warning("batch_held", queue=queue, code=code, reason=str(error) or type(error).__name__)
        if not await life.pause(backoff.next_seconds()):
            return None


async def _until_drained(life: Lifetime, worker: BusWorker, consuming: Coroutine[Any, Any, None]) -> None:
    task, stopping = asyncio.create_task(consuming), asyncio.create_task(life.stopping.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        worker.consumer.drain()
        await asyncio.wait({task}, timeout=DRAIN_SECONDS)
    finally:
        stopping.cancel()
        while not task.done():
            # Once is not always enough: a driver that is just connecting may take a cancellation for a failed connection.
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_SECONDS)
    if not task.cancelled():
        task.result()
    elif not life.stopping.is_set():
        raise Fatal("The bus worker was cancelled from inside and has ended")


async def _watch_queues(life: Lifetime, worker: BusWorker, metrics: BusMetrics, count_saved: CountSaved | None) -> None:
    dead_letters = worker.queue.dead_letter_queue
    while True:
        metrics.connected.labels(worker.queue.name).set(worker.consumer.is_connected)
        try:
            depths = await worker.publisher.depths(worker.queue.queue_names())
            await worker.publisher.bind_again()
            # After the queue: a letter that moves meanwhile is seen at least once.
            saved = await count_saved(dead_letters) if count_saved else 0
        except AWAY_OR_BUSY:
            depths, saved = {}, 0  # what was seen last stays: no depth is not a depth of nothing
        for queue, messages in depths.items():
            metrics.waiting.labels(queue).set((messages or 0) + (saved if queue == dead_letters else 0))
        if not await life.pause(WATCH_INTERVAL_SECONDS if depths else 1.0):
            return
