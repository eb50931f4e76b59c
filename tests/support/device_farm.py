"""A farm for its devices: a broker, a database, and the real `farmiq device`."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from farmiq.cli import exits
from farmiq.cli.device_changes import add_device
from farmiq.cli.device_edge import Edge, find_edge, origin_of
from farmiq.edge.ingress_gateway.issuing import Issued
from farmiq.stack.home import Home
from farmiq.stack.mosquitto import MqttRefused, log_in
from farmiq.stack.mosquitto_users import access_file, password_file
from farmiq.stack.secrets import load_or_create
from farmiq.stack.state import ChildState, StackState, write_state
from support.mosquitto import Broker

FARMIQ = Path(sys.executable).parent / "farmiq"


class DeviceFarm:
    """A home with a running broker, as the supervisor leaves its word there; the supervisor itself is not needed."""

    def __init__(self, home: Home, broker: Broker) -> None:
        self.home = home
        self.broker = broker
        self._environment: dict[str, str] = {}
        self.files = [path(home.server_folder("mosquitto")) for path in (password_file, access_file)]

    def start(self) -> None:
        self.broker.start()
        child = ChildState(
            name="mosquitto",
            kind="server",
            state="healthy",
            since=datetime.now(UTC),
            log="",
            pid=self.broker.pid,
            port=self.broker.port,
        )
        write_state(self.home, StackState(home=str(self.home.path), phase="running", children=[child]))

    def tell(self, **variables: str) -> None:
        """As `farmiq env` would."""
        self._environment |= variables
        self.home.environment_file.write_text(json.dumps(self._environment))

    @property
    def edge(self) -> Edge:
        return find_edge({"FARMIQ_HOME": str(self.home.path)})

    async def add(self, device_id: str, *, kind: str = "node", barn: str | None = None) -> Issued:
        return await add_device(self.edge, origin_of(self.edge, device_id, None, None, barn), kind)

    async def lets_in(self, issued: Issued) -> bool:
        try:
            await log_in("127.0.0.1", self.broker.port, issued.device.device_id, issued.mqtt_password)
        except MqttRefused:
            return False
        return True

    def command(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [FARMIQ, "device", *arguments],
            env=self.variables() | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def variables(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
        return kept | {"FARMIQ_HOME": str(self.home.path)}

    def told(self, *arguments: str, **variables: str) -> Any:
        answer = self.command(*arguments, "--json", **variables)
        assert answer.returncode == exits.OK, answer.stderr
        return json.loads(answer.stdout)


@pytest.fixture
def farm(run_folder: Path, tmp_path: Path, edge_url: str) -> Iterator[DeviceFarm]:
    home = Home(tmp_path / "home")
    home.create()
    with home.lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keeper_password = load_or_create(home.secrets_file).mqtt_keeper
        farm = DeviceFarm(home, Broker(home.server_folder("mosquitto"), run_folder, keeper_password))
        farm.tell(EDGE_DATABASE_URL=edge_url, MQTT_URL=f"mqtt://127.0.0.1:{farm.broker.services_port}")
        farm.start()
        yield farm
        farm.broker.stop()
