import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def private_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_private(path: Path, text: str, *, mode: int = 0o600, is_durable: bool = True) -> None:
    """Replaces the file in one step and never lets anybody else see it half written or too open."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)  # the umask may have taken more away than we asked for
        file.write(text)
        file.flush()
        if is_durable:
            os.fsync(file.fileno())
    temporary.replace(path)


def remove(paths: Iterable[Path]) -> None:
    """Files and whole folders, whether or not they are there."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
