"""Keeps one child alive: starts it, asks how it is, starts it again when it dies, stops it when told."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable
from pathlib import Path

from farmiq.kit.clock import Clock
from farmiq.kit.errors import FarmiqError
from farmiq.kit.logging import get_logger, mask
from farmiq.kit.retry import Backoff
from farmiq.stack.children import Child
from farmiq.stack.home import Home
from farmiq.stack.log_files import open_log
from farmiq.stack.processes import MARKER
from farmiq.stack.state import ChildState, Health

log = get_logger(__name__)

BACKOFF_BASE_SECONDS = 0.5
BACKOFF_CAP_SECONDS = 30.0
# A child that lived this long died of something new: it is started again at once.
STABLE_SECONDS = 10.0
STARTING_PROBE_SECONDS = 0.1
UNHEALTHY_PROBE_SECONDS = 1.0
HEALTHY_PROBE_SECONDS = 10.0
# One probe may fail because the machine is busy.
PROBE_FAILURES_MAX = 2
_PROBLEM_CHARS_MAX = 500


class Keeper:
    def __init__(
        self,
        child: Child,
        home: Home,
        on_change: Callable[[], None],
        clock: Clock,
        open_output: Callable[[Path], int] = open_log,
    ) -> None:
        """`open_output` makes a descriptor of the path of the child's log, for all that the child writes."""
        self.child = child
        self.healthy = asyncio.Event()
        self._home = home
        self._on_change = on_change
        self._clock = clock
        self._open_output = open_output
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.state = ChildState(
            name=child.name,
            kind=child.kind,
            state="stopped",
            since=clock.now(),
            log=str(home.log_file(child.name)),
            port=child.port,
            url=child.url,
        )

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep(), name=self.child.name)

    async def stop(self) -> None:
        """Asks the child to stop, insists when it does not, and returns when it is gone."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        self._turn("stopped")

    async def _keep(self) -> None:
        backoff = Backoff(BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS)
        while not self._stopping.is_set():
            began_at = self._clock.monotonic()
            await self._live_once()
            if self._stopping.is_set():
                return
            pause_seconds = pause_after_death(backoff, self._clock.monotonic() - began_at)
            log.warning("child_died", child=self.child.name, exit=self.state.last_exit, pause_seconds=pause_seconds)
            self.state.restarts += 1
            self._turn("backoff")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_seconds):
                    await self._stopping.wait()

    async def _live_once(self) -> None:
        """From start to death, whatever the child dies of."""
        self._turn("starting")
        try:
            process = await self._spawn()
        except (OSError, FarmiqError) as error:
            self.state.last_exit, self.state.problem = "could not be started", _text_of(error)
            log.error("child_not_started", child=self.child.name, reason=_text_of(error))  # noqa: TRY400 - the message is the whole story
            return
        self.state.pid = process.pid
        self._on_change()
        health = asyncio.create_task(self._watch_health())
        try:
            self.state.last_exit = _describe_exit(await self._outlive(process))
        finally:
            health.cancel()
            self.healthy.clear()
            self.state.pid = None
            # What it started must not keep its ports and files from its successor.
            _signal_group(process.pid, signal.SIGKILL)

    async def _spawn(self) -> Process:
        program = self.child.program
        await asyncio.to_thread(program.prepare)
        descriptor = self._open_output(self._home.log_file(program.name))
        try:
            return await asyncio.create_subprocess_exec(
                *program.command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                cwd="/",  # ours may be closed to the account that a server runs as
                env=program.environment() | {MARKER: str(self._home.path)},
                start_new_session=True,
                umask=0o077,  # some servers put sockets into /tmp
            )
        finally:
            os.close(descriptor)

    async def _outlive(self, process: Process) -> int:
        """Waits until the child has died by itself, or ends it when we are told to stop. Returns its exit code."""
        dead, told_to_stop = asyncio.create_task(process.wait()), asyncio.create_task(self._stopping.wait())
        await asyncio.wait({dead, told_to_stop}, return_when=asyncio.FIRST_COMPLETED)
        told_to_stop.cancel()
        if not dead.done():
            await self._end(process)
        return await dead

    async def _watch_health(self) -> None:
        failures = 0
        while True:
            try:
                await self.child.program.probe()
            except Exception as error:  # noqa: BLE001 - whatever a probe raises is its answer
                failures += 1
                self.state.problem = _text_of(error)
                if self.state.state == "healthy" and failures >= PROBE_FAILURES_MAX:
                    log.warning("child_health_failed", child=self.child.name, reason=self.state.problem)
                    self._turn("unhealthy")
            else:
                failures = 0
                self._become_healthy()
            await asyncio.sleep(_pause_after(self.state.state))

    def _become_healthy(self) -> None:
        self.state.problem = None
        if self.state.state != "healthy":
            log.info("child_health_confirmed", child=self.child.name, pid=self.state.pid, restarts=self.state.restarts)
            self._turn("healthy")
            self.healthy.set()

    async def _end(self, process: Process) -> None:
        program = self.child.program
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(program.stop_signal)
        try:
            async with asyncio.timeout(program.stop_seconds):
                await process.wait()
        except TimeoutError:
            log.warning("child_killed", child=program.name, stop_seconds=program.stop_seconds)
            _signal_group(process.pid, signal.SIGKILL)
            await process.wait()

    def _turn(self, state: Health) -> None:
        self.state.state = state
        self.state.since = self._clock.now()
        if state == "unhealthy":
            self.healthy.clear()
        self._on_change()


def pause_after_death(backoff: Backoff, lived_seconds: float) -> float:
    """Longer each time for one that can't live, and not for one that is killed now and then: everybody waits for it."""
    if lived_seconds > STABLE_SECONDS:
        backoff.reset()
    return backoff.next_seconds()


def _pause_after(state: Health) -> float:
    return {"healthy": HEALTHY_PROBE_SECONDS, "unhealthy": UNHEALTHY_PROBE_SECONDS}.get(state, STARTING_PROBE_SECONDS)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _describe_exit(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _text_of(error: BaseException) -> str:
    return mask(f"{type(error).__name__}: {error}")[:_PROBLEM_CHARS_MAX]
