"""Where a stack keeps everything: FARMIQ_HOME, else `.farmiq` in the checkout that this package runs from, else `./.farmiq`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from farmiq.stack.errors import StackError
from farmiq.stack.private_files import private_folder, remove
from farmiq.stack.socket_folder import socket_folder

# What `purge` may remove. FARMIQ_HOME may be a folder with other things in it, which are none of our business.
_ENTRIES = (
    "console", "devices", "logs", "mosquitto", "postgres", "rabbitmq", "relay", "run", "seaweedfs", "ports.json", "secrets.json",
)  # fmt: skip
_CHOOSE = "set FARMIQ_HOME to a folder of your own"


class HomeNotOurs(StackError):
    """All state lies in one folder, and this user may not write there. Perhaps another user, or root, started it first."""


class HomeNotUsable(StackError):
    """The path goes into the configuration of four servers, and RabbitMQ hangs for ever at a quote in it."""


@dataclass(frozen=True)
class Home:
    path: Path

    @property
    def secrets_file(self) -> Path:
        return self.path / "secrets.json"

    @property
    def ports_file(self) -> Path:
        return self.path / "ports.json"

    @property
    def lock_file(self) -> Path:
        return self.path / "run" / "supervisor.lock"

    @property
    def state_file(self) -> Path:
        return self.path / "run" / "state.json"

    @property
    def environment_file(self) -> Path:
        return self.path / "run" / "environment.json"

    @property
    def outside_file(self) -> Path:
        """Names what lies outside the home, so that `down` can remove it after the supervisor was killed."""
        return self.path / "run" / "outside.json"

    def server_folder(self, name: str) -> Path:
        return self.path / name

    def log_file(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def spool_folder(self, device_id: str) -> Path:
        return self.path / "devices" / device_id / "spool"

    def station_folder(self, device_id: str) -> Path:
        return self.path / "devices" / device_id

    def forwarder_socket(self, device_id: str) -> Path:
        name = f"{device_id}.sock"
        return socket_folder(self.path / "run" / "sockets", name) / name

    @property
    def relay_socket(self) -> Path:
        """Where the relay takes orders."""
        return socket_folder(self.path / "run" / "sockets", "relay.sock") / "relay.sock"

    def create(self) -> None:
        if not str(self.path).isprintable() or set(str(self.path)) & set("'\"\\"):
            raise HomeNotUsable(
                f"{str(self.path)!r} has a quote, a backslash or a control character in it", fix=_CHOOSE
            )
        try:
            private_folder(self.path)
            for part in ("run", "logs"):
                private_folder(self.path / part)
            is_writable = os.access(self.path, os.W_OK | os.X_OK)
        except PermissionError as error:
            raise self._not_ours() from error
        if not is_writable:
            raise self._not_ours()

    def purge(self) -> None:
        """Removes all state of a stopped stack, and the folder itself when nothing of anybody else is in it."""
        remove(self.path / entry for entry in _ENTRIES)
        if self.path.exists() and not any(self.path.iterdir()):
            self.path.rmdir()

    def _not_ours(self) -> HomeNotOurs:
        fix = f"run the same command as the user who started it first, or {_CHOOSE}"
        return HomeNotOurs(f"{self.path} can't be written by this user", fix=fix)


def find_home(environ: Mapping[str, str], package_file: Path = Path(__file__), here: Path | None = None) -> Home:
    if given := environ.get("FARMIQ_HOME"):
        return Home(Path(given).expanduser().absolute())
    checkout = package_file.resolve().parents[3]
    if (checkout / "pyproject.toml").exists() and (checkout / "src" / "farmiq").is_dir():
        return Home(checkout / ".farmiq")
    return Home((here or Path.cwd()) / ".farmiq")
