"""The spool on a thread of its own: the disk may take its time, and the event loop goes on."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from farmiq.device.handover import Hello, Position, Row
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.spool import Channel, Limits, Spool, default_max_spool_bytes, fitting_segment_bytes

T = TypeVar("T")


class Recorder:
    """Every call on the spool but reading goes through `run`, one after the other."""

    def __init__(self, spool: Spool, thread: ThreadPoolExecutor) -> None:
        self.spool = spool
        self.stored = asyncio.Event()
        self._thread = thread

    @classmethod
    async def open(cls, settings: ForwarderSettings) -> "Recorder":
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spool")
        loop = asyncio.get_running_loop()
        return cls(await loop.run_in_executor(thread, _open, settings), thread)

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def begin(self, hello: Hello) -> Position | None:
        """Take over a producer's boot and channels; answers the last sample held of that boot."""
        channels = [Channel(channel.metric, channel.unit, channel.sensor) for channel in hello.channels]

        def begin() -> Position | None:
            self.spool.begin(hello.boot_id, channels)
            last = self.spool.last_capture
            return Position(last.monotonic_us, last.channel) if last and last.boot_id == hello.boot_id else None

        return await self.run(begin)

    async def record(self, hello: Hello, rows: Sequence[Row]) -> int:
        """Store what is not here yet; answers how many that were. Synced when this returns."""

        def record() -> int:
            fresh = _after(self.spool, hello, rows)
            self.spool.append_many(fresh)
            self.spool.sync()
            return len(fresh)

        stored = await self.run(record)
        self.stored.set()
        return stored

    async def close(self) -> None:
        await self.run(self.spool.close)
        self._thread.shutdown()


def _after(spool: Spool, hello: Hello, rows: Sequence[Row]) -> list[Row]:
    last = spool.last_capture
    if last is None or last.boot_id != hello.boot_id:
        return list(rows)
    return [row for row in rows if (row[1], row[2]) > (last.monotonic_us, last.channel)]


def _open(settings: ForwarderSettings) -> Spool:
    folder = Path(settings.node_forwarder_spool_dir)
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    spool_bytes_max = settings.node_forwarder_max_spool_bytes or default_max_spool_bytes(
        shutil.disk_usage(folder).total
    )
    limits = Limits(
        segment_bytes=fitting_segment_bytes(spool_bytes_max),
        max_spool_bytes=spool_bytes_max,
        keep_free_bytes=settings.node_forwarder_keep_free_bytes,
    )
    return Spool(folder, limits, settings.node_forwarder_sync)
