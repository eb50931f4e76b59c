"""Runs the code blocks of a page as a reader would: in order, in one shell, in the folder and with the farm that it is given.

A comment right before a block may say something about it:

    <!-- file: NAME -->        the block is the content of this file, which later blocks use
    <!-- not run: REASON -->   the block can't be run here

Everything else is run by its language: `sh` as a whole; in `console` each `$ command`, whose output is compared with what the
page shows. `json`, `toml` and `csv` have to be what they claim. Any other block needs one of the two comments.

Output is compared by its shape. A line of the page without digits has to be in the output, with other spaces perhaps. Lines with
digits show one run of many: of those that follow each other with the same indentation at least one has to fit, its words in their
order, with anything in the place of numbers, ids and times and between the words. A line with `…` or `...` alone stands for any
lines.
"""

import csv
import json
import os
import re
import selectors
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

COMMAND_SECONDS_MAX: Final = 240.0
EXIT: Final = "page-runner: that was all"

_FENCE: Final = re.compile(r"^```(\w*)$")
_NOTE: Final = re.compile(r"^<!-- (file|not run): (.+?) -->$")
_UNITS: Final = frozenset({"s", "m", "h", "d", "B", "kB", "MB", "GB", "TB", "ms"})
_ANY_LINES: Final = frozenset({"…", "..."})


@dataclass(frozen=True)
class Block:
    """`line`: of its first line of code, counted as an editor does. `note` and `about`: the comment before it."""

    page: Path
    line: int
    language: str
    text: str
    note: str = ""
    about: str = ""

    @property
    def is_excluded(self) -> bool:
        return self.note == "not run"

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One `$ command` of a console block, with the lines that the page shows after it."""

    line: int
    text: str
    output: tuple[str, ...]


class PageFailed(AssertionError):
    """A block of a page does not do what the page says."""


def blocks(page: Path) -> list[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    begin: int | None = None
    for number, line in enumerate(lines):
        if begin is None and line.startswith("```"):
            begin = number
        elif begin is not None and line == "```":
            found.append(_block(page, lines, begin, number))
            begin = None
    assert begin is None, f"{page.name}: the block in line {begin} has no end"
    return found


def _block(page: Path, lines: list[str], begin: int, end: int) -> Block:
    fence = _FENCE.match(lines[begin])
    assert fence is not None, f"{page.name}:{begin + 1}: not a fence that this runner reads: {lines[begin]}"
    note = _NOTE.match(lines[begin - 1]) if begin else None
    text = "".join(f"{line}\n" for line in lines[begin + 1 : end])
    kind, about = (note[1], note[2]) if note else ("", "")
    return Block(page, begin + 2, fence[1], text, kind, about)


def commands(block: Block) -> list[Command]:
    """Those of a console block. A command goes on until the shell has enough: quotes, backslashes, here-documents."""
    found: list[Command] = []
    lines = block.text.splitlines()
    place = 0
    while place < len(lines):
        assert lines[place].startswith("$ "), f"{block}: a console block begins with `$ command`: {lines[place]}"
        begin, text = place, lines[place][2:]
        while not _is_whole(text):
            place += 1
            assert place < len(lines), f"{block}: the command has no end: {text}"
            text += f"\n{lines[place]}"
        place += 1
        output = []
        while place < len(lines) and not lines[place].startswith("$ "):
            output.append(lines[place])
            place += 1
        found.append(Command(block.line + begin, text, tuple(output)))
    return found


def _is_whole(text: str) -> bool:
    if text.endswith("\\"):
        return False
    checked = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    return checked.returncode == 0 and not checked.stderr  # a here-document without its end is a warning


# --- Output --------------------------------------------------------------------------------------------------------------------


def differences(expected: tuple[str, ...], output: str) -> list[str]:
    """Lines of the page that the output does not have."""
    lines = [_spaced(line) for line in output.splitlines()]
    return [
        run[0] for run in _runs(expected) if not any(_pattern(line).fullmatch(there) for line in run for there in lines)
    ]


def _runs(expected: tuple[str, ...]) -> Iterator[list[str]]:
    """Each line alone, but for lines with digits that follow each other."""
    run: list[str] = []
    for line in (line for line in expected if line.strip() and line.strip() not in _ANY_LINES):
        if run and not (_has_digits(line) and _has_digits(run[-1]) and _indent(line) == _indent(run[-1])):
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def _spaced(line: str) -> str:
    """With one space between words, and the lines of a drawn table of one length."""
    return " ".join(re.sub("─+", "─", line).split())


def _has_digits(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _pattern(line: str) -> re.Pattern[str]:
    parts, after_number = [], False
    for word in _spaced(line).split():
        is_free = _has_digits(word) or "…" in word or (after_number and word.rstrip(",.") in _UNITS)
        parts.append(r"\S+" if is_free else re.escape(word))
        after_number = _has_digits(word)
    return re.compile((" (?:.* )?" if _has_digits(line) else " ").join(parts))


# --- The shell -----------------------------------------------------------------------------------------------------------------


@dataclass
class Shell:
    """One bash for a whole page: what a block sets, the next one has. A command that fails ends it."""

    folder: Path
    environ: Mapping[str, str]
    scratch: Path
    _count: int = 0
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    def __enter__(self) -> "Shell":
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.folder,
            env=dict(self.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def run(self, text: str, seconds_max: float = COMMAND_SECONDS_MAX) -> tuple[int | None, str]:
        """Exit status and output, errors among it. None: it did not end in time. A failure ends the shell."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._count += 1
        script = self.scratch / f"{self._count}.sh"
        script.write_text(f"{text}\n", encoding="utf-8")
        line = f"set -e; . '{script}' < /dev/null; printf '\\n{EXIT}\\n'\n"
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()
        return self._read(time.monotonic() + seconds_max)

    def _read(self, deadline: float) -> tuple[int | None, str]:
        assert self._process is not None
        assert self._process.stdout is not None
        output = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                if not selector.select(timeout=1.0):
                    continue
                piece = os.read(self._process.stdout.fileno(), 65536)
                output += piece
                if output.endswith(f"\n{EXIT}\n".encode()):
                    return 0, output.removesuffix(f"\n{EXIT}\n".encode()).decode("utf-8", "replace")
                if not piece:
                    return self._process.wait(), output.decode("utf-8", "replace")
        return None, output.decode("utf-8", "replace")


