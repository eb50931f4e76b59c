"""The servers of a test run must not outlive it, however it ends."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from support import run_folder
from support.waiting import wait_for

RUN = """
import os, subprocess, sys, time
from support.run_folder import RunFolder, remember_outside
from farmiq.stack.processes import MARKER
from pathlib import Path
run = RunFolder()
outside = Path(sys.argv[1]); outside.touch()
remember_outside(run.path, [outside])
marked = {"PATH": os.environ["PATH"], MARKER: str(run.path / "home")}
server = subprocess.Popen(["sleep", "600"], env=marked, start_new_session=True)
print(run.path, server.pid, flush=True)
time.sleep(600)
"""


def test_a_test_run_that_is_killed_leaves_no_server_and_no_file(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(outside)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TMPDIR": str(tmp_path)},
    ) as run:
        assert run.stdout is not None
        folder, pid = run.stdout.readline().decode().split()
        assert Path(f"/proc/{pid}").exists()
        run.send_signal(signal.SIGKILL)
    wait_for(lambda: not Path(folder).exists(), what="the removal of the run's folder")
    wait_for(lambda: _is_gone(int(pid)), what="the end of the server")
    assert not outside.exists()


def test_a_test_run_that_starts_while_another_one_starts_leaves_it_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def start_after_another_run(*arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
        run_folder.remove_abandoned()
        return start(*arguments, **more)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(subprocess, "Popen", start_after_another_run)
    run = run_folder.RunFolder()
    run_folder.remove_abandoned()
    assert run.path.exists()
    run.close()
    assert not run.path.exists()


def _is_gone(pid: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
