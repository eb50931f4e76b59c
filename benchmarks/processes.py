"""Real servers and services for a benchmark, each until the end of a block."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from farmiq.stack.program import Program

START_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.02


class NotStarted(Exception):
    """A server or service of the benchmark does not do what it is measured for. The end of its log is in the message."""


@asynccontextmanager
async def server(program: Program, log_path: Path) -> AsyncIterator[psutil.Process]:
    """A server of the stack until the end of the block."""
    program.prepare()
    with log_path.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *program.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=program.environment(), cwd="/"
        )
    try:
        async with asyncio.timeout(START_SECONDS_MAX):
            await _until_it_answers(program, process, log_path)
        yield psutil.Process(process.pid)
    finally:
        if process.returncode is None:
            process.send_signal(program.stop_signal)
            await process.wait()


@asynccontextmanager
async def service(name: str, environ: dict[str, str], log_path: Path) -> AsyncIterator[psutil.Process]:
    """A service of ours, as the supervisor starts it."""
    with log_path.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "farmiq.cli", "run", name,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={"PATH": os.environ["PATH"], "LOG_LEVEL": "WARNING", **environ},
        )  # fmt: skip
    try:
        yield psutil.Process(process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Looks often enough for what is measured in tenths of a second."""
    while True:
        if await condition():
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _until_it_answers(program: Program, process: asyncio.subprocess.Process, log_path: Path) -> None:
    while True:
        try:
            return await program.probe()
        except Exception as error:
            if process.returncode is not None:
                raise NotStarted(f"{program.name} did not start:\n{end_of(log_path)}") from error
            await asyncio.sleep(_LOOK_SECONDS)


def end_of(log_path: Path) -> str:
    return log_path.read_text(encoding="utf-8", errors="replace")[-2000:]
