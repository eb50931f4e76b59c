"""What the supervisor says about itself and its children, in a file that `farmiq status` reads."""

import fcntl
import os
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct, field

from farmiq.stack.home import Home
from farmiq.stack.private_files import write_private

Kind = Literal["server", "service"]
Health = Literal["starting", "healthy", "unhealthy", "backoff", "stopped"]
Phase = Literal["starting", "provisioning", "running", "stopping", "stopped", "failed"]


class ChildState(Struct, kw_only=True):
    name: str
    kind: Kind
    state: Health
    since: datetime
    log: str
    pid: int | None = None
    restarts: int = 0
    last_exit: str | None = None
    problem: str | None = None
    port: int | None = None
    url: str | None = None


class StackState(Struct, kw_only=True):
    home: str
    phase: Phase
    supervisor_pid: int | None = None
    problem: str | None = None
    children: list[ChildState] = field(default_factory=list)

    @property
    def is_healthy(self) -> bool:
        return self.phase == "running" and all(child.state == "healthy" for child in self.children)


def write_state(home: Home, state: StackState) -> None:
    # Means nothing after a power cut, so it need not reach the disk; a reader must only never see half of it.
    write_private(home.state_file, msgspec.json.encode(state).decode(), is_durable=False)


def read_state(home: Home) -> StackState:
    """The last word of the supervisor, corrected when it was killed and can't say so itself."""
    try:
        state = msgspec.json.decode(home.state_file.read_bytes(), type=StackState)
    except FileNotFoundError:
        return StackState(home=str(home.path), phase="stopped")
    if state.phase in ("stopped", "failed") or is_supervised(home):
        return state
    state.problem = f"the supervisor (process {state.supervisor_pid}) was killed; what it ran may still be running"
    state.phase, state.supervisor_pid = "stopped", None
    return state


def is_supervised(home: Home) -> bool:
    """Whether a supervisor lives: it holds the lock for as long as it does, and the kernel takes it back however it ends."""
    try:
        descriptor = os.open(home.lock_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
