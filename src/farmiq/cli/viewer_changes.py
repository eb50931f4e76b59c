"""Letting viewers read, and ending that. Replicas look a token up at every request: all know at once."""

from collections.abc import Sequence

from farmiq.cli.connected_cloud import connected, days_from_now
from farmiq.cli.edge_cloud import Cloud
from farmiq.cloud import viewers
from farmiq.cloud.viewers import IssuedToken, ViewerToken


async def add_viewer(cloud: Cloud, name: str, tenant_ids: Sequence[str], expires_days: int | None) -> IssuedToken:
    async with connected(cloud, "viewer") as connection:
        return await viewers.add(connection, name, tenant_ids, days_from_now(expires_days))


async def revoke_viewer(cloud: Cloud, name: str, token_id: str | None) -> list[ViewerToken]:
    async with connected(cloud, "viewer") as connection:
        return await viewers.revoke(connection, name, token_id)


async def all_tokens(cloud: Cloud) -> list[ViewerToken]:
    async with connected(cloud, "viewer") as connection:
        return await viewers.all_tokens(connection)
