"""A service's life: start, run, drain, stop.

`run` gives each service a `Lifetime` and one task. SIGTERM or SIGINT sets `stopping`; the service finishes what it holds,
gives back what it has not finished, and returns. One that raises ends the process with a non-zero code, because a
half-dead process that still answers its health check is worse than one that a supervisor starts again.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from farmiq.kit import logging as log_lines
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Fatal
from farmiq.kit.metrics import new_registry
from farmiq.kit.settings import BadSettings

EXIT_FAILED = 1
CANCEL_SECONDS = 0.5  # until a loop that goes on is cancelled again
EXIT_BAD_SETTINGS = 78  # sysexits EX_CONFIG: starting again will not help

log = log_lines.get_logger(__name__)

Probe = Callable[[], Awaitable[None]]
Remark = Callable[[], Awaitable[str | None]]


class Lifetime:
    """What one running service shares with the process around it."""

    def __init__(self, service: str, clock: Clock | None = None) -> None:
        self.service = service
        self.clock = clock or Clock()
        self.registry: CollectorRegistry = new_registry(service)
        self.stopping = asyncio.Event()
        self._checks: dict[str, Probe] = {}
        self._remarks: dict[str, Remark] = {}

    def ready_when(self, name: str, probe: Probe) -> None:
        """`probe` raises while the service cannot do its work. A neighbour whose absence we survive is not a check."""
        self._checks[name] = probe

    def remark_on(self, name: str, remark: Remark) -> None:
        """`remark` returns what a person should see beside the checks, None for nothing. The service is ready all the same."""
        self._remarks[name] = remark

    async def pause(self, seconds: float) -> bool:
        """Wait, but not past the end: False when the service is asked to stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        return not self.stopping.is_set()

    async def until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a loop that may be cut anywhere, because whatever it had not acknowledged will be done again."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self.stopping.wait())
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if task.done():
            if task.cancelled():
                # Somebody below has cancelled what was ours. A loop that is gone without a word would be worse than no service.
                raise Fatal("A loop of this service was cancelled from inside and has ended")
            task.result()
            return
        while not task.done():
            # Once is not always enough: a driver that is just connecting may take a cancellation for a failed connection.
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_SECONDS)
        if not task.cancelled():
            task.result()

    async def readiness(self, timeout_seconds: float = 2.0) -> dict[str, str]:
        """Every check's name with "ok" or what is wrong."""
        if self.stopping.is_set():
            return {"service": "stopping"}
        names = list(self._checks)
        return dict(
            zip(names, await asyncio.gather(*(self._probe(name, timeout_seconds) for name in names)), strict=True)
        )

    async def remarks(self, timeout_seconds: float = 2.0) -> dict[str, str]:
        """Those that there are. One that can't be had says nothing: what is wrong is among the checks."""
        texts = {name: await self._remark(remark, timeout_seconds) for name, remark in self._remarks.items()}
        return {name: text for name, text in texts.items() if text}

    async def _remark(self, remark: Remark, timeout_seconds: float) -> str | None:
        try:
            async with asyncio.timeout(timeout_seconds):
                return await remark()
        except Exception as error:  # noqa: BLE001 - whatever it is, the service is as ready as before
            log.warning("remark_failed", reason=log_lines.mask(f"{type(error).__name__}: {error}"))
            return None

    async def _probe(self, name: str, timeout_seconds: float) -> str:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._checks[name]()
        except Exception as error:  # noqa: BLE001 - whatever a check raises is its answer
            return log_lines.mask(f"{type(error).__name__}: {error}")
        return "ok"


Serve = Callable[[Mapping[str, str], Lifetime], Awaitable[None]]


async def run(services: Sequence[tuple[str, Serve]], environ: Mapping[str, str], drain_seconds: float = 20.0) -> int:
    """Run services side by side until told to stop or until one fails. The exit code is the result."""
    lives = [Lifetime(name) for name, _ in services]
    _stop_on_signals(lives)
    tasks = [
        asyncio.create_task(_serve(serve, environ, life), name=life.service)
        for (_, serve), life in zip(services, lives, strict=True)
    ]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for life in lives:
        life.stopping.set()
    _, late = await asyncio.wait(tasks, timeout=drain_seconds)
    for task in late:
        log.warning("drain_timed_out", service=task.get_name(), drain_seconds=drain_seconds)
        task.cancel()
    return max(await asyncio.gather(*(_exit_code(task) for task in tasks)))


def instance_id(service: str, environ: Mapping[str, str]) -> str:
    """Which replica this is: `INSTANCE_ID`, else the host's name and the process."""
    return environ.get("INSTANCE_ID") or f"{environ.get('HOSTNAME') or service}-{os.getpid()}"


def _stop_on_signals(lives: Sequence[Lifetime]) -> None:
    def stop() -> None:
        for life in lives:
            life.stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


async def _serve(serve: Serve, environ: Mapping[str, str], life: Lifetime) -> None:
    log_lines.bind_service(life.service)
    log.info("service_started", pid=os.getpid())
    await serve(environ, life)
    log.info("service_stopped")


async def _exit_code(task: "asyncio.Task[None]") -> int:
    try:
        await task
    except asyncio.CancelledError:
        return EXIT_FAILED
    except BadSettings as error:
        log.error("settings_refused", service=task.get_name(), reason=str(error))  # noqa: TRY400 - the message is the whole story
        return EXIT_BAD_SETTINGS
    except Fatal as error:
        log.error("service_failed", service=task.get_name(), code=error.code, reason=str(error))  # noqa: TRY400 - as above
        return EXIT_FAILED
    except Exception:
        log.exception("service_failed", service=task.get_name())
        return EXIT_FAILED
    return 0
