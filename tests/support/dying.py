"""Runs one service in a process of its own that kills itself with -9 right before or right after a named call.

    python -m support.dying SERVICE MODULE:QUALNAME before|after N

Everything is real but the moment of death: the N-th call of the target. That is how a test stands between two lines.
"""

import asyncio
import functools
import importlib
import inspect
import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from farmiq.contracts.services import SERVICES
from farmiq.kit import lifecycle, logging


def die_at(target: str, moment: str, on_call: int) -> None:
    """Replace the target by one that ends this process."""
    module_name, _, qualname = target.partition(":")
    *owners, name = qualname.split(".")
    owner: Any = functools.reduce(getattr, owners, importlib.import_module(module_name))
    original = getattr(owner, name)
    calls = itertools.count(1)

    def dies_now(when: str, call: int) -> None:
        if when == moment and call == on_call:
            os.kill(os.getpid(), signal.SIGKILL)

    if inspect.iscoroutinefunction(original):

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            call = next(calls)
            dies_now("before", call)
            answer = await original(*args, **kwargs)
            dies_now("after", call)
            return answer

        setattr(owner, name, functools.wraps(original)(awaited))
    else:

        def called(*args: Any, **kwargs: Any) -> Any:
            call = next(calls)
            dies_now("before", call)
            answer = original(*args, **kwargs)
            dies_now("after", call)
            return answer

        setattr(owner, name, functools.wraps(original)(called))


def _main() -> int:
    service, *death = sys.argv[1:]
    catalogue = {known.name: known for known in SERVICES}
    serve: Callable[..., Any] = importlib.import_module(catalogue[service].module).serve
    if death:
        die_at(death[0], death[1], int(death[2]))
    logging.configure("INFO")
    return asyncio.run(lifecycle.run([(service, serve)], os.environ))


if __name__ == "__main__":
    sys.exit(_main())
