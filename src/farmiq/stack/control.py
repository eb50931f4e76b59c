"""What the command line does with a stack. Light to import: nothing here loads a driver or a server's module."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from farmiq.contracts.services import SERVICES, Service
from farmiq.stack import binaries
from farmiq.stack.errors import StackError
from farmiq.stack.external import External, read_external
from farmiq.stack.home import Home
from farmiq.stack.log_files import open_log
from farmiq.stack.private_files import remove
from farmiq.stack.processes import MARKER, process_of, sweep
from farmiq.stack.state import StackState, is_supervised, read_state, write_state

POLL_SECONDS = 0.05
# Longer than everything that the supervisor itself allows for.
HEALTHY_SECONDS_MAX = 240.0
STOP_SECONDS_MAX = 90.0

__all__ = ["environment", "is_supervised", "read_state", "start", "stop", "wait_until_healthy"]


class SupervisorNotStarted(StackError):
    """The background process that runs the farm ended before it had begun."""


class StackNotHealthy(StackError):
    """Not everything came up. What did keeps running, so that you can look; `farmiq down` ends it."""


class StackFailed(StackError):
    """The farm could not be started, and everything that had been started was ended again."""


class NeverStarted(StackError):
    """The URLs and credentials are made at the first start."""


def start(home: Home, environ: Mapping[str, str], services: Sequence[Service] = SERVICES) -> bool:
    """Starts the supervisor in the background. False when one is running already, which is then left alone."""
    if is_supervised(home):
        return False
    _refuse_missing_programs(read_external(environ))
    home.create()
    announcement = _spawn_supervisor(home, environ, services)
    if announcement == b"another\n":
        return False
    if announcement != b"started\n":
        log = home.log_file("supervisor")
        raise SupervisorNotStarted(f"the supervisor did not start:\n{_tail(log)}", fix=f"tail -n 50 {log}")
    return True


def wait_until_healthy(
    home: Home, on_progress: Callable[[StackState], None], seconds_max: float = HEALTHY_SECONDS_MAX
) -> StackState:
    """Returns when every child is healthy. Calls `on_progress` with each new state on the way."""
    deadline = time.monotonic() + seconds_max
    last: StackState | None = None
    while True:
        state = read_state(home)
        if state != last:
            on_progress(state)
            last = state
        if state.is_healthy:
            return state
        if state.phase in ("stopped", "failed"):
            raise StackFailed(state.problem or "the stack was stopped", fix=f"tail -n 50 {home.log_file('supervisor')}")
        if time.monotonic() > deadline:
            raise _not_healthy(state, seconds_max)
        time.sleep(POLL_SECONDS)


def stop(home: Home, *, purge: bool = False) -> None:
    """Ends everything, in order when there is a supervisor to do it, and in any case. `purge` removes all data too."""
    if is_supervised(home):
        supervisor = process_of(home.lock_file.read_text(encoding="ascii"))
        if supervisor:
            supervisor.signal(signal.SIGTERM)
        _wait(lambda: not is_supervised(home), STOP_SECONDS_MAX)
    sweep(home.path)
    if home.outside_file.exists():
        remove(Path(path) for path in json.loads(home.outside_file.read_text(encoding="utf-8")))
    if purge:
        home.purge()
    elif home.state_file.exists():
        _mark_stopped(home)


def environment(home: Home) -> dict[str, str]:
    """The variables of `farmiq env`: where everything is, and the credentials."""
    try:
        variables: dict[str, str] = json.loads(home.environment_file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NeverStarted(f"no farm was ever started from {home.path}", fix="farmiq up") from error
    return variables


def _refuse_missing_programs(external: External) -> None:
    if external.needs_postgres:
        binaries.postgres("postgres")
    if not external.mqtt_url:
        binaries.mosquitto()
        binaries.mosquitto_plugin()
    if not external.amqp_url:
        binaries.rabbitmq_server()
        binaries.epmd()
    if not external.s3_endpoint:
        binaries.weed()


def _spawn_supervisor(home: Home, environ: Mapping[str, str], services: Sequence[Service]) -> bytes:
    """Returns what the supervisor says when it holds the lock, or nothing when it died before."""
    reading, writing = os.pipe()
    log = open_log(home.log_file("supervisor"))
    try:
        names = [service.name for service in services]
        subprocess.run(
            [sys.executable, "-P", "-m", "farmiq.stack", str(home.path), str(writing), *names],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**environ, MARKER: str(home.path)},
            pass_fds=[writing],
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(writing)
        os.close(log)
    with os.fdopen(reading, "rb") as announcements:
        return announcements.readline()


def _mark_stopped(home: Home) -> None:
    state = read_state(home)
    if state.phase != "stopped" or state.problem:
        for child in state.children:
            child.state, child.pid = "stopped", None
        state.phase, state.supervisor_pid, state.problem = "stopped", None, None
        write_state(home, state)


def _not_healthy(state: StackState, seconds_max: float) -> StackNotHealthy:
    late = [child for child in state.children if child.state != "healthy"]
    names = "; ".join(
        f"{child.name} is {child.state} ({child.problem or child.last_exit or 'no answer yet'})" for child in late
    )
    fix = f"tail -n 50 {' '.join(child.log for child in late)}" if late else "farmiq status"
    return StackNotHealthy(f"not healthy after {seconds_max:g} s: {names or state.phase}", fix=fix)


def _wait(condition: Callable[[], bool], seconds_max: float) -> None:
    deadline = time.monotonic() + seconds_max
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]
