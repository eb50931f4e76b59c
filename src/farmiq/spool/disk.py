"""The few system calls that durability hangs on, each in one place so that a fault can be caused on purpose."""

import errno
import os
from pathlib import Path

from farmiq.spool.errors import SpoolFull

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


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
