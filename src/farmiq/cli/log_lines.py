"""Log lines of several files as one stream: the last ones, then the new ones, in the order of time where lines carry one."""

import io
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

TAIL_BYTES_MAX = 1 << 20
_TIME = re.compile(r'(?:"timestamp":")?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?)')
_FIRST = ("timestamp", "level", "service", "message", "version")


@dataclass(frozen=True)
class Line:
    source: str
    text: str


class Tail:
    """One growing file. It may be cut, or moved away for a new one of the same name: no whole line is missed or shown twice."""

    def __init__(self, source: str, path: Path) -> None:
        self.source = source
        self._path = path
        self._file: io.BufferedReader | None = None
        self._unfinished = b""

    def last(self, count: int) -> list[Line]:
        """The last lines that are there now. `new` continues behind them."""
        if not self._open():
            return []
        assert self._file is not None  # noqa: S101 - _open has just said so
        end = self._file.seek(0, os.SEEK_END)
        start = max(0, end - TAIL_BYTES_MAX)
        self._file.seek(start)
        lines = self._read()
        # The first of a block from the middle of the file is the end of a line whose start we did not read.
        return (lines[1:] if start else lines)[-count:] if count else []

    def new(self) -> list[Line]:
        if self._file is None:
            return self._read() if self._open() else []
        lines = self._read()
        if self._was_replaced():
            self._file.close()
            self._file, self._unfinished = None, b""
            return lines + (self._read() if self._open() else [])
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            self._file.seek(0)
            self._unfinished = b""
            lines += self._read()
        return lines

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> bool:
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            return False
        return True

    def _was_replaced(self) -> bool:
        assert self._file is not None  # noqa: S101 - only asked while a file is open
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False  # moved away, and the new one is not there yet

    def _read(self) -> list[Line]:
        assert self._file is not None  # noqa: S101 - only called while a file is open
        *whole, self._unfinished = (self._unfinished + self._file.read()).split(b"\n")
        return [Line(self.source, line.decode(errors="replace")) for line in whole]


def in_order_of_time(files: Iterable[Sequence[Line]]) -> list[Line]:
    """A line without a time of its own (a traceback, a banner) stays behind the one before it."""
    stamped = []
    for lines in files:
        at = ""
        for line in lines:
            found = _TIME.search(line.text[:120])
            at = f"{found[1]}T{found[2]}" if found else at
            stamped.append((at, line))
    return [line for _, line in sorted(stamped, key=lambda pair: pair[0])]


def readable(line: Line) -> str:
    """One of our JSON lines as a person reads it. Any other line as it is, behind the name of its server."""
    try:
        fields = json.loads(line.text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        return f"{line.source:<26} {line.text}"
    at = str(fields.get("timestamp", ""))[11:23]
    rest = "".join(
        f" {key}={_short(value)}" for key, value in fields.items() if key not in _FIRST and key != "exception"
    )
    trace = f"\n{fields['exception']}" if fields.get("exception") else ""
    level = str(fields.get("level", "")).upper()
    return f"{line.source:<26} {at:<12} {level:<7} {fields.get('message', '')}{rest}{trace}"


def _short(value: object) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)
