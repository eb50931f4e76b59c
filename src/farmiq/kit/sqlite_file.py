"""A small database of one process's own, in a SQLite file that only its owner can read.

`synchronous=FULL` with a write-ahead log: a commit that returned survives a power cut.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from farmiq.kit.errors import Fatal

_SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "busy_timeout = 5000", "foreign_keys = ON")


class FileTooNew(Fatal):
    """The file was written by a newer version of FarmIQ. Nothing was touched; run that version or newer."""

    code = "file_too_new"


class FileDamaged(Fatal):
    """The file is no database that can be read. Nothing was touched; move it away to begin with a new one."""

    code = "file_damaged"


def open_file(path: Path, steps: Sequence[str]) -> sqlite3.Connection:
    """`steps[n]` is the SQL that leads from format n to format n + 1. Steps that a file has had are not repeated."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        _bring_up_to_date(connection, path, steps)
    except sqlite3.OperationalError:
        connection.close()
        raise
    except sqlite3.DatabaseError as error:
        connection.close()
        raise FileDamaged(f"{path} can't be read: {error}") from error
    except FileTooNew:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Durable when the block has been left."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _bring_up_to_date(connection: sqlite3.Connection, path: Path, steps: Sequence[str]) -> None:
    with transaction(connection):  # another process may open the file for the first time just now
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(steps):
            raise FileTooNew(f"{path} has format {version}, this version of FarmIQ knows {len(steps)}")
        for step in steps[version:]:
            for statement in filter(str.strip, step.split(";\n")):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(steps)}")
