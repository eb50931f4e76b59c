"""One farm of the release, in a folder of its own: started with any set of services, stopped in order, or killed all at once."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncpg

T = TypeVar("T")

SERVICES: Final = (
    "node-agent", "node-forwarder", "weighvision-agent",
    "edge-ingress-gateway", "edge-telemetry-timeseries", "edge-weighvision-session", "edge-media-store",
    "edge-vision-inference", "edge-sync-forwarder",
    "cloud-ingestion", "cloud-telemetry-service", "cloud-analytics-service", "cloud-media-store", "console",
)  # fmt: skip
# Away from the standard ones, where another farm may be.
_CHOOSE_PORTS: Final = """
import sys, pathlib
from farmiq.contracts.services import SERVICES
from farmiq.stack.external import External
from farmiq.stack.ports import choose_ports
from farmiq.stack.servers import server_ports
names = [*server_ports(External()), *(service.name for service in SERVICES if service.port is not None)]
choose_ports(pathlib.Path(sys.argv[1]), dict.fromkeys(names))
"""
MARKER: Final = "FARMIQ_STACK"
HEALTHY_SECONDS_MAX: Final = 300.0
COMMAND_SECONDS_MAX: Final = 300.0


class NotReached(Exception):
    """The farm did not come to a state that the golden farm needs."""


def wait_for(condition: Callable[[], T], what: str, seconds: float = 120.0) -> T:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise NotReached(f"{what}: not within {seconds:g} s")
        time.sleep(0.1)
    return value


class Farm:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment: dict[str, str] = {}

    def start(self, services: Sequence[str], settings: Mapping[str, str]) -> None:
        """The servers and these services, healthy when it returns."""
        for part in ("run", "logs"):
            (self.home / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.home / "ports.json").exists():
            subprocess.run([sys.executable, "-P", "-c", _CHOOSE_PORTS, str(self.home / "ports.json")], check=True)
        reading, writing = os.pipe()
        with (self.home / "logs" / "supervisor.log").open("ab") as log:
            subprocess.run(
                [sys.executable, "-P", "-m", "farmiq.stack", str(self.home), str(writing), *services],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[writing], start_new_session=True, check=True,
                env=self._environ() | dict(settings) | {MARKER: str(self.home)},
            )  # fmt: skip
        os.close(writing)
        with os.fdopen(reading, "rb") as announcement:
            if announcement.readline() != b"started\n":
                raise NotReached(f"the farm did not start: see {self.home}/logs/supervisor.log")
        wait_for(self._is_healthy, "the farm is healthy", HEALTHY_SECONDS_MAX)
        self.environment = json.loads((self.home / "run" / "environment.json").read_text())

    def stop(self) -> None:
        self.command("down")

    def cut_power(self) -> None:
        """Every process at once, the supervisor first so that nothing is started again."""
        state = self._state()
        for pid in [state["supervisor_pid"], *(child["pid"] for child in state["children"])]:
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        self.stop()

    def freeze(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGCONT)

    def pid(self, name: str) -> int:
        def find() -> int:
            return next((int(child["pid"] or 0) for child in self._state()["children"] if child["name"] == name), 0)

        return wait_for(find, f"{name} runs")

    def command(self, *arguments: str, accepted: Sequence[int] = (0,)) -> str:
        finished = subprocess.run(
            [sys.executable, "-P", "-m", "farmiq.cli", *arguments], env=self._environ(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False,
        )  # fmt: skip
        if finished.returncode not in accepted:
            raise NotReached(
                f"farmiq {' '.join(arguments)} ended with {finished.returncode}:\n{finished.stdout}{finished.stderr}"
            )
        return finished.stdout

    def command_json(self, *arguments: str) -> Any:
        return json.loads(self.command(*arguments, "--json"))

    def fetch(self, tier: str, query: str, *arguments: object) -> list[dict[str, Any]]:
        """From the database itself, past the relay."""
        return asyncio.run(_fetch(self.environment[f"{tier.upper()}_DATABASE_URL"], query, arguments))

    def execute(self, tier: str, statement: str) -> None:
        asyncio.run(_execute(self.environment[f"{tier.upper()}_DATABASE_URL"], statement))

    def count(self, tier: str, table: str, condition: str = "true") -> int:
        return int(self.fetch(tier, f"SELECT count(*) FROM {table} WHERE {condition}")[0]["count"])  # noqa: S608 - names of this script

    def wait_for_rows(
        self, tier: str, table: str, condition: str = "true", rows: int = 1, seconds: float = 120
    ) -> None:
        what = f"{rows} rows of {tier} {table} where {condition}"
        wait_for(lambda: self.count(tier, table, condition) >= rows, what, seconds)

    def post(self, service: str, path: str, body: object, token: str | None = None) -> Any:
        url = self.environment[f"{service.replace('-', '_').upper()}_URL"] + path
        headers = {
            "authorization": f"Bearer {token or self.environment['ADMIN_TOKEN']}",
            "content-type": "application/json",
        }
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")  # noqa: S310 - our own farm
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - our own farm
            return json.loads(response.read() or b"null")

    def run_beside(self, service: str, name: str, variables: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """A service of a device, which outlives the starts and stops of the farm."""
        with (self.home / "logs" / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "farmiq.cli", "run", service], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, env=self._environ() | dict(variables),
            )  # fmt: skip

    def _environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
        return kept | {"FARMIQ_HOME": str(self.home)}

    def _state(self) -> Any:
        return json.loads(self.command("status", "--json", accepted=(0, 1, 3)))

    def _is_healthy(self) -> bool:
        state = self._state()
        if state["phase"] == "failed":
            raise NotReached(f"the farm did not start: {state['problem']}")
        return bool(state["is_healthy"])


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url, timeout=30)
    try:
        await connection.execute(statement)
    finally:
        await connection.close(timeout=5)


async def _fetch(url: str, query: str, arguments: Sequence[object]) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(url, timeout=30)
    try:
        return [dict(row) for row in await connection.fetch(query, *arguments)]
    finally:
        await connection.close(timeout=5)
