"""A small disk for a node's spool, so that it can be filled: a tmpfs, where this user may mount one."""

import contextlib
import os
import subprocess
from pathlib import Path

SIZE_BYTES = 64 << 20
_NAME = "farmiq-torture"
_FILLER = "filler"
_BLOCK = bytes(1 << 16)


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path

    def mount(self) -> bool:
        """False where that is not allowed: then there is no disk to fill, and the campaign says so."""
        self.path.mkdir(parents=True, exist_ok=True)
        told = _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES},mode=0700", _NAME, str(self.path))
        return told == 0

    def unmount(self) -> None:
        _run("umount", "--lazy", str(self.path))

    def fill(self) -> None:
        """To the last byte."""
        descriptor = os.open(self.path / _FILLER, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for block in (_BLOCK, b"\0"):
                with contextlib.suppress(OSError):  # the disk is full: that was wanted
                    while os.write(descriptor, block):
                        pass
        finally:
            os.close(descriptor)

    def free(self) -> None:
        (self.path / _FILLER).unlink(missing_ok=True)


def unmount_below(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """What a campaign left that was killed: nobody can remove a folder with a disk in it."""
    if not mounts.exists():
        return
    for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        device, point = line.split()[:2]
        path = Path(point.replace("\\040", " "))
        if device == _NAME and path.is_relative_to(folder):
            SmallDisk(path).unmount()


def _run(*command: str) -> int:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode
    except FileNotFoundError:
        return 127
