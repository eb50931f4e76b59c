"""Adding, rotating and revoking, each in one transaction. Replicas look a token up at every request: all know at once."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from farmiq.cli.connected_cloud import connected, days_from_now
from farmiq.cli.edge_cloud import Cloud
from farmiq.cli.errors import CommandFailed
from farmiq.cloud.ingestion import edges
from farmiq.cloud.ingestion.edges import EdgeToken
from farmiq.kit.postgres import Connection
from farmiq.stack import demo_farm

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
        issued = await edges.add(connection, edge_id, tenant_ids, days_from_now(expires_days))
    return Issued(issued.row, issued.token, cloud.ingestion_url)


async def rotate_edge(cloud: Cloud, edge_id: str, grace_days: int, expires_days: int | None) -> Issued:
    _refuse_own_edge(cloud, edge_id)
    async with _connected(cloud, edge_id) as connection:
        issued = await edges.rotate(
            connection, edge_id, grace_seconds=grace_days * DAY_SECONDS, expires_at=days_from_now(expires_days)
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


def _refuse_own_edge(cloud: Cloud, edge_id: str) -> None:
    if cloud.is_of_a_home and edge_id == demo_farm.EDGE_CLUSTER_ID:
        raise CommandFailed(
            f"{edge_id} is the edge that this farm runs itself",
            why="Its token is made with the farm and comes back at each start.",
            fix="farmiq edge add another-id --tenant TENANT",
        )


def _connected(cloud: Cloud, edge_id: str) -> AbstractAsyncContextManager[Connection]:
    return connected(cloud, "edge", {edges.EdgeKnown: f"farmiq edge rotate {edge_id} makes a new token"})
