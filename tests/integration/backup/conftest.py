import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from farmiq.backup.tiers import Place
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.kit.postgres import Pool
from support.gateway import register
from support.media_world import environment, station, store_settings
from support.picture_files import picture
from support.s3 import S3
from support.telemetry import NOW, batch_message

FARMIQ = str(Path(sys.executable).parent / "farmiq")


@dataclass(frozen=True)
class EdgeWorld:
    """An edge database with samples and pictures, its bucket, and the commands on both."""

    pool: Pool
    url: str
    s3: S3
    stream: UUID
    home: Path

    @property
    def place(self) -> Place:
        return Place("edge", self.url, store_settings(self.s3))

    async def take(self, first: int, last: int) -> Outcome:
        [outcome] = await ingest(self.pool, [batch_message(self.stream, first, last)], NOW)
        return outcome

    async def take_pictures(self, count: int) -> list[str]:
        """Stored and verified; their keys."""
        async with station(self.pool, self.url, self.s3) as scale:
            ids = [await scale.upload(picture(width=60 + number)) for number in range(count)]
            for media_id in ids:
                assert (await scale.complete(media_id)).status == 200
        rows = await self.pool.fetch("SELECT object_key FROM media_objects WHERE id = ANY ($1) ORDER BY id", ids)
        return [row["object_key"] for row in rows]

    async def command(self, *arguments: str, runner: tuple[str, ...] = (FARMIQ,)) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": os.environ["PATH"], "FARMIQ_HOME": str(self.home), "PYTHONPATH": "tests"}
        return await asyncio.to_thread(
            subprocess.run,
            [*runner, *arguments],
            env=environ | environment(self.url, self.s3),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    async def dying(self, target: str, moment: str, on_call: int, *arguments: str) -> int:
        """A command that kills itself with -9 at that call."""
        runner = (sys.executable, "-m", "support.dying_command", target, moment, str(on_call))
        return (await self.command(*arguments, runner=runner)).returncode


@pytest_asyncio.fixture
async def edge(edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path) -> EdgeWorld:
    await register(edge_pool)
    return EdgeWorld(edge_pool, edge_url, s3, uuid4(), tmp_path / "home")


@pytest.fixture
def quietly() -> Callable[[str], None]:
    return lambda _: None
