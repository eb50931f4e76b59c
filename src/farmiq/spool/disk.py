"""The few system calls that durability hangs on, each in one place so that a fault can be caused on purpose."""

import contextlib
import errno
import os
import threading
from pathlib import Path

from farmiq.spool.errors import SpoolFull

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Meter:
    """What was handed to the kernel to store, by every spool of this process and from any thread."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._lock = threading.Lock()

    def add(self, count_bytes: int) -> None:
        with self._lock:
            self.total_bytes += count_bytes


written = Meter()


def write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, offset)
        written.add(count)
        view, offset = view[count:], offset + count


def sync_data(fd: int) -> None:
    os.fdatasync(fd)


def sync_file(fd: int) -> None:
    os.fsync(fd)


def sync_folder(folder: Path) -> None:
    """A name made, changed or removed is durable only after its folder is synced."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """The folder, and what is missing above it. Its name is synced also when it is there: the process that made it may
    have been killed before it could."""
    if not folder.parent.is_dir():
        make_folder(folder.parent)
    folder.mkdir(mode=0o750, exist_ok=True)
    # A parent that this process may not even read was prepared by somebody else, with the folder in it.
    with contextlib.suppress(PermissionError):
        sync_folder(folder.parent)


def allocate(fd: int, offset: int, length: int) -> None:
    """Reserve space now, so that a full disk shows here and not in the middle of a frame."""
    try:
        os.posix_fallocate(fd, offset, length)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise SpoolFull(f"no room for {length} more bytes: {error.strerror}") from error
        raise


def replace_file(path: Path, data: bytes) -> None:
    """The old content or the new one, never a mixture, and the new one is durable when this returns."""
    draft = path.with_name(path.name + ".tmp")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        write_all(fd, data, 0)
        sync_file(fd)
    finally:
        os.close(fd)
    draft.replace(path)
    sync_folder(path.parent)


def free_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def filesystem_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_blocks * room.f_frsize
