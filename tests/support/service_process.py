"""Our own services under test: as real processes that can be killed, or inside the test's own loop."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from farmiq.kit.lifecycle import Lifetime, Serve
from farmiq.stack.ports import free_port
from farmiq.stack.processes import MARKER
from support.waiting import eventually, wait_for


class ServiceProcess:
    """`farmiq run SERVICE`, as the supervisor starts it."""

    def __init__(self, service: str, environ: Mapping[str, str], home: Path, log: Path) -> None:
        self.service = service
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environ = {"PATH": os.environ["PATH"], **environ, "PORT": str(self.port), MARKER: str(home)}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "ServiceProcess":
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "farmiq.cli", "run", self.service],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
                start_new_session=True,
            )
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

    def log_lines(self) -> list[dict[str, Any]]:
        lines = self._log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"{self.service} ended:\n{self._log.read_text(encoding='utf-8')[-4000:]}")
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


@asynccontextmanager
async def running(serve: Serve, service: str, environ: Mapping[str, str]) -> AsyncIterator[str]:
    """The service inside this loop, from start to an orderly stop. Yields its URL."""
    life, port = Lifetime(service), free_port()
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
