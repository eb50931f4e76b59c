"""The duplicates that were removed since something was broken, kept between one command and the next.

The services count them since their own start, and may be killed in between. So each command adds what was counted since the one
before it, and starts from zero where the process is a new one."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from farmiq.cli.flow import Counted
from farmiq.stack.private_files import private_folder, write_private


class Ledger(Struct, frozen=True):
    counters: dict[str, Counted] = {}
    duplicates: int = 0


class LedgerFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Ledger | None:
        """None when nothing was broken since the farm was started, or the file is of another version."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Ledger)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def save(self, counters: Mapping[str, Counted], duplicates: int) -> None:
        private_folder(self._path.parent)
        write_private(self._path, msgspec.json.encode(Ledger(dict(counters), duplicates)).decode(), is_durable=False)
