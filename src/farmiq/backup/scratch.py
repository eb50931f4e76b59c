"""A PostgreSQL for one question: its own folder, its own port, gone afterwards."""

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg

from farmiq.backup.errors import BackupError
from farmiq.kit.postgres import AWAY
from farmiq.stack.ports import free_port
from farmiq.stack.postgres import Postgres
from farmiq.stack.private_files import remove
from farmiq.stack.processes import MARKER

START_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.1


class ScratchNotStarted(BackupError):
    """The PostgreSQL into which the backup was to be restored did not start. Often the disk is full."""


@asynccontextmanager
async def scratch_database(folder: Path) -> AsyncIterator[str]:
    """The URL of an empty database, for as long as the block lasts. `folder` is the caller's to remove."""
    server = Postgres(folder / "postgres", free_port(), secrets.token_urlsafe(16), is_throwaway=True)
    await asyncio.to_thread(server.prepare)
    log = folder / "postgres.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220 - forks and returns at once
            server.command(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=server.environment() | {MARKER: str(folder)},
        )
    try:
        await _until_it_answers(server, process, log)
        yield server.url()
    finally:
        process.send_signal(server.stop_signal)
        await asyncio.to_thread(_wait, process, server.stop_seconds)
        remove(server.outside())


async def _until_it_answers(server: Postgres, process: "subprocess.Popen[bytes]", log: Path) -> None:
    problem: BaseException | None = None
    refusals: tuple[type[BaseException], ...] = (*AWAY, asyncpg.PostgresError)
    for _ in range(int(START_SECONDS_MAX / POLL_SECONDS)):
        try:
            return await server.probe()
        except refusals as error:
            problem = error
        if process.poll() is not None:
            break
        await asyncio.sleep(POLL_SECONDS)
    words = (await asyncio.to_thread(log.read_text))[-2000:]
    raise ScratchNotStarted(f"PostgreSQL did not start: {problem}\n{words}", fix="df -h") from problem


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