# --- A page --------------------------------------------------------------------------------------------------------------------


def run_page(page: Path, shell: Shell) -> int:
    """How many blocks were run. Raises `PageFailed` with page, line, command and output."""
    done = [block for block in blocks(page) if not block.is_excluded]
    for block in done:
        _run(block, shell)
    return len(done)


def _run(block: Block, shell: Shell) -> None:
    if block.note == "file":
        _write(block, shell)
    elif block.language == "sh":
        _check(shell, f"{block}", block.text, ())
    elif block.language == "console":
        for command in commands(block):
            _check(shell, f"{block.page.name}:{command.line}", command.text, command.output)
    else:
        check_data(block)


def _write(block: Block, shell: Shell) -> None:
    status, output = shell.run("pwd")
    assert status == 0, output
    (Path(output.strip()) / block.about).write_text(block.text, encoding="utf-8")
    if block.language == "python":
        compile(block.text, block.about, "exec")


def _check(shell: Shell, where: str, text: str, expected: tuple[str, ...]) -> None:
    status, output = shell.run(text)
    missing = differences(expected, output) if status == 0 else []
    if status == 0 and not missing:
        return
    ended = "did not end" if status is None else f"ended with {status}"
    why = "\n".join(["the output does not have:", *missing]) if missing else ended
    raise PageFailed(f"{where}: {why}\n--- command\n{text}\n--- output\n{output[-6000:]}")


def check_data(block: Block) -> None:
    """Raises when a block is not of the kind that it is said to be."""
    try:
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "csv":
            assert len({len(row) for row in csv.reader(block.text.splitlines())}) == 1, "rows of different lengths"
        else:
            raise PageFailed(f"{block}: {block.language or 'a block without a language'} is neither run nor excluded")
    except ValueError as error:
        raise PageFailed(f"{block}: not {block.language}: {error}") from error
