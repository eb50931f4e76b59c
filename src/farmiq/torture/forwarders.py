"""The node-forwarders of a campaign: real ones, in processes of their own, started again when they die as systemd would do it."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from farmiq.kit.clock import Clock
from farmiq.stack.children import Child
from farmiq.stack.home import Home
from farmiq.stack.keeper import Keeper
from farmiq.stack.program import plain_environment
from farmiq.stack.socket_folder import make_socket_folder
from farmiq.torture.telling import Login


@dataclass(frozen=True)
class Forwarder:
    login: Login
    socket: Path
    spool: Path

    stop_signal = signal.SIGTERM
    stop_seconds = 15.0

    @property
    def name(self) -> str:
        return f"forwarder-{self.login.device_id}"

    def prepare(self) -> None:
        make_socket_folder(self.socket.parent, {os.geteuid()})
        self.spool.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "farmiq.cli", "run", "node-forwarder"]

    def environment(self) -> dict[str, str]:
        login = self.login
        return plain_environment() | {
            "TENANT_ID": login.tenant_id,
            "FARM_ID": login.farm_id,
            "BARN_ID": login.barn_id,
            "DEVICE_ID": login.device_id,
            "MQTT_URL": login.mqtt_url,
            "NODE_FORWARDER_SOCKET": str(self.socket),
            "NODE_FORWARDER_SPOOL_DIR": str(self.spool),
            # A campaign fills a small disk on purpose: nothing is to be given up for room that others might want.
            "NODE_FORWARDER_KEEP_FREE_BYTES": "0",
        }

    async def probe(self) -> None:
        """It has no port: it is healthy for as long as it runs."""

    def outside(self) -> list[Path]:
        return []


def forwarder_of(home: Home, login: Login) -> Forwarder:
    """With its spool where `farmiq audit` of that home looks for it."""
    return Forwarder(login, home.forwarder_socket(login.device_id), home.spool_folder(login.device_id))


def keeper_of(home: Home, forwarder: Forwarder, clock: Clock) -> Keeper:
    return Keeper(Child(forwarder, "service"), home, lambda: None, clock)
