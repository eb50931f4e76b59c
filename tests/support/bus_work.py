"""A small service on the bus: a number becomes a row. What it is told in the body decides how it fails."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from farmiq.kit.amqp import Delivery, Outgoing, Publisher
from farmiq.kit.amqp_topology import Binding
from farmiq.kit.bus_worker import BusWorker, Refusal, run_bus_worker
from farmiq.kit.errors import Rejected
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.postgres import Pool
from farmiq.kit.work_queue import WorkQueue

EXCHANGE = "farmiq.telemetry.exchange"
ROUTING_KEY = "telemetry.ingested"
QUEUE = "farmiq.test-service.work.queue"
DEAD_LETTERS = "farmiq.test-service.dlq.queue"
WORK_QUEUE = WorkQueue(
    QUEUE,
    dead_letter_queue=DEAD_LETTERS,
    bindings=(Binding(EXCHANGE, QUEUE, "telemetry.#"),),
    retry_seconds=(0.1, 0.2, 0.4),
    rest_seconds=0.0,
)
TABLE = "CREATE TABLE numbers (number int PRIMARY KEY CHECK (number <> 13), tries int NOT NULL)"


class NotANumber(Rejected):
    """A body that is no number."""

    code = "not_a_number"


@dataclasses.dataclass
class Numbers:
    """`read` wants a number. Of those in `bugs` each fails as often as it says, in a way that nobody foresaw."""

    pool: Pool
    bugs: dict[int, int] = dataclasses.field(default_factory=dict)
    refused: frozenset[int] = frozenset()
    seen: list[Delivery] = dataclasses.field(default_factory=list)
    sizes: list[int] = dataclasses.field(default_factory=list)
    before_commit: Callable[[], None] = lambda: None

    def read(self, delivery: Delivery) -> int | None:
        self.seen.append(delivery)
        if delivery.body == b"nothing":
            return None
        if delivery.body == b"bug":
            raise KeyError("a bug of ours")
        if not delivery.body.isdigit():
            raise NotANumber(f"{delivery.body.decode('utf-8', 'replace')} is no number")
        return int(delivery.body)

    async def commit(self, items: Sequence[int]) -> list[Refusal | None]:
        self.sizes.append(len(items))
        self.before_commit()
        for number in items:
            if self.bugs.get(number, 0) > 0:
                if len(items) == 1:
                    self.bugs[number] -= 1
                raise LookupError(f"nobody foresaw {number}")
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.executemany(
                "INSERT INTO numbers AS n VALUES ($1, 1) ON CONFLICT (number) DO UPDATE SET tries = n.tries + 1",
                [(number,) for number in items if number not in self.refused],
            )
        return [Refusal("refused", "not this one") if number in self.refused else None for number in items]

    async def stored(self) -> list[int]:
        return [row["number"] for row in await self.pool.fetch("SELECT number FROM numbers ORDER BY 1")]


@asynccontextmanager
async def working(
    url: str, work: Numbers, life: Lifetime | None = None, queue: WorkQueue = WORK_QUEUE, batch_messages: int = 20
) -> AsyncIterator[BusWorker]:
    """A worker inside this loop, from start to an orderly stop."""
    life = life or Lifetime("test-service")
    worker = BusWorker(url, queue, name="test", batch_messages=batch_messages, batch_wait_seconds=0.01)
    task = asyncio.create_task(run_bus_worker(life, worker, work))
    try:
        async with asyncio.timeout(20):
            await worker.consumer.wait_connected()
            await worker.publisher.wait_connected()
        yield worker
    finally:
        life.stopping.set()
        await task


@asynccontextmanager
async def publishing(url: str, queue: WorkQueue = WORK_QUEUE) -> AsyncIterator[Publisher]:
    publisher = Publisher(url, name="test", topology=queue.topology())
    await publisher.start()
    try:
        await asyncio.wait_for(publisher.wait_connected(), 20)
        yield publisher
    finally:
        await publisher.stop()


async def publish(publisher: Publisher, *bodies: bytes | int) -> None:
    encoded = [body if isinstance(body, bytes) else str(body).encode() for body in bodies]
    messages = [
        Outgoing(
            EXCHANGE, ROUTING_KEY, body, f"id-{number}-{body[:20].decode('utf-8', 'replace')}", {"x-trace-id": "t-1"}
        )
        for number, body in enumerate(encoded)
    ]
    assert await publisher.publish_many(messages) == [None] * len(messages)
