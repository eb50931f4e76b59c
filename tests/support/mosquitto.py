import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from farmiq.stack.mosquitto import Mosquitto
from farmiq.stack.mosquitto_users import MqttUser, set_users
from farmiq.stack.ports import free_port
from support.server_process import ServerProcess
from support.waiting import run_apart, wait_for


class Broker:
    """A real Mosquitto of one test. Users come with `add_user`, also while it runs."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.server = Mosquitto(folder, free_port(), secrets.token_urlsafe(16), services_port=free_port())
        self.port = self.server.port
        self._process = ServerProcess(self.server, home, folder.with_suffix(".log"))
        self._passwords: dict[str, str] = {}

    def add_user(self, name: str, rules: tuple[str, ...] = ("topic readwrite #",)) -> str:
        """Returns the URL of the new user. `rules` are lines of Mosquitto's ACL file."""
        user = MqttUser(name, secrets.token_urlsafe(16), rules)
        self._passwords[name] = user.password
        if self._process.is_running:
            run_apart(lambda: self.server.admit(self._process.pid, user))
        else:
            set_users(self.server.folder, user)
        return self.url(name)

    def password(self, name: str) -> str:
        return self._passwords[name]

    @property
    def pid(self) -> int:
        return self._process.pid

    def remove_user(self, name: str) -> None:
        run_apart(lambda: self.server.dismiss(self._process.pid, name))

    def url(self, user: str) -> str:
        """The user's URL, where client ids are free. A user that was never added is added with all rights."""
        return self.server.url(user, self._passwords[user]) if user in self._passwords else self.add_user(user)

    def device_url(self, user: str) -> str:
        """Where devices log in: the client id is the user's name, whatever the client says."""
        return self.server.device_url(user, self._passwords[user])

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def save_sessions(self) -> None:
        """Returns when the broker has written its sessions to disk, as it does by itself now and then."""
        database = self.server.folder / "data" / "mosquitto.db"
        before = database.stat().st_mtime_ns if database.exists() else 0
        os.kill(self._process.pid, signal.SIGUSR1)
        wait_for(
            lambda: database.exists() and database.stat().st_mtime_ns != before, what="the broker's sessions on disk"
        )

    def restart(self) -> None:
        self._process.restart()

    def pause(self) -> None:
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()


@pytest.fixture
def mosquitto(run_folder: Path, tmp_path: Path) -> Iterator[Broker]:
    """A running broker of the test's own: `.url(user)`, `.add_user(name, rules)`, `.restart()`, `.kill()`, `.start()`."""
    broker = Broker(tmp_path / "mosquitto", run_folder)
    broker.start()
    yield broker
    broker.stop()
