"""Which processes belong to a stack, found by a mark in their environment and not by what a pid file remembers.

Every child is started with `FARMIQ_STACK=<home>`. What a child starts inherits it, so everything of a stack can be found and
ended after its supervisor was killed with -9."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

MARKER = "FARMIQ_STACK"

# However short the asking was: a supervisor may start something in the very moment in which it is ended.
_INSISTING_SECONDS = 10.0
# Asked politely, SeaweedFS takes 15 s to stop and gains nothing by it.
_NOT_ASKED = frozenset({"weed"})


@dataclass(frozen=True)
class Process:
    """One run of one program: a process id alone may be given to a stranger after it ended."""

    pid: int
    started_ticks: int
    command: str

    def is_alive(self) -> bool:
        return _started_ticks(self.pid) == self.started_ticks

    def signal(self, number: signal.Signals) -> None:
        # The descriptor pins the process: between the check and the signal its id can't pass to somebody else.
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_alive():
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            pass  # it ended by itself in the meantime, which is what the caller wants
        finally:
            os.close(descriptor)


def own_identity() -> str:
    """What a lock file has to say so that `process_of` finds us, and never a stranger who got our process id later."""
    return f"{os.getpid()} {_started_ticks(os.getpid())}"


def process_of(identity: str) -> Process | None:
    """The process that wrote the identity, if it is still running."""
    try:
        pid, ticks = (int(part) for part in identity.split())
    except ValueError:
        return None
    process = Process(pid, ticks, command="")
    return process if process.is_alive() else None


def leftovers(home: Path) -> list[Process]:
    """Every running process of the stack with this home or one inside it, without the caller itself."""
    mark = os.fsencode(f"{MARKER}={home}")
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        process = _if_marked(entry, mark)
        if process:
            found.append(process)
    return found


def family_of(process: Process) -> list[Process]:
    """The process and all that descends from it. PostgreSQL's workers have sessions of their own: a group is not enough."""
    parents = {
        int(entry.name): _parent_of(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()
    }
    found, latest = [process], {process.pid}
    while latest:
        latest = {pid for pid, parent in parents.items() if parent in latest}
        ticks = {pid: _started_ticks(pid) for pid in latest}
        found += [Process(pid, started, command="") for pid, started in ticks.items() if started is not None]
    return found


def sweep(home: Path, patience_seconds: float = 10.0) -> list[Process]:
    """Ends every process of the stack with this home: asks first, insists after `patience_seconds`. Returns what it found."""
    found = leftovers(home)
    ended = list(found)
    for process in found:
        process.signal(signal.SIGKILL if Path(process.command).name in _NOT_ASKED else signal.SIGTERM)
    _wait_for_end(found, patience_seconds)
    # Children that were born while we waited carry the mark too, so look again until there is nothing left.
    deadline = time.monotonic() + _INSISTING_SECONDS
    while remaining := leftovers(home) or _seen_again(home):
        ended += [process for process in remaining if process not in ended]
        for process in remaining:
            process.signal(signal.SIGKILL)
        _wait_for_end(remaining, 1.0)
        if time.monotonic() > deadline:  # looked at last, so that a machine which is very slow still insists once
            break
    return ended


def _seen_again(home: Path) -> list[Process]:
    """A program that is just being started shows no environment for an instant, so one look may miss it."""
    time.sleep(0.05)
    return leftovers(home)


def _wait_for_end(processes: list[Process], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
        time.sleep(0.02)


def _if_marked(entry: Path, mark: bytes) -> Process | None:
    try:
        variables = (entry / "environ").read_bytes().split(b"\0")
        if not any(variable == mark or variable.startswith(mark + b"/") for variable in variables):
            return None
        command = (entry / "cmdline").read_bytes().split(b"\0", 1)[0].decode(errors="replace")
    except OSError:
        return None  # ended meanwhile, or it belongs to another user and can't be ours
    ticks = _started_ticks(int(entry.name))
    return None if ticks is None else Process(int(entry.name), ticks, command)


def _started_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when it is gone or only waits to be reaped."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def _parent_of(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def _stat(pid: int) -> list[str] | None:
    """The fields behind the command's name, which may hold anything."""
    try:
        text = (Path("/proc") / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
