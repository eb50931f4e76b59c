from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer

from farmiq.cli.errors import BadSetting, NotRunning
from farmiq.cli.terminal import say, say_json


class Tier(StrEnum):
    EDGE = "edge"
    CLOUD = "cloud"


def migrate(
    tier: Annotated[Tier, typer.Argument(help="Whose database.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Bring a database to the schema of this version.

    The database is DATABASE_URL (or DATABASE_URL_FILE), else that of the farm which runs on this machine. Safe to run twice, and
    from several processes at once.
    """
    import asyncio
    import os

    url = database_url(tier, os.environ)

    from farmiq.kit import logging, migrations
    from farmiq.kit.database_roles import missing_roles_at

    logging.configure("WARNING")
    package = f"farmiq.{tier}.migrations"
    applied = asyncio.run(migrations.migrate(url, package))
    role_sql = "\n".join(asyncio.run(missing_roles_at(url, package)))
    if as_json:
        say_json({"tier": tier, "applied": applied, "missing_role_sql": role_sql or None})
    elif applied:
        say(f"The {tier} database was brought to revision {applied[-1]}: {', '.join(applied)}.")
    else:
        say(f"The {tier} database is at the newest revision already.")
    if role_sql and not as_json:
        say(
            "Some roles of PostgreSQL are missing, and this user may not make them: services without theirs may do everything\n"
            f"in this database. As a superuser:\n{role_sql}\nThen: farmiq migrate {tier}"
        )


def database_url(tier: Tier, environ: Mapping[str, str], command: str | None = None) -> str:
    """What was asked for by name wins over what happens to run here."""
    from farmiq.kit.settings import Secret, Settings, load

    class Given(Settings, frozen=True, kw_only=True):
        database_url: Secret = ""

    given = load(Given, environ).database_url
    if given:
        return given

    from farmiq.cli.running import running_environment

    try:
        return running_environment(environ)[f"{tier.upper()}_DATABASE_URL"]
    except NotRunning as error:
        raise BadSetting(
            f"which {tier} database?",
            why="DATABASE_URL is not set, and no farm runs on this machine.",
            fix=f"DATABASE_URL=postgresql://user:password@host:5432/database farmiq {command or f'migrate {tier}'}",
        ) from error
