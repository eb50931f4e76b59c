"""A program that is kept running, and the newest value of each name in the lines that it prints.

Started with the first read and again, more and more slowly, whenever it ends. One that says nothing for too long is taken to
hang, and one that says too much to have gone mad: both are killed.
"""

import asyncio
from collections.abc import Sequence

from farmiq.device.node_agent.drivers.child import Child, ChildFailed
from farmiq.device.node_agent.drivers.plugin import Fault, Reading
from farmiq.kit.clock import Clock
from farmiq.kit.retry import Backoff

LINE_BYTES_MAX = 4096
BYTES_PER_SECOND_MAX = 32 * 1024
"""Since the last read, on the average. Some 2,000 lines a second: more than that would cost the other sensors their turn."""


class ProgramLines:
    def __init__(self, command: Sequence[str], names: Sequence[str], stale_seconds: float, clock: Clock) -> None:
        self._command = command
        self._names = names
        self._stale_seconds = stale_seconds
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._fresh: dict[str, Reading] = {}  # since the last read
        self._said_at = dict.fromkeys(names, clock.monotonic())
        self._turn_bytes = 0
        self._turn_began_at = clock.monotonic()
        self._ended: Fault | None = None

    async def read(self) -> list[Reading]:
        if self._task is None:
            self._task = asyncio.create_task(self._keep_running())
        elif self._task.done():
            self._task.result()  # never without an error: raised here, it is the fault of every channel
        fresh, self._fresh = self._fresh, {}
        self._turn_bytes, self._turn_began_at = 0, self._clock.monotonic()
        return [fresh[name] if name in fresh else self._silence(name) for name in self._names]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _silence(self, name: str) -> Reading:
        if self._ended is not None:
            return self._ended
        silent_seconds = self._clock.monotonic() - self._said_at[name]
        if silent_seconds <= self._stale_seconds:
            return None
        return Fault(f"{self._command[0]} has said nothing of {name!r} for {silent_seconds:.0f} s")

    async def _keep_running(self) -> None:
        backoff = Backoff(base_seconds=0.5, cap_seconds=30.0)
        while True:
            try:
                await self._listen(backoff)
            except (ChildFailed, OSError) as error:
                self._ended = Fault(f"{self._command[0]} {error}")
            await asyncio.sleep(backoff.next_seconds())

    async def _listen(self, backoff: Backoff) -> None:
        child = await Child.start(self._command, LINE_BYTES_MAX)
        self._said_at = dict.fromkeys(self._names, self._clock.monotonic())
        try:
            while line := await self._next_line(child):
                self._check_rate(len(line))
                if self._take(line):
                    self._ended = None
                    backoff.reset()
        finally:
            await child.end()
        raise ChildFailed("closed its output")

    async def _next_line(self, child: Child) -> bytes:
        try:
            async with asyncio.timeout(self._stale_seconds):
                return await child.reader.readline()
        except TimeoutError as error:
            raise ChildFailed(f"has said nothing for {self._stale_seconds:g} s and was killed") from error
        except ValueError as error:
            raise ChildFailed(f"said a line of more than {LINE_BYTES_MAX} bytes and was killed") from error

    def _check_rate(self, line_bytes: int) -> None:
        self._turn_bytes += line_bytes
        seconds = max(1.0, self._clock.monotonic() - self._turn_began_at)
        if self._turn_bytes > BYTES_PER_SECOND_MAX * seconds:
            raise ChildFailed(f"said more than {BYTES_PER_SECOND_MAX} bytes a second and was killed")

    def _take(self, line: bytes) -> bool:
        """False for a line about nothing that we know: a program may print a greeting."""
        name, _, value = line.decode("utf-8", "replace").strip().partition(" ")
        if name not in self._said_at:
            return False
        self._said_at[name] = self._clock.monotonic()
        try:
            self._fresh[name] = float(value)
        except ValueError:
            self._fresh[name] = Fault(f"{self._command[0]} said {value[:60]!r} of {name!r}, which is not a number")
        return True
