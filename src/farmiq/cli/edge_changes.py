"""Adding, rotating and revoking, each in one transaction. Replicas look a token up at every request: all know at once."""

import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import asyncpg

from farmiq.cli.edge_cloud import Cloud
from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.cloud.ingestion import edges
from farmiq.cloud.ingestion.edges import EdgeToken
from farmiq.contracts.ids import InvalidId
from farmiq.kit.errors import Rejected
from farmiq.kit.logging import mask
from farmiq.kit.postgres import Connection
from farmiq.stack import demo_farm

_NAMES_ALLOWED = "A letter or digit, then up to 63 letters, digits, dots, underscores or hyphens."
DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Issued:
    """An edge with a token that nobody has seen yet."""

    row: EdgeToken
    token: str = field(repr=False)
    ingestion_url: str | None
    # Those that still work beside it, with the time when they end.
    others: tuple[EdgeToken, ...] = ()


async def add_edge(cloud: Cloud, edge_id: str, tenant_ids: Sequence[str], expires_days: int | None) -> Issued:
    _refuse_own_edge(cloud, edge_id)
    async with _connected(cloud, edge_id) as connection:
        issued = await edges.add(connection, edge_id, tenant_ids, _days_from_now(expires_days))
    return Issued(issued.row, issued.token, cloud.ingestion_url)


async def rotate_edge(cloud: Cloud, edge_id: str, grace_days: int, expires_days: int | None) -> Issued:
    _refuse_own_edge(cloud, edge_id)
    async with _connected(cloud, edge_id) as connection:
        issued = await edges.rotate(
            connection, edge_id, grace_seconds=grace_days * DAY_SECONDS, expires_at=_days_from_now(expires_days)
        )
        known = await edges.tokens(connection, edge_id)
    others = [one for one in known if one.state == "live" and one.token_id != issued.row.token_id]
    return Issued(issued.row, issued.token, cloud.ingestion_url, tuple(others))


async def revoke_edge(cloud: Cloud, edge_id: str, token_id: str | None) -> list[EdgeToken]:
    _refuse_own_edge(cloud, edge_id)
    async with _connected(cloud, edge_id) as connection:
        return await edges.revoke(connection, edge_id, token_id)


async def all_tokens(cloud: Cloud) -> list[EdgeToken]:
    async with _connected(cloud, "") as connection:
        return await edges.tokens(connection)


def _days_from_now(days: int | None) -> datetime | None:
    return None if days is None else datetime.now(UTC) + timedelta(days=days)


def _refuse_own_edge(cloud: Cloud, edge_id: str) -> None:
    if cloud.is_of_a_home and edge_id == demo_farm.EDGE_CLUSTER_ID:
        raise CommandFailed(
            f"{edge_id} is the edge that this farm runs itself",
            why="Its token is made with the farm and comes back at each start.",
            fix="farmiq edge add another-id --tenant TENANT",
        )


@asynccontextmanager
async def _connected(cloud: Cloud, edge_id: str) -> AsyncIterator[Connection]:
    try:
        connection = await asyncpg.connect(
            cloud.database_url, timeout=10, command_timeout=60, server_settings={"application_name": "farmiq-edge"}
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
        raise _explained(error, edge_id) from error
    finally:
        await connection.close(timeout=5)


def _explained(error: Rejected, edge_id: str) -> CommandFailed:
    fixes: dict[type[Rejected], str] = {
        edges.EdgeKnown: f"farmiq edge rotate {edge_id} makes a new token",
        edges.EdgeUnknown: "farmiq edge ls shows which there are",
    }
    why = " ".join((inspect.getdoc(type(error)) or "").split())
    return CommandFailed(str(error), why=why, fix=fixes.get(type(error), "farmiq edge ls"))
