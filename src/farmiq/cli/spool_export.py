"""An export into a file: whole, or not there."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.cli.spool_rows import Row


def refuse_inside(folder: Path, output: Path) -> None:
    if folder.resolve() in output.resolve().parents:
        raise BadUsage(
            f"{output} is inside the spool",
            why="The spool's folder belongs to node-forwarder, and a wrong name there costs samples.",
            fix=f"farmiq spool export -o {output.name}",
        )


def write_file(rows: Iterable[Row], write: Callable[[Iterable[Row], IO[str]], None], output: Path) -> int:
    """How many samples were written."""
    draft = output.with_name(output.name + ".part")
    counted = _Counted(rows)
    try:
        with draft.open("w", encoding="utf-8", newline="") as out:
            write(counted, out)
        draft.replace(output)
    except OSError as error:
        raise CommandFailed(
            f"{output} can't be written: {error.strerror}",
            why="The export needs a folder that this user may write to, with room for it.",
            fix="farmiq spool export -o FILE, in another folder",
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return counted.count


class _Counted:
    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.count += 1
            yield row
