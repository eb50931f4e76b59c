import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

from farmiq.stack.private_files import remove
from farmiq.stack.processes import MARKER
from farmiq.stack.program import Program
from support.run_folder import remember_outside
from support.waiting import run_apart

# Servers that a whole run shares outlive the fixture that started them, so something has to hold on to their handles.
SHARED: list["ServerProcess"] = []


class ServerProcess:
    """A real server of the stack, run by a test instead of the supervisor. `home` is whose warden ends it in the worst case."""

    def __init__(self, server: Program, home: Path, log: Path) -> None:
        self.server = server
        self._home = home
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, seconds: float = 60.0) -> None:
        self.server.prepare()
        remember_outside(self._home, self.server.outside())
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.server.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self.server.environment() | {MARKER: str(self._home)},
                start_new_session=True,
                umask=0o077,
            )
        run_apart(lambda: self._until_healthy(seconds))

    def stop(self) -> None:
        if self._process is None:
            return
        self.resume()  # a paused server could not hear the signal
        self._process.send_signal(self.server.stop_signal)
        try:
            self._process.wait(self.server.stop_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        remove(self.server.outside())

    def kill(self) -> None:
        """The whole group at once, with -9: what a power cut or the kernel's memory killer would do."""
        self._signal_group(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def pause(self) -> None:
        """Freezes the server: its connections stay open and nothing answers."""
        self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_group(signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _signal_group(self, number: signal.Signals) -> None:
        if self.is_running:
            os.killpg(self.pid, number)

    async def _until_healthy(self, seconds: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + seconds
        while True:
            try:
                return await self.server.probe()
            except Exception as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"{self.server.name} did not start:\n{self._tail()}") from error
            await asyncio.sleep(0.05)

    def _tail(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-4000:]
