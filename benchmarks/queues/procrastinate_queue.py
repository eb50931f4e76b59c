"""procrastinate: one worker, many jobs at a time, deferred in batches. What has succeeded is deleted, which is cheaper."""

import asyncio
from contextlib import suppress

import procrastinate  # type: ignore[import-not-found]  # installed in .venv-peers only

from queues import PAYLOAD, Queue

CONCURRENCY = 20
FILL_BATCH = 5_000


class Worker(Queue):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.done = 0
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=CONCURRENCY)
        self.app = procrastinate.App(connector=connector)
        self.task = self.app.task(self._forward, name="forward")

    async def install(self) -> None:
        async with self.app.open_async():
            await self.app.schema_manager.apply_schema_async()

    async def fill(self, events: int) -> None:
        async with self.app.open_async():
            for start in range(0, events, FILL_BATCH):
                count = min(FILL_BATCH, events - start)
                await self.task.batch_defer_async(*({"payload": PAYLOAD.decode()} for _ in range(count)))

    async def drain(self, limit_seconds: float) -> int:
        async with self.app.open_async():
            worker = self.app.run_worker_async(
                concurrency=CONCURRENCY, wait=False, listen_notify=False, delete_jobs="always",
                install_signal_handlers=False,
            )  # fmt: skip
            with suppress(TimeoutError):
                await asyncio.wait_for(worker, limit_seconds)
        return self.done

    async def _forward(self, payload: str) -> None:  # noqa: ARG002 - a job is called with what it was deferred with
        self.done += 1
