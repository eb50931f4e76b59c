"""The relay as a child of the supervisor."""

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from farmiq.stack.private_files import private_folder, write_private
from farmiq.stack.program import plain_environment
from farmiq.stack.relay.client import RelayClient
from farmiq.stack.relay.route import RouteSpec
from farmiq.stack.socket_folder import make_socket_folder


class Orders(Struct, frozen=True):
    """What its process reads when it starts."""

    socket: str
    memory: str
    routes: tuple[RouteSpec, ...]


@dataclass(frozen=True)
class Relay:
    folder: Path
    socket: Path
    routes: tuple[RouteSpec, ...]

    name = "relay"
    stop_signal = signal.SIGTERM
    stop_seconds = 5.0

    @property
    def port(self) -> int:
        """Of several, the one that people look for."""
        return self.routes[0].links[0].port

    @property
    def memory_file(self) -> Path:
        return self.folder / "faults.json"

    def prepare(self) -> None:
        private_folder(self.folder)
        make_socket_folder(self.socket.parent, {os.geteuid()})
        orders = Orders(str(self.socket), str(self.memory_file), self.routes)
        write_private(self._orders_file, msgspec.json.format(msgspec.json.encode(orders)).decode())

    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "farmiq.stack.relay", str(self._orders_file)]

    def environment(self) -> dict[str, str]:
        return plain_environment()

    async def probe(self) -> None:
        await asyncio.to_thread(RelayClient(self.socket).look)

    def outside(self) -> list[Path]:
        return [] if self.socket.is_relative_to(self.folder.parent) else [self.socket.parent]

    @property
    def _orders_file(self) -> Path:
        return self.folder / "routes.json"
