"""The spool on a thread of its own: the disk may take its time, and the event loop goes on."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from farmiq.device.boot import boot_id, boottime_us
from farmiq.device.handover import Condition, Hello, NotCaptured, Position, Row
from farmiq.device.node_forwarder.node_time import NodeTime
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.spool import (
    Channel,
    Limits,
    Owner,
    Spool,
    SpoolError,
    SyncFailed,
    SyncPolicy,
    default_max_spool_bytes,
    disk,
    fitting_segment_bytes,
)

HOUSE_SECONDS = 10.0

T = TypeVar("T")

log = get_logger(__name__)


class DiskFailed(SpoolError):
    """The disk under the spool refused something other than a write or a sync. Nothing was acknowledged over it."""


class Recorder:
    """Every call on the spool but reading goes through `run`, one after the other."""

    def __init__(
        self,
        spool: Spool,
        thread: ThreadPoolExecutor,
        clock: Clock,
        sync_seconds: float,
        node_time: NodeTime | None = None,
    ) -> None:
        self.spool = spool
        self.node_time = node_time or NodeTime()
        self.stored = asyncio.Event()
        self.condition = Condition(0)  # of the agent, as it told last
        self.boot_id: UUID | None = None
        self._thread = thread
        self._clock = clock
        self._sync_seconds = sync_seconds
        self._synced_at = clock.monotonic() - sync_seconds

    @classmethod
    async def open(cls, settings: ForwarderSettings, clock: Clock) -> "Recorder":
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spool")
        spool = await asyncio.get_running_loop().run_in_executor(thread, _open, settings)
        found = spool.recovery
        log.info("spool_opened", stream_id=str(spool.stream_id), frames=found.frames, torn_bytes=found.torn_bytes)
        if spool.streams.set_aside is not None:
            log.error("foreign_spool_set_aside", folder=str(spool.streams.set_aside))
        if spool.is_moved:
            log.warning("stream_begun", reason="the spool is in another machine", now=str(spool.stream_id))
        node_time = NodeTime(boot_id(), boottime_us, Path(settings.node_forwarder_spool_dir))
        return cls(spool, thread, clock, settings.node_forwarder_sync_ms / 1000, node_time)

    async def run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except OSError as error:
            raise DiskFailed(f"the spool's disk failed: {error}") from error

    async def begin(self, hello: Hello) -> Position | None:
        """Take over a producer's boot and channels; answers the last sample held of that boot."""
        channels = [Channel(channel.metric, channel.unit, channel.sensor) for channel in hello.channels]

        def begin() -> Position | None:
            self.spool.begin(hello.boot_id, channels)
            last = self.spool.last_capture
            return Position(last.monotonic_us, last.channel) if last and last.boot_id == hello.boot_id else None

        self.boot_id = hello.boot_id
        return await self.run(begin)

    async def record(self, hello: Hello, rows: Sequence[Row]) -> int:
        """Store what is not here yet; answers how many that were. May be acknowledged when this returns."""

        def append() -> tuple[int, int]:
            fresh = _after(self.spool, hello, rows)
            span = self.spool.append_many(fresh)
            return len(fresh), span[1] if span else 0

        count, last_seq = await self.run(append)
        if self.spool.policy is SyncPolicy.GROUP:
            # The first after a pause is synced at once; a stream of them shares a sync every `sync_seconds`.
            await asyncio.sleep(self._synced_at + self._sync_seconds - self._clock.monotonic())
            await self.sync()
        elif self.spool.policy is SyncPolicy.ALWAYS:
            self.stored.set()
        if self.spool.safe_seq < last_seq:
            # Somebody else's sync failed in between and took these with it; the one after it stored nothing of them.
            raise SyncFailed(self.spool.safe_seq)
        self.node_time.note(hello.boot_id, rows)
        return count

    async def give_up(self, loss: NotCaptured) -> None:
        """Declared and durable when this returns."""
        times = (loss.first_wall_us, loss.last_wall_us)
        await self.run(lambda: self.spool.give_up(loss.loss_id, loss.count, times))
        log.error("samples_not_captured", count=loss.count, loss_id=str(loss.loss_id))

    async def sync(self) -> None:
        await self.run(self.spool.sync)
        self._synced_at = self._clock.monotonic()
        self.stored.set()

    async def sync_behind(self, life: Lifetime) -> None:
        """Under the policy `os` nobody waits for a sync, and still nothing is sent before one: a sequence that a power cut
        takes back must not be with the edge already."""
        while self.spool.policy is SyncPolicy.OS and await life.pause(1.0):
            try:
                await self.sync()
            except SpoolError as error:
                log.error("sync_failed", reason=str(error))  # noqa: TRY400 - what it cost is declared by the spool

    async def keep_house(self, life: Lifetime) -> None:
        """The mark, so that after a kill only the last few seconds are sent to an edge that has them; what has grown too old,
        also while nobody acknowledges; and how wrong the clock was."""
        while await life.pause(HOUSE_SECONDS):
            try:
                await self.run(self.spool.save_ack)
                await self.run(self.spool.trim)
                await self._save_time()
            except SpoolError as error:
                log.error("house_not_kept", reason=str(error))  # noqa: TRY400 - nothing is lost by it; tried again

    async def _save_time(self) -> None:
        if (changes := self.node_time.changes()) is not None:
            await self.run(lambda: self.node_time.write(changes))

    async def close(self) -> None:
        try:
            await self._save_time()
        finally:
            await self.run(self.spool.close)
        self._thread.shutdown()


def _after(spool: Spool, hello: Hello, rows: Sequence[Row]) -> list[Row]:
    last = spool.last_capture
    if last is None or last.boot_id != hello.boot_id:
        return list(rows)
    return [row for row in rows if (row[1], row[2]) > (last.monotonic_us, last.channel)]


def _open(settings: ForwarderSettings) -> Spool:
    folder = Path(settings.node_forwarder_spool_dir)
    disk.make_folder(folder)
    spool_bytes_max = settings.node_forwarder_max_spool_bytes or default_max_spool_bytes(
        shutil.disk_usage(folder).total
    )
    limits = Limits(
        segment_bytes=fitting_segment_bytes(spool_bytes_max),
        max_spool_bytes=spool_bytes_max,
        keep_free_bytes=settings.node_forwarder_keep_free_bytes,
        keep_acked_bytes=spool_bytes_max // 4,
        max_spool_seconds=settings.node_forwarder_max_spool_age_seconds,
    )
    owner = Owner(settings.device_id, machine_fingerprint())
    return Spool(folder, limits, settings.node_forwarder_sync, new_id=new_id, owner=owner)


def machine_fingerprint(root: Path = Path("/")) -> str:
    """The same as long as it is this machine; empty where nothing tells machines apart. A board's serial number also tells two
    copies of one SD card apart."""
    known = []
    for name in ("etc/machine-id", "proc/device-tree/serial-number"):
        with contextlib.suppress(OSError):
            known.append((root / name).read_bytes().strip(b"\0\n "))
    return sha256(b"/".join(known)).hexdigest()[:32] if any(known) else ""
