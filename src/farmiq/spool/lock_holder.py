"""Who writes a folder, without getting in the way."""

from pathlib import Path

_LOCKS = Path("/proc/locks")


def holder_pid(folder: Path) -> int | None:
    """The process that holds the folder's lock; None when nobody does.

    The kernel's list is read. Trying the lock, even shared and for a moment, would refuse a writer that is just starting;
    and the process id in the file alone may be that of a dead process, or by now of another one.
    """
    path = folder / "lock"
    try:
        noted = path.read_bytes()[:32].strip()
        inode = path.stat().st_ino
    except FileNotFoundError:
        return None
    if not noted.isdigit():
        return None
    pid = int(noted)
    held_by = {_pid(line) for line in _LOCKS.read_text().splitlines() if _is_of(line, inode)}
    return pid if held_by & {pid, 0, -1} else None  # 0 or -1: the holder lives where its process id means nothing here


def _is_of(line: str, inode: int) -> bool:
    return " FLOCK " in line and f":{inode} " in line


def _pid(line: str) -> int:
    return int(line.split("FLOCK", 1)[1].split()[2])
