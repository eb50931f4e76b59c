import os
import shutil
from pathlib import Path

LOG_BYTES_MAX = 10 << 20


def open_log(path: Path) -> int:
    """A descriptor for a child's output. Appending, so that the child goes on at the start after the file was cut."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate(path: Path, bytes_max: int = LOG_BYTES_MAX) -> bool:
    """Keeps one older file beside the present one. The child holds the file open and can't be told to change it, so it is
    copied and cut: a line written in between may be missing."""
    if not path.exists() or path.stat().st_size <= bytes_max:
        return False
    older = path.with_suffix(path.suffix + ".1")
    shutil.copyfile(path, older)
    older.chmod(0o600)
    os.truncate(path, 0)
    return True
