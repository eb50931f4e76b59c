import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, Right, device_rights, may_publish, may_read
from farmiq.stack.mosquitto import Mosquitto, Running, put_in_force
from farmiq.stack.mosquitto_users import MqttUser, change_files
from farmiq.stack.ports import free_port
from support.server_process import ServerProcess
from support.waiting import run_apart, wait_for

EVERYTHING = (*may_publish("#"), *may_read("#"), *may_read("$SYS/#"), *may_read("$share/#"))


class Broker:
    """A real Mosquitto of one test. Users come with `add_user` and `add_device`, also while it runs."""

    def __init__(self, folder: Path, home: Path, keeper_password: str | None = None) -> None:
        password = keeper_password or secrets.token_urlsafe(16)
        self.services_port = free_port()
        self.server = Mosquitto(folder, free_port(), password, services_port=self.services_port)
        self.port = self.server.port
        self._process = ServerProcess(self.server, home, folder.with_suffix(".log"))
        self._passwords: dict[str, str] = {}

    def add_user(self, name: str, rights: tuple[Right, ...] = EVERYTHING) -> str:
        """Returns the URL of the new user."""
        return self._add(MqttUser(name, secrets.token_urlsafe(16), rights))

    def add_device(self, name: str, kind: str = "node", place: tuple[str, str, str] = ("t", "f", "b")) -> str:
        """Somebody with the rights of a device. Returns the URL where devices log in."""
        self._add(MqttUser(name, secrets.token_urlsafe(16), device_rights(*place, name, kind), has_fixed_id=True))
        return self.device_url(name)

    def _add(self, user: MqttUser) -> str:
        self._passwords[user.name] = user.password
        self.put(user.login)
        return self.url(user.name)

    def put(self, *logins: MqttLogin) -> None:
        if self._process.is_running:
            run_apart(lambda: put_in_force(self.running, logins))
        else:
            change_files(self.server.folder, logins)

    @property
    def running(self) -> Running:
        return Running(self.server.folder, self.services_port, self.server.keeper_password, lambda: self.pid)

    def password(self, name: str) -> str:
        return self._passwords[name]

    @property
    def pid(self) -> int:
        return self._process.pid

    def remove_user(self, name: str) -> None:
        run_apart(lambda: put_in_force(self.running, drop=[name]))

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
    """A running broker of the test's own: `.url(user)`, `.add_user(name)`, `.add_device(name)`, `.restart()`, `.kill()`."""
    broker = Broker(tmp_path / "mosquitto", run_folder)
    broker.start()
    yield broker
    broker.stop()
