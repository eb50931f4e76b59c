"""Our own services under test: as real processes that can be killed, or inside the test's own loop."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from farmiq.contracts.services import service_named
from farmiq.kit.clock import Clock
from farmiq.kit.lifecycle import Lifetime, Serve
from farmiq.stack.ports import free_port
from farmiq.stack.processes import MARKER
from support.waiting import eventually, wait_for

Death = tuple[str, str, int]
"""MODULE:QUALNAME of a call, `before` or `after` it, and which call: see `support.dying`."""


class ServiceProcess:
    """`farmiq run SERVICE`, as the supervisor starts it; or one that kills itself at an appointed moment."""

    def __init__(
        self, service: str, environ: Mapping[str, str], home: Path, log: Path, dies: Death | None = None
    ) -> None:
        self.service = service
        self._dies = dies
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environ = {"PATH": os.environ["PATH"], **environ, "PORT": str(self.port), MARKER: str(home)}
        self._has_port = service_named(service).port is not None
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *, is_awaited: bool = True) -> "ServiceProcess":
        """Not awaited: one that may be dead before it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
                start_new_session=True,
            )
        if self._has_port and is_awaited:
            wait_for(self._answers, 30, f"{self.service} to answer")
        return self

    def kill(self) -> None:
        """With -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """With SIGTERM. Returns the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=30)

    def wait_for_death(self, seconds: float = 60.0) -> None:
        """Returns when it has killed itself; fails when it ended in any other way."""
        assert self._process is not None
        code = self._process.wait(seconds)
        assert code == -signal.SIGKILL, f"ended with {code}:\n{self.log_text()[-3000:]}"

    def log_text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def log_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_text().splitlines() if line.startswith("{")]

    def _command(self) -> list[str]:
        if self._dies is None:
            return [sys.executable, "-m", "farmiq.cli", "run", self.service]
        target, moment, call = self._dies
        return [sys.executable, "-m", "support.dying", self.service, target, moment, str(call)]

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"{self.service} ended:\n{self.log_text()[-4000:]}")
        try:
            with urlopen(f"{self.url}/api/health", timeout=1) as answer:  # noqa: S310 - our own loopback address
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


StartService = Callable[[str, Mapping[str, str]], ServiceProcess]


@pytest.fixture
def start_service(run_folder: Path, tmp_path: Path) -> Iterator[StartService]:
    """Call it with a service's name and its environment. Whatever still runs after the test is killed."""
    started: list[ServiceProcess] = []

    def start(service: str, environ: Mapping[str, str]) -> ServiceProcess:
        process = ServiceProcess(service, environ, run_folder, tmp_path / f"{service}-{len(started)}.log")
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.kill()


@contextmanager
def service_process(
    service: str, environ: Mapping[str, str], run_folder: Path, log: Path, dies: Death | None = None
) -> Iterator[ServiceProcess]:
    """The service until the end of the block, or until its appointed death."""
    process = ServiceProcess(service, environ, run_folder, log, dies).start()
    try:
        yield process
    finally:
        process.stop()


@asynccontextmanager
async def running(
    serve: Serve, service: str, environ: Mapping[str, str], clock: Clock | None = None
) -> AsyncIterator[str]:
    """The service inside this loop, from start to an orderly stop. Yields its URL."""
    life, port = Lifetime(service, clock), free_port()
    task = asyncio.ensure_future(serve({**environ, "PORT": str(port)}, life))
    try:
        await eventually(lambda: _listens(port, task), what=f"{service} to listen")
        yield f"http://127.0.0.1:{port}"
    finally:
        life.stopping.set()
        await task


async def _listens(port: int, task: "asyncio.Future[None]") -> bool:
    if task.done():
        task.result()
        raise AssertionError("the service ended")
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
