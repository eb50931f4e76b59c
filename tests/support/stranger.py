"""Another user of the same machine, who has no credential of the farm. Only root can run a program as somebody else."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

UID = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program as another user")


def new_open_folder() -> Path:
    """That every user of the machine can enter. pytest's own are closed to all but us."""
    folder = Path(tempfile.mkdtemp(prefix="farmiq-open-", dir="/tmp"))
    folder.chmod(0o755)
    return folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    folder = new_open_folder()
    yield folder
    shutil.rmtree(folder)


def run_as_stranger(
    command: Sequence[str],
    *,
    stdin: str = "",
    folder: Path = Path("/"),
    seconds: float = 60.0,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """With a home of its own, in which nothing of ours lies."""
    return subprocess.run(
        ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs", *command],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        | dict(variables or {}),
    )


def python_as_stranger(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With Python's standard library only: a stranger cannot read our checkout."""
    python = str(Path(sys.executable).resolve())
    return run_as_stranger([python, "-I", "-c", program, *arguments])
