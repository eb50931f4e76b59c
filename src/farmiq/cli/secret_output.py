"""Where a command writes secrets that it shows only once."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from farmiq.cli.errors import BadUsage
from farmiq.cli.terminal import say

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write the result into a new file that only you can read, instead of printing it.",
    ),
]


@contextmanager
def secret_writer(output: Path | None) -> Iterator[Callable[[str], None]]:
    """Gives the function that writes the secrets. A file exists before they are made: none is made that can't be written."""
    if output is None:
        yield _print
        return
    with os.fdopen(_new_file(output), "w", encoding="utf-8") as file:
        try:
            yield lambda text: print(text, file=file)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            output.unlink(missing_ok=True)
            raise
    sys.stderr.write(f"Written to {output}, which only you can read.\n")


def _print(text: str) -> None:
    warn_if_readable(fix="chmod 600 FILE now, and --output FILE instead of > the next time")
    say(text)


def warn_if_readable(descriptor: int = 1, *, fix: str) -> None:
    """A shell makes the file behind `>` readable by everybody, unless the umask forbids it."""
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        sys.stderr.write(
            f"warning: the secrets go into a file of mode {mode:04o}, which others can read.\n  fix: {fix}\n"
        )


def _new_file(output: Path) -> int:
    try:
        return os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise BadUsage(
            f"{output} can't be made, and nothing was changed",
            why=f"{error.strerror}.",
            fix="--output FILE, with a file that does not exist yet, in a folder that you may write to",
        ) from error
