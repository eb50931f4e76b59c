"""A home whose cloud database is there, and the real `farmiq edge` or another group. Its other servers are not needed."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farmiq.cli import exits
from farmiq.stack.home import Home
from farmiq.stack.state import StackState, write_state

FARMIQ = Path(sys.executable).parent / "farmiq"


class FarmCloud:
    def __init__(self, home: Home, database_url: str, group: str = "edge") -> None:
        self.home = home
        self.group = group
        write_state(home, StackState(home=str(home.path), phase="running"))
        known = {"CLOUD_DATABASE_URL": database_url, "CLOUD_INGESTION_URL": "http://127.0.0.1:5201"}
        home.environment_file.write_text(json.dumps(known))

    def command(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
        return subprocess.run(
            [FARMIQ, self.group, *arguments],
            env=kept | {"FARMIQ_HOME": str(self.home.path)} | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def told(self, *arguments: str, **variables: str) -> Any:
        answer = self.command(*arguments, "--json", **variables)
        assert answer.returncode == exits.OK, answer.stderr
        return json.loads(answer.stdout)


@pytest.fixture
def farm_cloud(tmp_path: Path, cloud_url: str) -> Iterator[FarmCloud]:
    home = Home(tmp_path / "home")
    home.create()
    with home.lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield FarmCloud(home, cloud_url)
