"""Gives orders to a relay: for the command line, for tests, for campaigns of faults. Light to import."""

import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from farmiq.stack.errors import StackError
from farmiq.stack.relay.faults import HEALTHY, RouteFaults
from farmiq.stack.relay.protocol import Answer, Change, Heal, Look, Order, RouteState, as_line

TIMEOUT_SECONDS = 5.0
_ANSWER_BYTES_MAX = 1 << 20


class RelayAway(StackError):
    """The relay's process does not answer. It is started again within seconds, and remembers what it was told."""


class OrderRefused(StackError):
    """The relay understood who speaks and did not do it."""


class RelayClient:
    """Connects for each order, so that it can be held across restarts of the relay."""

    def __init__(self, path: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds

    def look(self) -> list[RouteState]:
        return self._give(Look())

    def change(self, route: str, faults: RouteFaults) -> list[RouteState]:
        """All that is wrong with the route from now on."""
        return self._give(Change(route, faults))

    def cut(self, route: str) -> list[RouteState]:
        return self.change(route, RouteFaults(down=True))

    def heal(self, route: str | None = None) -> list[RouteState]:
        return self._give(Heal(route))

    def broken(self, route: str, faults: RouteFaults) -> "Broken":
        """For the time of a `with` block."""
        return Broken(self, route, faults)

    def _give(self, order: Order) -> list[RouteState]:
        try:
            line = self._ask(as_line(order))
        except OSError as error:
            raise RelayAway(f"the relay does not answer at {self._path}: {error}", fix="farmiq status") from error
        answer = msgspec.json.decode(line, type=Answer)
        if answer.error is not None:
            raise OrderRefused(answer.error.message)
        return answer.routes

    def _ask(self, line: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talk:
            talk.settimeout(self._timeout_seconds)
            talk.connect(str(self._path))
            talk.sendall(line)
            with talk.makefile("rb") as answers:
                answer = answers.readline(_ANSWER_BYTES_MAX)
        if not answer.endswith(b"\n"):
            raise ConnectionResetError("it hung up before it had answered")
        return answer


class Broken:
    def __init__(self, client: RelayClient, route: str, faults: RouteFaults) -> None:
        self._client, self._route, self._faults = client, route, faults

    def __enter__(self) -> Sequence[RouteState]:
        return self._client.change(self._route, self._faults)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.change(self._route, HEALTHY)
