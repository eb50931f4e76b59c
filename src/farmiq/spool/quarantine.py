"""Bytes that could not be read as frames, kept for a person to look at while there is room. Their loss is declared."""

from pathlib import Path

from farmiq.spool import disk

_FOLDER = "quarantine"


def keep(folder: Path, name: str, data: bytes) -> None:
    """A copy of bytes that also stay where they are, so a full disk only costs the copy."""
    target = _folder(folder) / name
    try:
        disk.replace_file(target, data)
    except OSError as error:
        if error.errno not in disk.NO_ROOM:
            raise
        target.with_name(target.name + ".tmp").unlink(missing_ok=True)


def move(folder: Path, path: Path) -> None:
    path.rename(_folder(folder) / path.name)
    disk.sync_folder(folder / _FOLDER)
    disk.sync_folder(folder)


def size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def give_back(folder: Path, wanted_bytes: int) -> int:
    """Remove the oldest files until `wanted_bytes` are free. How many bytes were."""
    freed = 0
    for path in sorted(_files(folder), key=lambda path: path.stat().st_mtime_ns):
        if freed >= wanted_bytes:
            break
        freed += path.stat().st_size
        path.unlink()
    return freed


def _folder(folder: Path) -> Path:
    target = folder / _FOLDER
    if not target.is_dir():
        target.mkdir(mode=0o750)
        disk.sync_folder(folder)
    return target


def _files(folder: Path) -> list[Path]:
    target = folder / _FOLDER
    return list(target.iterdir()) if target.is_dir() else []
