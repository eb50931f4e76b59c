"""A farm under test, started and stopped by the real command."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import asyncpg

from farmiq.cli import exits
from farmiq.contracts.services import SERVICES
from farmiq.stack.demo_farm import DEVICE_ID
from farmiq.stack.external import External
from farmiq.stack.home import Home
from farmiq.stack.ports import choose_ports
from farmiq.stack.servers import server_ports
from farmiq.stack.state import ChildState, read_state
from support.documents import ROOT
from support.page_runner import Shell
from support.waiting import run_apart, wait_for

FARMIQ = Path(sys.executable).parent / "farmiq"

# More samples than a farm has by default, so that every kill hits something; a short lease and a short silence, so that what was
# lost on the way is sent again within the test.
FASTER = {"SAMPLE_INTERVAL_MS": "100", "OUTBOX_LEASE_SECONDS": "5", "NODE_FORWARDER_RESEND_SECONDS": "3"}

Tier = Literal["edge", "cloud"]


@dataclass(frozen=True)
class Coverage:
    """What the cloud holds of one stream, in one snapshot."""

    ranges: list[tuple[int, int]]
    lost: int
    rows: int

    @property
    def end(self) -> int:
        return self.ranges[-1][1]


class Farm:
    def __init__(self, home: Path) -> None:
        self.home = Home(home)
        self.up_output = ""

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        chosen = {
            name: value for name, value in os.environ.items() if not name.endswith("_URL") and name != "S3_ENDPOINT"
        }
        return subprocess.run(
            [FARMIQ, *arguments],
            env=chosen | FASTER | {"FARMIQ_HOME": str(self.home.path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    def choose_ports_of_its_own(self) -> None:
        """Away from the standard ones, which another farm on this machine may take while this one is down."""
        names = [*server_ports(External()), *(service.name for service in SERVICES if service.port is not None)]
        self.home.create()
        choose_ports(self.home.ports_file, dict.fromkeys(names))

    def up(self) -> str:
        told = self.command("up")
        assert told.returncode == exits.OK, told.stdout + told.stderr
        return told.stdout

    def status(self) -> Any:
        return json.loads(self.command("status", "--json").stdout)

    def counts(self, hop: str) -> dict[str, int]:
        """Once it has some: right after a start a hop may not have counted yet."""

        def told() -> dict[str, int]:
            found: dict[str, int] = next(entry["counts"] for entry in self.status()["hops"] if entry["name"] == hop)
            return found

        return wait_for(told, what=f"the counts of {hop}")

    def environment(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.command("env", "--json").stdout)
        return found

    def child(self, name: str) -> ChildState:
        return next(child for child in read_state(self.home).children if child.name == name)

    def stopped(self, name: str) -> AbstractContextManager[None]:
        """The child does not run, and nobody notices that yet: what is on the way to it stays where it is."""
        return _stopped(self.child(name).pid)

    def unattended(self) -> AbstractContextManager[None]:
        """Nobody starts again what ends."""
        return _stopped(read_state(self.home).supervisor_pid)

    @property
    def spool_folder(self) -> Path:
        return self.home.spool_folder(DEVICE_ID)

    def node(self) -> dict[str, Any]:
        """What the node says of itself, at most a second old."""
        found: dict[str, Any] = json.loads((self.spool_folder / "status.json").read_text())
        return found

    def captured(self) -> int:
        return int(self.node()["last_captured_seq"])

    def fetch(self, tier: Tier, query: str, *arguments: object) -> "list[asyncpg.Record]":
        url = json.loads(self.home.environment_file.read_text())[f"{tier.upper()}_DATABASE_URL"]
        return run_apart(lambda: _fetch(url, query, arguments))

    def coverage(self) -> list[Coverage]:
        """What the cloud database itself says. One statement, so one moment."""
        rows = self.fetch(
            "cloud",
            """SELECT received, lost, (SELECT count(*) FROM telemetry_raw raw WHERE raw.stream_id = streams.stream_id) AS rows
                 FROM streams ORDER BY stream_id""",
        )
        return [
            Coverage(
                ranges=[(part.lower, part.upper) for part in row["received"]], lost=len(row["lost"]), rows=row["rows"]
            )
            for row in rows
        ]

    def wait_until_cloud_has(self, sequence: int) -> None:
        """Everything up to there, without a gap: a sample that overtakes a missing one does not count."""

        def has_it() -> bool:
            # Of the farm's own node: a test before may have left a stream of its own device in a farm that is shared.
            query = "SELECT received FROM streams WHERE device_id = $1 ORDER BY stream_id"
            streams = self.fetch("cloud", query, DEVICE_ID)
            first = next((stream["received"][0] for stream in streams if stream["received"]), None)
            return first is not None and first.lower == 1 and first.upper > sequence

        try:
            wait_for(has_it, 90, f"sequence {sequence} in the cloud, and all before it")
        except AssertionError as error:
            error.add_note(f"the cloud has {self.coverage()}\n{self.command('status').stdout}")
            raise


def reader_shell(farm: Farm, folder: Path, *, is_in_checkout: bool = False) -> Shell:
    """The shell of somebody who follows a page: `farmiq` is on its PATH, and the farm is this one."""
    scratch = folder / "scratch"
    scratch.mkdir()
    (folder / "docs").symlink_to(ROOT / "docs")
    environ = {
        "PATH": f"{FARMIQ.parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "FARMIQ_HOME": str(farm.home.path),
        "BROWSER": "true",  # opens nothing
    }
    return Shell(ROOT if is_in_checkout else folder, environ, scratch)


async def _fetch(url: str, query: str, arguments: tuple[object, ...]) -> "list[asyncpg.Record]":
    connection = await asyncpg.connect(url, timeout=10)
    try:
        return await connection.fetch(query, *arguments)
    finally:
        await connection.close()


@contextmanager
def _stopped(pid: int | None) -> Iterator[None]:
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
