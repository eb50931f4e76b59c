import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farmiq.stack import processes
from farmiq.stack.processes import MARKER, Process, family_of, leftovers, own_identity, process_of, sweep
from support.waiting import wait_for

Spawn = Callable[[str, Path], subprocess.Popen[bytes]]

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)
OBEDIENT = "import time; print('ready', flush=True); time.sleep(600)"
# Starts another one when it is asked to stop, as a shell script with a trap might.
REBORN = f"""
import os, signal, subprocess, sys, time
def stop(*_): subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); os._exit(0)
signal.signal(signal.SIGTERM, stop); print('ready', flush=True); time.sleep(600)
"""


@pytest.fixture
def spawn(run_folder: Path) -> Iterator[Spawn]:
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str, home: Path) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            env=os.environ | {MARKER: str(home)},
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def home(run_folder: Path, tmp_path: Path) -> Path:
    """Inside the run's folder, so that its warden ends what a failing test leaves."""
    return run_folder / tmp_path.name


def pids(home: Path) -> set[int]:
    return {process.pid for process in leftovers(home)}


def test_processes_are_found_by_their_mark_and_no_others(spawn: Spawn, home: Path) -> None:
    ours = spawn(OBEDIENT, home)
    spawn(OBEDIENT, home.with_name(home.name + "-of-somebody-else"))
    assert pids(home) == {ours.pid}


def test_a_sweep_ends_what_listens(spawn: Spawn, home: Path) -> None:
    process = spawn(OBEDIENT, home)
    assert [found.pid for found in sweep(home)] == [process.pid]
    assert process.wait(5) == -signal.SIGTERM


def test_a_sweep_kills_what_does_not_listen(spawn: Spawn, home: Path) -> None:
    process = spawn(STUBBORN, home)
    sweep(home, patience_seconds=0.2)
    assert process.wait(5) == -signal.SIGKILL


def test_a_sweep_leaves_nothing_that_was_born_while_it_swept(spawn: Spawn, home: Path) -> None:
    spawn(REBORN, home)
    sweep(home, patience_seconds=2)
    assert pids(home) == set()


def test_a_sweep_with_little_patience_leaves_nothing_that_was_born_after_its_patience_had_ended(
    spawn: Spawn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As supervisors do that restart what they see dying, until they die themselves."""
    wait, births = processes._wait_for_end, iter((STUBBORN, STUBBORN, STUBBORN))

    def waiting(ended: list[Process], seconds: float) -> None:
        wait(ended, seconds)
        if program := next(births, None):
            spawn(program, home)

    monkeypatch.setattr(processes, "_wait_for_end", waiting)
    spawn(STUBBORN, home)
    sweep(home, patience_seconds=0)
    assert next(births, None) is None
    assert pids(home) == set()


def test_a_stranger_with_the_same_process_id_is_not_signalled(spawn: Spawn, home: Path) -> None:
    stranger = spawn(OBEDIENT, home)
    (found,) = leftovers(home)
    Process(stranger.pid, found.started_ticks - 1, "").signal(signal.SIGKILL)
    assert found.is_alive()
    found.signal(signal.SIGKILL)
    assert stranger.wait(5) == -signal.SIGKILL


def test_a_process_that_only_waits_to_be_reaped_counts_as_gone(spawn: Spawn, home: Path) -> None:
    process = spawn(OBEDIENT, home)
    (found,) = leftovers(home)
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not found.is_alive(), what="the end of the process")
    assert pids(home) == set()


def test_an_identity_leads_to_the_process_that_wrote_it_and_to_no_other() -> None:
    pid, ticks = own_identity().split()
    found = process_of(own_identity())
    assert found is not None
    assert found.pid == os.getpid()
    assert process_of(f"{pid} {int(ticks) + 1}") is None
    assert process_of("") is None


def test_a_family_has_those_too_who_have_a_session_of_their_own() -> None:
    child = "import subprocess as s, sys; s.Popen(['sleep', '60'], start_new_session=True); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        fields = Path(f"/proc/{parent.pid}/stat").read_text().rpartition(")")[2].split()
        family = family_of(Process(parent.pid, int(fields[19]), command=""))
        assert family[0].pid == parent.pid
        assert len(family) == 2
        assert all(member.is_alive() for member in family)
        for member in family:
            member.signal(signal.SIGKILL)
