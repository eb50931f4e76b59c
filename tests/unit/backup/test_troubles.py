import errno
from pathlib import Path

import asyncpg
import pytest

from farmiq.backup.troubles import DatabaseRefused, FolderNotUsable, explained
from farmiq.kit.errors import FarmiqError
from farmiq.kit.postgres import DatabaseAway


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), FolderNotUsable),
        (OSError(errno.EACCES, "Permission denied"), FolderNotUsable),
        (ConnectionResetError(errno.ECONNRESET, "reset"), DatabaseAway),
        (asyncpg.ConnectionDoesNotExistError("gone"), DatabaseAway),
        (asyncpg.InvalidCatalogNameError('database "edge" does not exist'), DatabaseRefused),
    ],
)
def test_whatever_goes_wrong_outside_has_a_name(cause: Exception, expected: type[FarmiqError]) -> None:
    with pytest.raises(expected), explained(Path("/backup")):
        raise cause
