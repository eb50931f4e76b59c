"""SQLite with a write-ahead log, one row a sample, a group to a transaction."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from stores import PIECE_SAMPLES, Reading, Sample, Store, StoreFailed

_TABLE = """
CREATE TABLE IF NOT EXISTS samples (
  seq INTEGER PRIMARY KEY, wall_us INTEGER, monotonic_us INTEGER, channel INTEGER, quality INTEGER, value REAL
)"""
_INSERT = "INSERT INTO samples (wall_us, monotonic_us, channel, quality, value) VALUES (?, ?, ?, ?, ?)"
_READ = "SELECT seq, wall_us, monotonic_us, channel, quality, value FROM samples ORDER BY seq"


class SqliteWal(Store):
    def __init__(self, folder: Path, synchronous: str, *, commits_groups: bool) -> None:
        self._path = folder / "samples.db"
        self._database = sqlite3.connect(self._path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute(f"PRAGMA synchronous = {synchronous}")
        self._database.execute(_TABLE)
        # Only a look inside makes SQLite go through the log that a killed process left.
        self._database.execute("SELECT max(seq) FROM samples").fetchone()
        self._commits_groups = commits_groups
        self._is_synced_by_commit = synchronous == "FULL"

    def append(self, group: list[Sample]) -> None:
        if not self._database.in_transaction:
            self._database.execute("BEGIN")
        self._database.executemany(_INSERT, group)
        if self._commits_groups:
            self._database.execute("COMMIT")

    def sync(self) -> None:
        if self._database.in_transaction:
            self._database.execute("COMMIT")
        if not self._is_synced_by_commit:
            sync_log(self._path)

    def check(self) -> None:
        (answer,) = self._database.execute("PRAGMA integrity_check").fetchone()
        if answer != "ok":
            raise StoreFailed(f"SQLite found damage: {answer}")

    def pieces(self) -> Iterator[int]:
        cursor = self._database.execute(_READ)
        while rows := cursor.fetchmany(PIECE_SAMPLES):
            yield len(rows)

    def readings(self) -> Iterator[Reading]:
        for _seq, wall_us, _monotonic_us, channel, _quality, value in self._database.execute(_READ):
            yield wall_us // 1000, channel, value


def sync_log(database: Path) -> None:
    """What SQLite leaves out with synchronous = NORMAL: with its log on disk, the last commit survives a power cut."""
    fd = os.open(f"{database}-wal", os.O_RDONLY)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def full(folder: Path) -> SqliteWal:
    return SqliteWal(folder, "FULL", commits_groups=True)


def normal(folder: Path) -> SqliteWal:
    return SqliteWal(folder, "NORMAL", commits_groups=True)


def one_transaction(folder: Path) -> SqliteWal:
    """A transaction from one sync to the next: the least work for SQLite, and a kill takes what was not synced."""
    return SqliteWal(folder, "FULL", commits_groups=False)
