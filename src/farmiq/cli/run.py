from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli.errors import BadSetting, BadUsage, CommandFailed, near_matches

if TYPE_CHECKING:
    from farmiq.contracts.services import Service
    from farmiq.kit.lifecycle import Lifetime, Serve

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def complete_service(incomplete: str) -> list[str]:
    from farmiq.contracts.services import SERVICES

    return [service.name for service in SERVICES if service.name.startswith(incomplete)]


def run(
    services: Annotated[
        list[str], typer.Argument(metavar="SERVICE...", help="One or more services.", autocompletion=complete_service)
    ],
) -> None:
    """Run services in this process, set by the environment.

    Each HTTP service listens on its own documented port, or on <SERVICE>_PORT (EDGE_SYNC_FORWARDER_PORT=6108). When a single HTTP
    service is named, PORT overrides both. Logs are JSON lines on stdout; SIGTERM drains and stops.
    """
    import os

    raise typer.Exit(run_services(services, os.environ))


def run_services(names: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code of the services, run side by side until they are told to stop or one fails."""
    chosen = choose(names)
    ports = ports_of(chosen, environ)
    level = log_level(environ)
    serves = [(service.name, on_port(load(service), ports.get(service.name))) for service in chosen]

    from farmiq.kit.logging import configure

    configure(level)
    return _run_in_loop(serves, environ)


def choose(names: Sequence[str]) -> "list[Service]":
    from farmiq.contracts.services import SERVICES, UnknownService, service_named

    try:
        chosen = [service_named(name) for name in dict.fromkeys(names)]
    except UnknownService as error:
        known = [service.name for service in SERVICES]
        meant = [near for name in names if name not in known for near in near_matches(name, known)]
        raise BadUsage(
            str(error),
            why="Only the services of the catalogue can be run.",
            fix=" or ".join(f"farmiq run {name}" for name in meant) or "farmiq run SERVICE, with one of these",
        ) from error
    return chosen


def ports_of(services: "Sequence[Service]", environ: Mapping[str, str]) -> dict[str, str]:
    """Which port each HTTP service gets, as text: its settings check the value and name what is allowed."""
    http = [service for service in services if service.port is not None]
    if environ.get("PORT") and len(http) > 1:
        names = ", ".join(service.name for service in http)
        raise BadSetting(
            f"PORT is set, and {len(http)} of the services listen: {names}",
            why="One port can't serve several services of one process.",
            fix=" ".join(f"{port_variable(service)}={service.port}" for service in http)
            + " instead of PORT, or one process each",
        )
    return {
        service.name: environ.get("PORT") or environ.get(port_variable(service)) or str(service.port)
        for service in http
    }


def port_variable(service: "Service") -> str:
    return service.url_variable.removesuffix("_URL") + "_PORT"


def log_level(environ: Mapping[str, str]) -> str:
    level = (environ.get("LOG_LEVEL") or "INFO").upper()
    if level not in LOG_LEVELS:
        raise BadSetting(
            f"LOG_LEVEL is {level!r}",
            why=f"Allowed are {', '.join(LOG_LEVELS)}.",
            fix="LOG_LEVEL=INFO, or leave it unset",
        )
    return level


def load(service: "Service") -> "Serve":
    import importlib

    try:
        module = importlib.import_module(service.module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.split(".")[0] == "farmiq":
            raise
        raise CommandFailed(
            f"{service.name} can't run: the Python package {missing!r} is not installed",
            why=f"Only the extra `{service.tier}` brings what a service of that tier needs.",
            fix=f"pip install 'farmiq[{service.tier}]'",
        ) from error
    serve: Serve = module.serve
    return serve


def on_port(serve: "Serve", port: str | None) -> "Serve":
    if port is None:
        return serve

    async def serve_there(environ: Mapping[str, str], life: "Lifetime") -> None:
        await serve({**environ, "PORT": port}, life)

    return serve_there


GC_OBJECTS = 20_000
"""That are made, and not gone again, before Python looks for circles among them. Its default of 700 is a few dozen messages."""


def _run_in_loop(serves: "Sequence[tuple[str, Serve]]", environ: Mapping[str, str]) -> int:
    import asyncio
    import gc

    from farmiq.kit import lifecycle

    # Most of what lives here was imported and stays for ever. Looking through all of it again and again, for circles among the
    # objects that a batch of messages makes, takes up to a fifth of a busy service's time.
    gc.freeze()
    gc.set_threshold(GC_OBJECTS)

    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        return runner.run(lifecycle.run(serves, environ))


def _fast_loop() -> "type | None":
    """A device installs no web stack, and so no uvloop: the standard loop does there."""
    import importlib.util

    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.Loop
