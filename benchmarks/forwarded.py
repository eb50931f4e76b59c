"""A real edge-sync-forwarder, from the outbox over HTTP to a cloud that accepts everything, and back to the acknowledged rows."""

import asyncio
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import asyncpg

from farmiq.stack.ports import free_port
from processes import START_SECONDS_MAX, service, until

# Each side stops at the first row that it finds, so that asking costs nothing while there is a backlog.
_IS_ANYTHING_LEFT = """
SELECT EXISTS (SELECT FROM sync_outbox WHERE status = 'pending' AND NOT parked)
    OR EXISTS (SELECT FROM sync_outbox WHERE status = 'pending' AND parked)
    OR EXISTS (SELECT FROM sync_outbox WHERE status IN ('claimed', 'sending'))
"""


@asynccontextmanager
async def forwarder(database_url: str, folder: Path, batch: int) -> AsyncIterator[None]:
    """Ready and with nothing to do when the block begins."""
    cloud_port, port = free_port(), free_port()
    environ = {
        "DATABASE_URL": database_url,
        "CLOUD_INGESTION_URL": f"http://127.0.0.1:{cloud_port}",
        "CLOUD_INGESTION_TOKEN": secrets.token_urlsafe(16),
        "EDGE_CLUSTER_ID": "edge-1",
        "OUTBOX_BATCH_SIZE": str(batch),
        "SYNC_BATCH_EVENTS_SECONDS": "0",
        "PORT": str(port),
    }
    async with (
        _accepting_cloud(cloud_port, folder / "cloud.log"),
        service("edge-sync-forwarder", environ, folder / "forwarder.log"),
    ):
        await _until_it_answers(f"http://127.0.0.1:{cloud_port}/accepted")
        await _until_it_answers(f"http://127.0.0.1:{port}/api/ready")
        yield


async def seconds_until_acknowledged(database_url: str) -> float:
    begun_at = time.perf_counter()
    connection = await asyncpg.connect(database_url)

    async def is_all_acknowledged() -> bool:
        return not await connection.fetchval(_IS_ANYTHING_LEFT)

    await until(is_all_acknowledged)
    await connection.close()
    return time.perf_counter() - begun_at


@asynccontextmanager
async def _accepting_cloud(port: int, log_path: Path) -> AsyncIterator[None]:
    with log_path.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(Path(__file__).with_name("accepting_cloud.py")), str(port),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def _until_it_answers(url: str) -> None:
    async def answers() -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async with asyncio.timeout(START_SECONDS_MAX):
        await until(answers)
