from typing import TYPE_CHECKING, Annotated

import typer

from farmiq import __version__
from farmiq.cli import exits
from farmiq.cli.terminal import console, own_name, say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from farmiq.cli.checks import Check
    from farmiq.stack.home import Home

MARKS = {"ok": "[green]✔[/]", "warning": "[yellow]![/]", "failed": "[red]✗[/]"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False) -> None:
    """Check this machine and its farm, and say what to repair.

    At the broker it tries what a hostile device would, with a login that lives for the trial; at a broker that is not ours
    with the login in DOCTOR_MQTT_URL. Exit code 1 when something has failed; warnings alone give 0.
    """
    import os

    from farmiq.stack.home import find_home

    home = find_home(os.environ)
    if not as_json:
        say(f"farmiq {__version__} · {home.path}\n")
    from dataclasses import asdict

    from farmiq.cli.checks import Verdict, worst
    from farmiq.kit import logging

    logging.configure("CRITICAL")  # clients of the servers log for services; what they find is among the checks
    checks = list(examine(home))
    if as_json:
        say_json([asdict(check) for check in checks])
    else:
        show(checks)
    raise typer.Exit(exits.FAILED if worst(checks) is Verdict.FAILED else exits.OK)


def examine(home: "Home") -> "Iterator[Check]":
    import os

    from farmiq.cli import checks, farm_checks
    from farmiq.cli.broker_trial import trial_checks
    from farmiq.cli.running import is_running
    from farmiq.cli.status import canary_remark, intake_remark, limits_remark
    from farmiq.stack.control import read_state
    from farmiq.stack.ports import is_free
    from farmiq.stack.processes import leftovers

    yield checks.check_python()
    yield checks.check_packages(lock_file(), checks.installed_version)
    yield from checks.check_programs(os.environ)
    yield checks.check_disk(home.path)
    usable = checks.check_home(home.path)
    yield usable
    if usable.verdict is checks.Verdict.FAILED:
        return  # nothing can be known about a farm in there
    state = read_state(home)
    yield farm_checks.check_ports(state, farm_checks.remembered_ports(home.ports_file), is_free)
    yield farm_checks.check_supervisor(state)
    yield from farm_checks.check_children(state)
    yield farm_checks.check_leftovers(state, leftovers(home.path))
    if is_running(state):
        yield farm_checks.check_intake(intake_remark(home))
        yield farm_checks.check_limits(limits_remark(home))
        yield farm_checks.check_canary(canary_remark(home))
        yield from trial_checks(os.environ)
        yield from database_roles(home)
        yield from refused_tenants(home)


def database_roles(home: "Home") -> "Iterator[Check]":
    import asyncio

    from farmiq.cli import farm_checks
    from farmiq.kit.database_roles import missing_roles_at
    from farmiq.kit.postgres import AWAY
    from farmiq.stack.control import environment

    urls = environment(home)
    for tier in ("edge", "cloud"):
        try:
            missing = asyncio.run(missing_roles_at(urls[f"{tier.upper()}_DATABASE_URL"], f"farmiq.{tier}.migrations"))
            yield farm_checks.check_database_roles(tier, missing)
        except AWAY:  # PostgreSQL has a check of its own
            continue


def refused_tenants(home: "Home") -> "Iterator[Check]":
    """Those of which edge-sync-forwarder has an alert. Nothing while PostgreSQL is away, which has a check of its own."""
    import asyncio

    import asyncpg

    from farmiq.cli import farm_checks
    from farmiq.edge.alerts import open_commands
    from farmiq.kit.postgres import AWAY
    from farmiq.stack.control import environment

    async def commands() -> dict[str, str]:
        connection = await asyncpg.connect(environment(home)["EDGE_DATABASE_URL"], timeout=5, command_timeout=5)
        try:
            return {name: it for name, it in (await open_commands(connection, "tenant_not_granted")).items() if name}
        finally:
            await connection.close(timeout=5)

    try:
        yield farm_checks.check_tenants(asyncio.run(commands()))
    except AWAY:
        return
    except asyncpg.UndefinedTableError:  # the first start has not made the tables yet
        return


def lock_file() -> "Path | None":
    """That of the checkout which this package runs from, if it does."""
    from pathlib import Path

    lock = Path(__file__).resolve().parents[3] / "requirements.lock"
    return lock if lock.exists() else None


def show(checks: "list[Check]") -> None:
    import re

    from rich.markup import escape

    page = console()
    width = max(len(check.name) for check in checks)
    for check in checks:
        page.print(f"{MARKS[check.verdict]} {check.name:<{width}}  {escape(check.found)}", soft_wrap=True)
        if check.fix:
            fix = re.sub(r"\bfarmiq(?= [a-z])", lambda _: own_name(), check.fix)
            page.print(f"  {'':<{width}}  [cyan]fix: {escape(fix)}[/]", soft_wrap=True)
    failed = sum(check.verdict == "failed" for check in checks)
    page.print(f"\n{len(checks)} checks, {failed} failed.")
