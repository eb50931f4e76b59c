"""Where a message goes that was not stored, and how it gets there: the other queue confirms it, then it is acknowledged here."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from farmiq.kit import bus_headers
from farmiq.kit.amqp import Consumer, Outgoing, Publisher
from farmiq.kit.bus_metrics import BusMetrics
from farmiq.kit.bus_work import Failure
from farmiq.kit.ids import new_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.retry import Backoff
from farmiq.kit.work_queue import WorkQueue

log = get_logger(__name__)


class Step(msgspec.Struct, frozen=True):
    """A failed message on its way out of its queue. Without a `message` it is RabbitMQ that moves it, as it is."""

    failure: Failure
    attempts: int
    is_last: bool
    message: Outgoing | None


def step_of(queue: WorkQueue, failure: Failure, failed_at: datetime) -> Step:
    delivery = bus_headers.as_first_published(failure.delivery)
    attempts = bus_headers.attempts_of(delivery.headers) + 1
    retry_queue = queue.retry_queue(attempts) if failure.may_pass else None
    headers = bus_headers.failed_headers(
        delivery,
        queue=queue.name,
        code=failure.code,
        detail=failure.detail,
        attempts=attempts,
        failed_at=failed_at,
    )
    if retry_queue is not None:
        headers = bus_headers.without_deaths(headers)
    if not bus_headers.can_be_sent(headers):
        return Step(failure, attempts, is_last=True, message=None)
    message = Outgoing(
        "",
        retry_queue or queue.dead_letter_queue,
        delivery.body,
        # A message of another client may have none. It needs one to be told from the others when it comes back unrouted.
        delivery.message_id or str(new_id()),
        headers,
        delivery.properties,
    )
    return Step(failure, attempts, is_last=retry_queue is None, message=message)


class Mover:
    def __init__(
        self, life: Lifetime, queue: WorkQueue, consumer: Consumer, publisher: Publisher, metrics: BusMetrics
    ) -> None:
        self._life = life
        self._queue = queue
        self._consumer = consumer
        self._publisher = publisher
        self._metrics = metrics

    async def move(self, failures: Sequence[Failure]) -> None:
        """Until another queue has each of them, or its own will deliver it again: its connection ended, or the service stops."""
        now = self._life.clock.now()
        steps = [step_of(self._queue, failure, now) for failure in failures]
        for step in steps:
            if step.message is None:
                await self._consumer.dead_letter([step.failure.delivery])
                self._note(step)
        backoff = Backoff(base_seconds=0.05, cap_seconds=2.0)
        left = [step for step in steps if step.message is not None]
        while left:
            left = await self._publish(left)
            if left and not await self._life.pause(backoff.next_seconds()):
                return

    async def _publish(self, steps: Sequence[Step]) -> list[Step]:
        """Answers those that no queue has yet and that are still ours."""
        answers = await self._publisher.publish_many([step.message for step in steps if step.message is not None])
        for step, answer in zip(steps, answers, strict=True):
            if answer is None:
                await self._consumer.acknowledge([step.failure.delivery])
                self._note(step)
        refused = [step for step, answer in zip(steps, answers, strict=True) if answer is not None]
        return [step for step in refused if self._consumer.holds(step.failure.delivery)]

    def _note(self, step: Step) -> None:
        failure, delivery = step.failure, bus_headers.as_first_published(step.failure.delivery)
        told = {
            "queue": self._queue.name,
            "reason": failure.code,
            "detail": failure.detail[: bus_headers.DETAIL_LENGTH_MAX],
            "event_id": delivery.message_id,
            "routing_key": delivery.routing_key,
            "attempts": step.attempts,
        }
        if step.is_last:
            self._metrics.count_dead_letter(self._queue.name, failure.code)
            log.error("message_dead_lettered", **told)
        else:
            self._metrics.count_retry(self._queue.name, failure.code)
            log.warning("message_retry_scheduled", **told)
