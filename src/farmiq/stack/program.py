import os
import signal
from pathlib import Path
from typing import Protocol

from farmiq.stack.binaries import search_path


def plain_environment() -> dict[str, str]:
    """What every server gets. Nothing else leaks in from the shell that said `farmiq up`: PGPORT and the like."""
    kept = {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
    return kept | {"PATH": search_path(), "HOME": "/", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


class Program(Protocol):
    """What the supervisor needs to know in order to run PostgreSQL, Mosquitto, RabbitMQ, SeaweedFS or a service of ours."""

    @property
    def name(self) -> str: ...
    @property
    def stop_signal(self) -> signal.Signals: ...
    @property
    def stop_seconds(self) -> float: ...

    def prepare(self) -> None:
        """Writes folders and configuration before each start."""

    def command(self) -> list[str]:
        """Runs in the foreground. Carries no secret, as everybody on the machine can read it."""
        ...

    def environment(self) -> dict[str, str]:
        """The whole of it."""
        ...

    async def probe(self) -> None:
        """Uses the program with its credential, as a client would. Raises when that fails."""

    def outside(self) -> list[Path]:
        """What it leaves behind outside its private folder, for whoever ends it to remove."""
        ...
