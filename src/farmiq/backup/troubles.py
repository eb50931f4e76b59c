"""What can go wrong from outside while a backup is made or restored, as a person reads it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import asyncpg

from farmiq.backup.errors import BackupError
from farmiq.kit.errors import reason_of
from farmiq.kit.postgres import RETRY, DatabaseAway

_OF_A_FOLDER: Final = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOENT, errno.EIO)
)


class FolderNotUsable(BackupError):
    """The disk is full or damaged, or this user may not read or write there. What is there already is kept."""


class DatabaseRefused(BackupError):
    """PostgreSQL answers, and refuses. The database must exist, and belong to the user that DATABASE_URL names."""


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _OF_A_FOLDER:
            raise FolderNotUsable(f"{folder} can't be used: {error}", fix=f"df -h {folder}") from error
        raise DatabaseAway(f"PostgreSQL does not answer: {error}") from error
    except RETRY as error:
        raise DatabaseAway(f"PostgreSQL: {reason_of(error)}") from error
    except asyncpg.PostgresError as error:
        raise DatabaseRefused(
            f"PostgreSQL refuses: {error}", fix="correct DATABASE_URL, or create the database"
        ) from error
