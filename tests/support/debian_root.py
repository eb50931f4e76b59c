"""Servers of another Debian, run from a root filesystem beside this system. `make matrix-roots` makes such filesystems.

A server there is a plain child process: it shares our network, our process table and its own data folder, and nothing else. Its
mounts are in a mount namespace of its own, so they end with it and the root filesystem stays as it was made.
"""

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from farmiq.stack.ports import free_port
from farmiq.stack.rabbitmq import Epmd, RabbitMq
from support.server_process import ServerProcess

CHECKOUT: Final = Path(__file__).parents[2]
# The mounts of a shared root are private to the process: `unshare --mount` gives it a namespace of its own.
_ENTER: Final = """
set -e
root=$1 shared=$2
shift 2
for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
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
