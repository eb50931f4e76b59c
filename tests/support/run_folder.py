"""One temporary folder for a whole test run, and a warden that ends every server started in it.

The warden outlives pytest: it waits until the pipe from pytest closes, which also happens when pytest is killed with -9.
Then it ends every process that carries the folder's mark and removes the folder. It holds the folder's lock while it lives,
so that the next run can tell an abandoned folder (warden killed too) from one in use."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from farmiq.stack.private_files import remove
from farmiq.stack.processes import sweep

IN_MEMORY: Final = Path("/dev/shm")
PLENTY_BYTES: Final = 4 * 1024**3


def _all_runs() -> Path:
    folder = Path(tempfile.gettempdir()) / f"farmiq-tests-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise RuntimeError(f"{folder} belongs to somebody else: set TMPDIR to a folder of your own")
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class RunFolder:
    def __init__(self) -> None:
        remove_abandoned()
        # Locked before others can see it, or a run that starts meanwhile takes it for abandoned. The warden inherits the lock.
        made = Path(tempfile.mkdtemp())
        with (made / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.path = made.rename(_all_runs() / made.name)
            self._warden = subprocess.Popen(
                [sys.executable, "-m", "support.run_folder", str(self.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                start_new_session=True,
                pass_fds=[lock.fileno()],
            )
        assert self._warden.stdout is not None
        if self._warden.stdout.readline() != b"watching\n":
            raise RuntimeError("the warden of the test servers did not start")

    def close(self) -> None:
        assert self._warden.stdin is not None
        assert self._warden.stdout is not None
        self._warden.stdin.close()
        self._warden.wait(timeout=60)
        self._warden.stdout.close()


def remove_abandoned() -> None:
    for folder in _all_runs().iterdir():
        _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    with suppress(FileNotFoundError), (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        _end_everything_in(folder)


def remember_outside(folder: Path, paths: list[Path]) -> None:
    """Names what a server leaves outside the run's folder, so that the warden can remove it too."""
    with (folder / "outside").open("a", encoding="utf-8") as file:
        file.writelines(f"{path}\n" for path in paths)


def memory_folder(folder: Path) -> Path:
    """Where the servers that a whole run shares keep their files: in memory where there is plenty of it.

    Copying a database there takes a fifth of the processor's time, and nobody waits for a disk that others use too."""
    note = folder / "memory"
    with locked(folder / "memory.lock"):
        if not note.exists():
            made = Path(tempfile.mkdtemp(dir=IN_MEMORY, prefix="farmiq-tests-")) if _has_plenty() else folder
            if made != folder:
                remember_outside(folder, [made])
            note.write_text(str(made), encoding="utf-8")
    return Path(note.read_text(encoding="utf-8"))


def _has_plenty() -> bool:
    if not os.access(IN_MEMORY, os.W_OK):
        return False
    known = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    room = os.statvfs(IN_MEMORY)
    return min(int(known["MemAvailable"].split()[0]) * 1024, room.f_bavail * room.f_frsize) >= PLENTY_BYTES


def _end_everything_in(folder: Path) -> None:
    sweep(folder, patience_seconds=0.5)
    _unmount_in(folder)
    outside = folder / "outside"
    if outside.exists():
        remove(Path(line) for line in outside.read_text(encoding="utf-8").splitlines())
    remove([folder])


def _unmount_in(folder: Path) -> None:
    """A campaign that was killed leaves the small disks of its devices mounted."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    for path in sorted((path for path in mounted if Path(path).is_relative_to(folder)), reverse=True):
        subprocess.run(["umount", "--lazy", path], check=True)


def _watch(folder: Path) -> None:
    sys.stdout.write("watching\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    _end_everything_in(folder)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
