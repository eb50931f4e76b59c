"""The process behind `farmiq up`: it has the servers and services as children, heals them, and ends them all when told to."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

from farmiq.kit.clock import Clock
from farmiq.kit.errors import Fatal
from farmiq.kit.logging import get_logger, mask
from farmiq.kit.retry import Backoff
from farmiq.stack.broker_log import Refusals, open_pipe
from farmiq.stack.children import Child
from farmiq.stack.device_logins import BrokerOfHome
from farmiq.stack.errors import StackError
from farmiq.stack.keeper import Keeper
from farmiq.stack.log_files import rotate
from farmiq.stack.login_keeping import keep_logins
from farmiq.stack.plan import Plan
from farmiq.stack.private_files import remove, write_private
from farmiq.stack.processes import sweep
from farmiq.stack.provision import provision_farm, provision_servers
from farmiq.stack.refusal_keeping import keep_refusals, remove_retained
from farmiq.stack.relay.memory import Memory
from farmiq.stack.seaweedfs import keep_sync_rule
from farmiq.stack.state import Kind, Phase, StackState, write_state

log = get_logger(__name__)

# Generous: RabbitMQ alone was seen to take half a minute on a busy machine.
START_SECONDS_MAX = 180.0
PROVISION_TRIES_MAX = 4
LOG_CHECK_SECONDS = 30.0


class StartTookTooLong(StackError):
    """A server did not become healthy in time. Its log says why."""


class Supervisor:
    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._home = plan.home
        self._stopping = asyncio.Event()
        self._state = StackState(home=str(self._home.path), phase="starting", supervisor_pid=os.getpid())
        self._refusals = Refusals(clock)
        self._keepers = [self._keeper_of(child, clock) for child in plan.children()]
        self._state.children = [keeper.state for keeper in self._keepers]
        self._background: list[asyncio.Task[None]] = []

    def _keeper_of(self, child: Child, clock: Clock) -> Keeper:
        """The broker's log passes through us, and the others' go to their files."""
        if child.program is not self._plan.servers.mosquitto:
            return Keeper(child, self._home, self._publish, clock)
        return Keeper(child, self._home, self._publish, clock, lambda path: open_pipe(path, self._refusals))

    async def run(self) -> None:
        """Until SIGTERM, or until it turns out that the stack can't be brought up."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        self._remember()
        if self._plan.relay:
            # A cut is for the time of one start: the next one would wait for services that can't reach their database.
            Memory(self._plan.relay.memory_file).forget()
        housekeeping = asyncio.create_task(self._keep_logs_small())
        told_to_stop = asyncio.create_task(self._stopping.wait())
        bring_up = asyncio.create_task(self._bring_up())
        await asyncio.wait({bring_up, told_to_stop}, return_when=asyncio.FIRST_COMPLETED)
        bring_up.cancel()
        problem = await _problem_of(bring_up)
        if problem is None:
            await told_to_stop
        told_to_stop.cancel()
        housekeeping.cancel()
        for task in self._background:
            task.cancel()
        await self._bring_down(problem)

    async def _bring_up(self) -> None:
        """Everything as early as what it needs allows: RabbitMQ takes longest, and the edge does not wait for it.

        The broker comes after the database, which says whom it lets in."""
        servers = self._of_kind("server")
        brokers = [keeper for keeper in servers if keeper.child.program is self._plan.servers.mosquitto]
        try:
            async with asyncio.timeout(START_SECONDS_MAX), asyncio.TaskGroup() as tasks:
                for keeper in servers:
                    if keeper not in brokers:
                        tasks.create_task(self._start(keeper))
                await self._provision()
                for keeper in brokers:
                    await self._start(keeper)
                self._begin_login_keeping()
                for keeper in self._of_kind("service"):
                    tasks.create_task(self._start(keeper))
        except TimeoutError as error:
            raise self._took_too_long() from error
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        self._enter("running")

    async def _start(self, keeper: Keeper) -> None:
        await self._until_healthy(keeper.child.needs)
        keeper.start()
        # A service may wait for something that only people can mend. A server may not.
        if keeper.child.kind == "server":
            await keeper.healthy.wait()

    async def _provision(self) -> None:
        await self._until_healthy(("postgres", "seaweedfs"))
        self._enter("provisioning")
        await _with_retries(lambda: provision_servers(self._plan))
        if self._plan.servers.seaweedfs is not None:
            self._keep("sync-rule", keep_sync_rule(self._plan.servers.seaweedfs))
        if self._plan.services:
            await _with_retries(lambda: provision_farm(self._plan))

    def _begin_login_keeping(self) -> None:
        """From now on a device that is added anywhere can log in within seconds, and one that is revoked is out."""
        mosquitto = self._plan.servers.mosquitto
        if mosquitto is None or mosquitto.services_port is None or not self._plan.services:
            return
        broker = BrokerOfHome(self._home, mosquitto.port, mosquitto.services_port)
        urls = self._plan.urls
        self._keep("device-logins", keep_logins(urls.edge_database, broker))
        self._keep("broker-refusals", keep_refusals(urls.edge_database, self._refusals))
        self._keep("retained-messages", remove_retained(urls.mqtt_operator, self._refusals))

    def _keep(self, name: str, work: Coroutine[None, None, None]) -> None:
        """For as long as the stack runs."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_tell_if_failed)
        self._background.append(task)

    async def _until_healthy(self, names: Sequence[str]) -> None:
        """Of those that we run. One that the environment names is somebody else's care."""
        for keeper in self._keepers:
            if keeper.child.name in names:
                await keeper.healthy.wait()

    def _of_kind(self, kind: Kind) -> list[Keeper]:
        return [keeper for keeper in self._keepers if keeper.child.kind == kind]

    def _took_too_long(self) -> StartTookTooLong:
        late = [keeper.state for keeper in self._of_kind("server") if not keeper.healthy.is_set()]
        names = "; ".join(f"{state.name} ({state.problem or state.last_exit})" for state in late)
        what = f"not healthy after {START_SECONDS_MAX:g} s: {names or 'provisioning'}"
        return StartTookTooLong(what, fix=f"tail -n 50 {' '.join(state.log for state in late)}")

    async def _bring_down(self, problem: str | None) -> None:
        """Services first, so that they can still drain into the servers; a server that others need goes last."""
        self._state.problem = problem
        self._enter("stopping")
        servers = self._of_kind("server")
        needed = {name for keeper in servers for name in keeper.child.needs}
        await _stop(self._of_kind("service"))
        await _stop(keeper for keeper in servers if keeper.child.name not in needed)
        await _stop(keeper for keeper in servers if keeper.child.name in needed)
        strays = await asyncio.to_thread(sweep, self._home.path)
        if strays:
            log.warning("strays_ended", commands=[stray.command for stray in strays])
        remove(self._plan.outside())
        self._state.supervisor_pid = None
        self._enter("failed" if problem else "stopped")

    async def _keep_logs_small(self) -> None:
        logs = [self._home.log_file(name) for name in ("supervisor", *(keeper.child.name for keeper in self._keepers))]
        while True:
            await asyncio.sleep(LOG_CHECK_SECONDS)
            for path in logs:
                await asyncio.to_thread(rotate, path)

    def _remember(self) -> None:
        """For those who come later: the URLs with their credentials, and what to remove if we are killed."""
        write_private(self._home.environment_file, json.dumps(self._plan.environment(), indent=2))
        write_private(self._home.outside_file, json.dumps([str(path) for path in self._plan.outside()]))

    def _enter(self, phase: Phase) -> None:
        self._state.phase = phase
        log.info("phase_entered", phase=phase)
        self._publish()

    def _publish(self) -> None:
        write_state(self._home, self._state)


def _tell_if_failed(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("background_task_failed", task=task.get_name(), exc_info=task.exception())


async def _stop(keepers: Iterable[Keeper]) -> None:
    await asyncio.gather(*(keeper.stop() for keeper in keepers))


async def _problem_of(task: "asyncio.Task[None]") -> str | None:
    try:
        await task
    except asyncio.CancelledError:
        return None
    except Exception as error:
        log.exception("stack_failed")
        fix = getattr(error, "fix", None)
        return mask(f"{type(error).__name__}: {error}" + (f"\n{fix}" if fix else ""))
    return None


async def _with_retries(step: Callable[[], Awaitable[None]]) -> None:
    """A server that has just become healthy may still refuse for a moment."""
    backoff = Backoff(0.5, 5.0)
    while True:
        try:
            return await step()
        except Fatal:
            raise
        except Exception as error:
            if backoff.failures + 1 >= PROVISION_TRIES_MAX:
                raise
            log.warning("provisioning_failed", reason=mask(str(error)))
        await asyncio.sleep(backoff.next_seconds())
