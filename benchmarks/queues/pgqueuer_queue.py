"""pgqueuer, its tables logged and its autovacuum settings in force, as its installer leaves them.

Driven in two ways, each with the sizes of batch and numbers of workers that were fastest here: its QueueManager in drain mode,
which runs a task for each job; and by hand with the two statements below it, which is what a forwarder that sends batches
would do.
"""

import asyncio
import time
import uuid
from datetime import timedelta
from itertools import repeat

import asyncpg
from pgqueuer import PgQueuer  # type: ignore[import-not-found]  # installed in .venv-peers only
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]  # as above
from pgqueuer.models import Job  # type: ignore[import-not-found]  # as above
from pgqueuer.ports.repository import EntrypointExecutionParameter  # type: ignore[import-not-found]  # as above
from pgqueuer.queries import Queries  # type: ignore[import-not-found]  # as above
from pgqueuer.types import QueueEntrypoint, QueueExecutionMode, QueueManagerId  # type: ignore[import-not-found]  # as above

from queues import PAYLOAD, Queue

ENTRYPOINT = "forward"
FILL_BATCH = 10_000
HEARTBEAT = timedelta(seconds=120)


class Pgqueuer(Queue):
    """What both ways share."""

    async def install(self) -> None:
        await (await self.queries()).install()

    async def fill(self, events: int) -> None:
        queries = await self.queries()
        for start in range(0, events, FILL_BATCH):
            count = min(FILL_BATCH, events - start)
            await queries.enqueue([ENTRYPOINT] * count, [PAYLOAD] * count, [0] * count)

    async def queries(self) -> Queries:
        return Queries(AsyncpgDriver(await asyncpg.connect(self.url)))


class Batches(Pgqueuer):
    batch = 500
    loops = 2

    async def drain(self, limit_seconds: float) -> int:
        give_up_at = time.perf_counter() + limit_seconds
        return sum(await asyncio.gather(*(self._loop(give_up_at) for _ in range(self.loops))))

    async def _loop(self, give_up_at: float) -> int:
        queries, manager_id, done = await self.queries(), QueueManagerId(uuid.uuid4()), 0
        entrypoints = {QueueEntrypoint(ENTRYPOINT): EntrypointExecutionParameter(concurrency_limit=0)}
        while time.perf_counter() < give_up_at:
            jobs = await queries.dequeue(
                batch_size=self.batch,
                entrypoints=entrypoints,
                queue_manager_id=manager_id,
                global_concurrency_limit=None,
                heartbeat_timeout=HEARTBEAT,
            )
            if not jobs:
                break
            await queries.log_jobs(list(zip(jobs, repeat("successful"), repeat(None))))
            done += len(jobs)
        return done


class Managers(Pgqueuer):
    batch = 500
    managers = 2

    async def drain(self, limit_seconds: float) -> int:
        managers = [PgQueuer((await self.queries()).driver) for _ in range(self.managers)]
        before = await self._waiting()
        loop = asyncio.get_running_loop()
        loop.call_later(limit_seconds, lambda: [manager.shutdown.set() for manager in managers])
        await asyncio.gather(*(self._run(manager) for manager in managers))
        return before - await self._waiting()

    async def _run(self, manager: PgQueuer) -> None:
        @manager.entrypoint(ENTRYPOINT)  # type: ignore[untyped-decorator]  # as above
        async def forward(_job: Job) -> None:
            """Nothing to send, as in all the others."""

        await manager.run(batch_size=self.batch, mode=QueueExecutionMode.drain, heartbeat_timeout=HEARTBEAT)

    async def _waiting(self) -> int:
        connection = await asyncpg.connect(self.url)
        count: int = await connection.fetchval("SELECT count(*) FROM pgqueuer")
        await connection.close()
        return count
