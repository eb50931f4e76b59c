"""The supervisor's own process: `python -m farmiq.stack HOME READY_DESCRIPTOR [SERVICE...]`, started by `control.start`."""

import fcntl
import os
import sys
from pathlib import Path

from farmiq.stack.home import Home
from farmiq.stack.processes import own_identity
from farmiq.stack.state import StackState, write_state


def main() -> None:
    home, ready, service_names = Home(Path(sys.argv[1])), int(sys.argv[2]), sys.argv[3:]
    # The first process ends at once and is reaped by whoever said `up`; the second belongs to nobody and outlives him.
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.set_inheritable(ready, False)
    lock = os.open(home.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(ready, b"another\n")
        return
    os.ftruncate(lock, 0)
    os.pwrite(lock, own_identity().encode(), 0)
    write_state(home, StackState(home=str(home.path), phase="starting", supervisor_pid=os.getpid()))
    os.write(ready, b"started\n")
    os.close(ready)
    _supervise(home, service_names)


def _supervise(home: Home, service_names: list[str]) -> None:
    # Imported only now: whoever said `up` waits for the lock, and all of this takes a while to load.
    import asyncio

    from farmiq.contracts.services import service_named
    from farmiq.kit.clock import Clock
    from farmiq.kit.logging import bind_service, configure, get_logger
    from farmiq.stack.plan import make_plan
    from farmiq.stack.processes import sweep
    from farmiq.stack.supervisor import Supervisor

    configure(os.environ.get("LOG_LEVEL") or "INFO")
    bind_service("farmiq-stack")
    log = get_logger(__name__)
    for stray in sweep(home.path):
        log.warning("leftover_ended", pid=stray.pid, command=stray.command)
    try:
        plan = make_plan(home, os.environ, [service_named(name) for name in service_names])
    except Exception as error:
        write_state(home, StackState(home=str(home.path), phase="failed", problem=str(error)))
        log.exception("stack_failed")
        raise SystemExit(1) from error

    async def run() -> None:
        await Supervisor(plan, Clock()).run()

    asyncio.run(run())


if __name__ == "__main__":
    main()
