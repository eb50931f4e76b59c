"""Servers of another Debian, run from a root filesystem beside this system. `make matrix-roots` makes such filesystems.

A server there is a plain child process: it shares our network, processes, accounts and its own data folder, and nothing else. Its
mounts are in a mount namespace of its own, so they end with it and the root filesystem stays as it was made.
"""

import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from farmiq.stack.mosquitto import Mosquitto
from farmiq.stack.ports import free_port
from farmiq.stack.postgres import SUPERUSER, Postgres
from farmiq.stack.private_files import write_private
from farmiq.stack.rabbitmq import Epmd, RabbitMq
from farmiq.stack.unprivileged import command_as, server_account
from support.server_process import ServerProcess

CHECKOUT: Final = Path(__file__).parents[2]
# The mounts of a shared root are private to the process: `unshare --mount` gives it a namespace of its own.
_ENTER: Final = """
set -e
root=$1 shared=$2
shift 2
for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
for file in passwd group; do mount --bind "/etc/$file" "$root/etc/$file"; done
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root$shared"
mount --rbind "$shared" "$root$shared"
exec chroot "$root" "$@"
"""


def debian_root(suite: str, release: int) -> Path:
    """The root filesystem of that Debian. Skips the test where there is none."""
    root = Path(os.environ.get("FARMIQ_MATRIX_ROOTS") or CHECKOUT / ".matrix" / "roots") / suite
    if not (root / "etc" / "debian_version").exists():
        pytest.skip(f"no Debian {release} root: make one with `make matrix-roots`")
    if os.geteuid() != 0:
        pytest.skip(f"only root can enter a Debian {release} root")
    return root


def inside(root: Path, shared: Path, command: list[str]) -> list[str]:
    """That command inside the root, where `shared` is the same folder as outside."""
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        _ENTER,
        "sh",
        str(root),
        str(shared),
        *command,
    ]


@dataclass(frozen=True)
class RabbitMqInside(RabbitMq):
    root: Path = Path("/")

    def command(self) -> list[str]:
        return inside(self.root, self.folder, super().command())


@dataclass(frozen=True)
class MosquittoInside(Mosquitto):
    root: Path = Path("/")

    def command(self) -> list[str]:
        return inside(self.root, self.folder, super().command())


@dataclass(frozen=True)
class DebianPostgres(Postgres):
    """A distribution's own PostgreSQL, of this system or inside a root."""

    version: int = 15
    root: Path | None = None

    def prepare(self) -> None:
        super().prepare()
        # A socket's folder may be outside of ours, where a root has nothing.
        settings = self.folder / "postgresql.conf"
        write_private(settings, f"{settings.read_text()}unix_socket_directories = ''\n", mode=0o644)

    def tool(self, program: str, *arguments: str) -> None:
        """A client of that version, as the superuser."""
        environ = self.environment() | {"PGPASSWORD": self.superuser_password}
        login = ["-h", "127.0.0.1", "-U", SUPERUSER]
        subprocess.run(self._there([self._program(program), *login, *arguments]), env=environ, check=True, timeout=120)

    def _as_server(self, program: str, *arguments: str) -> list[str]:
        # The locale provider is newer than 15.
        known = [argument for argument in arguments if "builtin" not in argument]
        command = ["/usr/bin/env", self._program(program), *known]
        return self._there(command_as(server_account(), command, [self.data_folder]))

    def _program(self, name: str) -> str:
        return f"/usr/lib/postgresql/{self.version}/bin/{name}"

    def _there(self, command: list[str]) -> list[str]:
        return command if self.root is None else inside(self.root, self.folder, command)


@pytest.fixture
def debian13_rabbitmq(run_folder: Path, tmp_path: Path) -> Iterator[RabbitMq]:
    """A node of RabbitMQ 4.0, of the test's own."""
    root = debian_root("trixie", 13)
    epmd = Epmd(free_port())
    secret = secrets.token_urlsafe(16)
    server = RabbitMqInside(tmp_path / "rabbitmq4", free_port(), free_port(), epmd.port, secret, secret, root=root)
    processes = [
        ServerProcess(epmd, run_folder, tmp_path / "epmd4.log"),
        ServerProcess(server, run_folder, tmp_path / "rabbitmq4.log"),
    ]
    for process in processes:
        process.start(seconds=120)
    yield server
    for process in reversed(processes):
        process.stop()
