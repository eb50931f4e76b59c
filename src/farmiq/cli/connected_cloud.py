"""A connection to the cloud's database for one command, and what goes wrong with it as a person reads it."""

import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg

from farmiq.cli.edge_cloud import Cloud
from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.contracts.ids import InvalidId
from farmiq.kit.errors import Rejected
from farmiq.kit.logging import mask
from farmiq.kit.postgres import Connection

_NAMES_ALLOWED = "A letter or digit, then up to 63 letters, digits, dots, underscores or hyphens."


@asynccontextmanager
async def connected(
    cloud: Cloud, group: str, fixes: Mapping[type[Rejected], str] | None = None
) -> AsyncIterator[Connection]:
    """For a command of `farmiq GROUP`. `fixes`: what to do about a refusal, where looking at what is there is not enough."""
    try:
        connection = await asyncpg.connect(
            cloud.database_url, timeout=10, command_timeout=60, server_settings={"application_name": f"farmiq-{group}"}
        )
    except (OSError, ValueError, asyncpg.PostgresError) as error:
        fix = "farmiq status shows whether it runs" if cloud.is_of_a_home else "correct CLOUD_DATABASE_URL"
        # The text of a ValueError quotes the part of the address that could not be read, which may be the password.
        why = "It cannot be read as an address." if isinstance(error, ValueError) else mask(str(error))
        raise CommandFailed("the cloud database can't be used", why=why, fix=fix) from None
    try:
        yield connection
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError) as error:
        what = "the database does not have the tables of this version"
        raise CommandFailed(what, why=str(error), fix="farmiq migrate cloud") from error
    except InvalidId as error:
        raise BadUsage(str(error), why=_NAMES_ALLOWED, fix="choose another name") from error
    except Rejected as error:
        why = " ".join((inspect.getdoc(type(error)) or "").split())
        look = f"farmiq {group} ls shows which there are"
        raise CommandFailed(str(error), why=why, fix=(fixes or {}).get(type(error), look)) from error
    finally:
        await connection.close(timeout=5)


def days_from_now(days: int | None) -> datetime | None:
    return None if days is None else datetime.now(UTC) + timedelta(days=days)
