"""The queue's SQLite file: how it is opened, what is in it, and what happens when it is damaged.

`synchronous=FULL` with a write-ahead log: a commit that returned survives a power cut. One thread uses the connection.
"""

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from farmiq.kit.errors import Fatal, Transient
from farmiq.spool import disk

FILE: Final = "queue.db"
PICTURES: Final = "pictures"
DAMAGED: Final = "damaged"
UNTOLD: Final = "untold"
STATUS: Final = "status.json"
"""Written by every station that has run for a moment."""
VERSION: Final = 3

_SCHEMA: Final = """
-- `since_us`, `next_us` and `settled_us` are on the station's running time: see running_time.py
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    trace_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed')),
    began_us INTEGER NOT NULL,
    weight_kg REAL NOT NULL,
    image_count INTEGER NOT NULL DEFAULT 0,
    -- why something of it was given up; a person should see it
    failed_reason TEXT,
    since_us INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX sessions_by_state ON sessions (state, began_us);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    topic TEXT NOT NULL,
    ts_us INTEGER NOT NULL,
    order_us INTEGER NOT NULL,
    session_id TEXT,
    picture_id TEXT,
    body BLOB NOT NULL,
    -- gathering: a loss that nobody was told of, and that may still grow
    state TEXT NOT NULL CHECK (state IN ('gathering', 'waiting', 'acked', 'rejected')),
    epoch TEXT,
    settled_us INTEGER,
    code TEXT,
    since_us INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX events_in_order ON events (order_us, number) WHERE state = 'waiting';
CREATE INDEX events_settled ON events (settled_us) WHERE settled_us IS NOT NULL;
CREATE INDEX events_of_session ON events (session_id, order_us) WHERE session_id IS NOT NULL;
CREATE INDEX events_since ON events (since_us);
CREATE TABLE pictures (
    picture_id TEXT PRIMARY KEY,
    session_id TEXT,
    trace_id TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    captured_us INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'presigned', 'uploaded', 'acked', 'failed')),
    attempts INTEGER NOT NULL DEFAULT 0,
    next_us INTEGER NOT NULL DEFAULT 0,
    media_id TEXT,
    upload_url TEXT,
    upload_headers TEXT,
    expires_us INTEGER,
    settled_us INTEGER,
    reason TEXT,
    since_us INTEGER NOT NULL DEFAULT 0,
    -- when the edge said that it has verified the picture; NULL: not yet
    verified_us INTEGER,
    -- 1: the edge acknowledged its announcement, and declares it when it does not come
    is_announced INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX pictures_in_order ON pictures (next_us) WHERE state IN ('waiting', 'presigned');
CREATE INDEX pictures_of_session ON pictures (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX pictures_since ON pictures (since_us, size_bytes);
CREATE INDEX pictures_to_check ON pictures (next_us) WHERE state = 'acked';
"""

# Format 1 counted on the wall clock. Its running time begins now: everything in it has come, and was settled, at zero.
_FROM_1: Final = """
ALTER TABLE sessions ADD COLUMN since_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN since_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pictures ADD COLUMN since_us INTEGER NOT NULL DEFAULT 0;
UPDATE events SET settled_us = 0 WHERE settled_us IS NOT NULL;
UPDATE pictures SET settled_us = 0 WHERE settled_us IS NOT NULL;
UPDATE pictures SET next_us = 0;
CREATE INDEX events_since ON events (since_us);
CREATE INDEX pictures_since ON pictures (since_us, size_bytes)
"""

# Format 2 took an acknowledged announcement for a stored picture.
_FROM_2: Final = """
ALTER TABLE pictures ADD COLUMN verified_us INTEGER;
ALTER TABLE pictures ADD COLUMN is_announced INTEGER NOT NULL DEFAULT 0;
CREATE INDEX pictures_to_check ON pictures (next_us) WHERE state = 'acked'
"""
_STEPS: Final = {0: [_SCHEMA], 1: [_FROM_1, _FROM_2], 2: [_FROM_2]}


class QueueFailed(Transient):
    """The disk under the station's queue is full or failing. What was queued before is as it was; this is tried again."""

    code = "queue_failed"


class QueueTooNew(Fatal):
    """The queue was written by a newer version of FarmIQ. Nothing was touched; run that version or newer."""

    code = "queue_too_new"


class _Damaged(Exception):
    """The file is no database that can be read to its end."""


def open_queue(folder: Path) -> tuple[sqlite3.Connection, list[Path]]:
    """The connection; and where queues were put that were damaged, as long as nobody has declared them."""
    for part in (folder, folder / PICTURES):
        disk.make_folder(part)
    try:
        connection = _open(folder / FILE)
    except _Damaged:
        _set_aside(folder)
        connection = _open(folder / FILE)
    return connection, sorted(path.parent for path in folder.glob(f"{DAMAGED}-*/{UNTOLD}"))


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Durable when the block has been left."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    commit(connection)


def commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        for setting in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "busy_timeout = 5000",
            "journal_size_limit = 4194304",
        ):
            connection.execute(f"PRAGMA {setting}")
        _prepare(connection, path)
    except sqlite3.OperationalError:
        connection.close()
        raise
    except (sqlite3.DatabaseError, _Damaged) as error:
        connection.close()
        raise _Damaged(str(error)) from error
    except QueueTooNew:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise _Damaged(found)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise QueueTooNew(f"{path} has format {version}, this version of FarmIQ knows {VERSION}")
    if version == 0 and ((path.parent / STATUS).exists() or any((path.parent / PICTURES).iterdir())):
        raise _Damaged("a station has run here, and its queue is gone or empty")
    if version < VERSION:
        with transaction(connection):
            for statement in ";\n".join(_STEPS[version]).split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def _set_aside(folder: Path) -> None:
    """For whoever wants to look at it. The pictures go with the rows that named them. Killed anywhere in between, the next start
    still knows that there is something to declare."""
    number = 1
    while (aside := folder / f"{DAMAGED}-{number}").exists():
        number += 1
    aside.mkdir(mode=0o750)
    (aside / UNTOLD).touch()
    disk.sync_folder(aside)
    disk.sync_folder(folder)
    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", PICTURES):
        if (folder / name).exists():
            shutil.move(folder / name, aside / name)
    (folder / STATUS).unlink(
        missing_ok=True
    )  # or a queue that is not begun now, for a full disk, counts as damaged once more
    disk.make_folder(folder / PICTURES)
    disk.sync_folder(folder)
