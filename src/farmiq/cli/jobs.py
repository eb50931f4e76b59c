from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from farmiq.cli.terminal import console, put, say, say_json

if TYPE_CHECKING:
    from rich.table import Table

    from farmiq.cli.job_catalogue import OwnedJob
    from farmiq.kit.job_runs import LastRun

    Entry = tuple[OwnedJob, LastRun | None]

jobs = typer.Typer(
    name="jobs",
    help="Clean-up and preparation: what comes round, and running it now.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@jobs.command("ls")
def list_jobs(as_json: AsJson = False) -> None:
    """Show the jobs, when each ran last, and when it is due.

    The database is DATABASE_URL (or DATABASE_URL_FILE), else those of the farm which runs on this machine.
    """
    import os

    entries = look(os.environ)
    if as_json:
        say_json([as_data(owned, last) for owned, last in entries])
    else:
        put(console(), table(entries))


@jobs.command("run")
def run_job(
    name: Annotated[str, typer.Argument(help="One of those that `farmiq jobs ls` shows.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing: say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a job now, due or not, and print its report.

    For a CronJob, or for somebody who does not want to wait. The database is found as by `farmiq jobs ls`; settings are read from
    the environment. Exit code 1 when it failed, or when a replica is just running it.
    """
    import asyncio
    import os

    from farmiq.cli import job_database
    from farmiq.cli.job_catalogue import job_named
    from farmiq.cli.migrate import Tier, database_url
    from farmiq.cli.object_store import with_object_store
    from farmiq.kit import logging

    tier = job_named(name, os.environ).service.tier
    owned = job_named(name, with_object_store(os.environ, tier))
    url = database_url(Tier(tier), os.environ, f"jobs run {name}")
    if not as_json:
        say(f"running {name}{' without changing anything' if dry_run else ''}")
    logging.configure("CRITICAL" if as_json else "WARNING")
    report = asyncio.run(job_database.run_job(owned, url, is_dry_run=dry_run))
    if as_json:
        say_json({"job": name, "dry_run": dry_run, "report": report})
        return
    say("It would do this:" if dry_run else "Done:")
    for count, value in report.items():
        say(f"  {count.replace('_', ' ')}: {', '.join(value) or '-' if isinstance(value, list) else value}")


def look(environ: Mapping[str, str]) -> "list[Entry]":
    """The jobs of each database that can be found, with their last runs."""
    import asyncio

    from farmiq.cli import job_database
    from farmiq.cli.job_catalogue import all_jobs

    owned = all_jobs(environ)
    names = [one.job.name for one in owned]
    found = [asyncio.run(job_database.last_runs(url, names)) for url in database_urls(environ)]
    return [(one, runs.get(one.job.name)) for tier, runs in found for one in owned if one.service.tier == tier]


def database_urls(environ: Mapping[str, str]) -> list[str]:
    from farmiq.cli.migrate import Tier, database_url

    urls = [database_url(tier, environ, "jobs ls") for tier in Tier]
    return list(dict.fromkeys(urls))  # one that was asked for by name is the same for both tiers


def as_data(owned: "OwnedJob", last: "LastRun | None") -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = {
        "job": owned.job.name,
        "service": owned.service.name,
        "interval_seconds": owned.job.interval_seconds,
        "about": owned.job.about,
        "due_in_seconds": due_in_seconds(owned, last),
        "last_run": None,
    }
    if last is not None:
        run = {name: getattr(last, name) for name in last.__struct_fields__ if name.startswith("last_")}
        told["last_run"] = msgspec.to_builtins(run | {"last_report": msgspec.json.decode(last.last_report)})
    return told


def due_in_seconds(owned: "OwnedJob", last: "LastRun | None") -> float:
    from farmiq.kit.jobs import seconds_until_due

    return seconds_until_due(owned.job, last)


def table(entries: "list[Entry]") -> "Table":
    from rich.markup import escape
    from rich.table import Table

    from farmiq.cli.tables import duration

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("job", "service", "every", "last run", "result", "next"):
        shown.add_column(column, overflow="fold")
    for owned, last in entries:
        shown.add_row(
            owned.job.name,
            owned.service.name,
            duration(owned.job.interval_seconds),
            "never" if last is None else f"{duration(last.age_seconds)} ago",
            escape(result(last)),
            "now" if (seconds := due_in_seconds(owned, last)) == 0 else f"in {duration(seconds)}",
        )
    return shown


def result(last: "LastRun | None") -> str:
    from farmiq.kit.jobs import counts_of

    if last is None:
        return "-"
    if last.last_finished_at is None:
        return "… running, or cut before it ended"
    if last.last_error is not None:
        return f"✗ {last.last_error}"
    return "✔ " + (", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts_of(last).items()) or "done")
