"""The generators' process, seen from the campaign: orders go in, progress comes out."""

import asyncio
import sys
from pathlib import Path

import msgspec

from farmiq.kit.errors import Fatal
from farmiq.stack.processes import MARKER
from farmiq.stack.program import plain_environment
from farmiq.torture.generators import Finish, Order, Progress, Task


class GeneratorsDied(Fatal):
    """The process that feeds the farm ended by itself. Its log says why."""


class Feeding:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.progress = Progress()
        self._process = process
        self._log = log
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, task: Task, folder: Path) -> "Feeding":
        orders, log = folder / "generators.json", folder / "generators.log"
        orders.touch(mode=0o600)  # it holds the logins of the campaign's devices
        orders.write_bytes(msgspec.json.encode(task))
        with log.open("ab") as complaints:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "farmiq.torture.generators", str(orders),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=complaints,
                # Marked as a part of the home it lies in, so that `farmiq down` there ends it too. No fault ever hits it.
                env=plain_environment() | {MARKER: str(folder)}, start_new_session=True,
            )  # fmt: skip
        return cls(process, log)

    def tell(self, order: Order) -> None:
        if self._process.stdin is None or self._process.returncode is not None:
            raise GeneratorsDied(f"the generators have ended with code {self._process.returncode}: see {self._log}")
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")

    async def finish(self, seconds_max: float) -> bool:
        """True when everything that was begun is acknowledged."""
        self.tell(Finish())
        try:
            async with asyncio.timeout(seconds_max):
                await self._process.wait()
        except TimeoutError:
            await self.end()
            return False
        await self._reading
        if self._process.returncode:
            raise GeneratorsDied(f"the generators have ended with code {self._process.returncode}: see {self._log}")
        return True

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._reading.cancel()

    async def _read(self) -> None:
        if self._process.stdout is None:
            return
        while line := await self._process.stdout.readline():
            self.progress = msgspec.json.decode(line, type=Progress)
