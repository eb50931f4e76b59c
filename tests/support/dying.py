"""Runs one service in a process of its own that kills itself with -9 right before or right after a named call.

    python -m support.dying SERVICE MODULE:QUALNAME before|after N

Everything is real but the moment of death: the N-th call of the target. That is how a test stands between two lines.
"""

import asyncio
import functools
import importlib
import inspect
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from farmiq.contracts.services import SERVICES
from farmiq.kit import lifecycle, logging
from farmiq.stack.processes import MARKER


def die_at(target: str, moment: str, on_call: int) -> None:
    """Replace the target by one that ends this process."""
    module_name, _, qualname = target.partition(":")
    *owners, name = qualname.split(".")
    owner: Any = functools.reduce(getattr, owners, importlib.import_module(module_name))
    original = getattr(owner, name)
    calls = itertools.count(1)

    def dies_now(when: str, call: int) -> None:
        if when == moment and call == on_call:
            os.kill(os.getpid(), signal.SIGKILL)

    if inspect.iscoroutinefunction(original):

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            call = next(calls)
            dies_now("before", call)
            answer = await original(*args, **kwargs)
            dies_now("after", call)
            return answer

        setattr(owner, name, functools.wraps(original)(awaited))
    else:

        def called(*args: Any, **kwargs: Any) -> Any:
            call = next(calls)
            dies_now("before", call)
            answer = original(*args, **kwargs)
            dies_now("after", call)
            return answer

        setattr(owner, name, functools.wraps(original)(called))


class ServiceProcess:
    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log

    def wait_for_death(self, seconds: float = 60.0) -> None:
        """Returns when it has killed itself; fails when it ended in any other way."""
        code = self._process.wait(seconds)
        assert code == -signal.SIGKILL, f"ended with {code}:\n{self.log_text()[-3000:]}"

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def log_text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


@contextmanager
def service_process(
    service: str, environ: Mapping[str, str], run_folder: Path, log: Path, dies: tuple[str, str, int] | None = None
) -> Iterator[ServiceProcess]:
    """The service until the end of the block, or until its appointed death."""
    arguments = [] if dies is None else [dies[0], dies[1], str(dies[2])]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.dying", service, *arguments],
            env={**environ, "PATH": os.environ["PATH"], "PYTHONPATH": paths, MARKER: str(run_folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield ServiceProcess(process, log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _main() -> int:
    service, *death = sys.argv[1:]
    catalogue = {known.name: known for known in SERVICES}
    serve: Callable[..., Any] = importlib.import_module(catalogue[service].module).serve
    if death:
        die_at(death[0], death[1], int(death[2]))
    logging.configure("INFO")
    return asyncio.run(lifecycle.run([(service, serve)], os.environ))


if __name__ == "__main__":
    sys.exit(_main())
