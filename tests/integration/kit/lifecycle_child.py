"""A process with services in it, to be ended in various ways. Arguments: what each service is like, with its port if it has one.

drains:PORT   answers HTTP, and on the way out finishes its work
fails         raises while the others run
misconfigured finds its settings wrong
stuck         does not end when asked
"""

import asyncio
import os
import sys
from collections.abc import Mapping

from farmiq.kit import logging as log_lines
from farmiq.kit.http_server import serve_http
from farmiq.kit.lifecycle import Lifetime, Serve, run
from farmiq.kit.settings import HttpSettings, load

log = log_lines.get_logger("child")


def drains(port: int) -> Serve:
    async def serve(_environ: Mapping[str, str], life: Lifetime) -> None:
        await serve_http(life, HttpSettings(port=port), [])
        for _ in range(100):  # the work that it still holds
            await asyncio.sleep(0)
        log.info("work_finished", port=port)

    return serve


async def fails(_environ: Mapping[str, str], _life: Lifetime) -> None:
    raise ConnectionError("postgresql://user:hunter2@host/db is gone")


async def misconfigured(_environ: Mapping[str, str], _life: Lifetime) -> None:
    load(HttpSettings, {"PORT": "many"})


async def stuck(_environ: Mapping[str, str], life: Lifetime) -> None:
    await life.stopping.wait()
    await asyncio.Event().wait()


def service(description: str) -> tuple[str, Serve]:
    kind, _, port = description.partition(":")
    known: dict[str, Serve] = {"fails": fails, "misconfigured": misconfigured, "stuck": stuck}
    return f"{kind}-service", known[kind] if kind in known else drains(int(port))


if __name__ == "__main__":
    log_lines.configure("INFO")
    sys.exit(asyncio.run(run([service(each) for each in sys.argv[1:]], os.environ, drain_seconds=0.5)))
