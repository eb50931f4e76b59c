"""One writer per folder. The kernel drops the lock with its holder, so a killed process never leaves the spool locked."""

import contextlib
import fcntl
import os
from pathlib import Path

from farmiq.spool.errors import SpoolLocked


def take(folder: Path) -> int:
    """The descriptor that holds the lock until it is closed. The file names the holder's process id."""
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(fd, 32, 0).strip()
        os.close(fd)
        raise SpoolLocked(folder, int(holder) if holder.isdigit() else None) from error
    # Naming the holder is a courtesy to the next one who tries. A full or failing disk that refuses it stops nobody.
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
