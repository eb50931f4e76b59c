"""Between choosing a port and listening on it another farm of the same user may choose it too. So what was chosen is written
down for a while, in one small file of that user, under a lock."""

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HELD_SECONDS: Final = 120.0
"""Longer than a farm takes until its last server listens."""

THIS_PROCESS: Final = f"process {os.getpid()}"
"""Owns what was reserved for no farm in particular. It may hand it on to a farm of its own."""


class Reservations:
    """Those of others, and a way to add our own. Belongs to the block that holds the lock."""

    def __init__(self, owner: str, entries: dict[str, tuple[float, str]], now: float) -> None:
        self._owner = owner
        self._until = now + HELD_SECONDS
        self.entries = {port: (until, who) for port, (until, who) in entries.items() if until > now}

    def is_anothers(self, port: int) -> bool:
        entry = self.entries.get(str(port))
        return entry is not None and entry[1] not in {self._owner, THIS_PROCESS}

    def is_anybodys(self, port: int) -> bool:
        return str(port) in self.entries

    def add(self, port: int) -> None:
        self.entries[str(port)] = (self._until, self._owner)


@contextmanager
def reserving(owner: str, file: Path | None = None) -> Iterator[Reservations]:
    """One process at a time. What was added stands when the block has been left."""
    path = file or Path(tempfile.gettempdir()) / f"farmiq-ports-{os.geteuid()}.json"
    try:
        # A link that somebody else has put there is not followed.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        # Somebody is in the way: we go on as if alone, and a port that is taken after all is found out when it is listened on.
        yield Reservations(owner, {}, time.time())
        return
    with os.fdopen(descriptor, "r+", encoding="utf-8") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        reservations = Reservations(owner, _read(opened.read()), time.time())
        yield reservations
        opened.seek(0)
        opened.truncate()
        opened.write(json.dumps(reservations.entries))


def _read(text: str) -> dict[str, tuple[float, str]]:
    """Cut off in the middle by a kill, it says nothing: it is only about the next two minutes."""
    try:
        return {port: (float(until), str(who)) for port, (until, who) in json.loads(text or "{}").items()}
    except (ValueError, AttributeError, TypeError):
        return {}
