"""Adding, rotating, revoking and granting, and which edge has a device: each change in one transaction.

Replicas look a token up at every request: all know at once."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime

from farmiq.cli.connected_cloud import connected, days_from_now
from farmiq.cli.edge_cloud import Cloud
from farmiq.cli.errors import CommandFailed
from farmiq.cli.terminal import person
from farmiq.cloud.ingestion import device_moves, edges
from farmiq.cloud.ingestion.device_moves import DeviceMove, DeviceOwner
from farmiq.cloud.ingestion.edges import EdgeToken
from farmiq.contracts.ids import check_device_id, check_id
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


async def set_grant(cloud: Cloud, edge_id: str, tenant_id: str, *, is_granted: bool) -> bool:
    """False when nothing had to be changed."""
    own = (demo_farm.TENANT_ID, demo_farm.VERIFIED_TENANT_ID)
    if not is_granted and edge_id == demo_farm.EDGE_CLUSTER_ID and tenant_id in own:
        _refuse_own_edge(cloud, edge_id)
    async with _connected(cloud, edge_id) as connection:
        change = edges.grant if is_granted else edges.ungrant
        return await change(connection, edge_id, tenant_id, by=person())


async def move_device(
    cloud: Cloud,
    device_id: str,
    to_edge: str,
    tenant_id: str | None,
    backlog_days: int,
    backlog_before: datetime | None,
) -> DeviceMove | None:
    fixes = {
        edges.EdgeUnknown: "farmiq edge ls shows which there are",
        edges.TenantNotGranted: f"farmiq edge grant {to_edge} --tenant {tenant_id or 'TENANT'}",
        device_moves.DeviceUnowned: f"farmiq device move {device_id} --to {to_edge} --tenant TENANT",
        device_moves.TenantUnclear: f"farmiq device move {device_id} --to {to_edge} --tenant TENANT",
    }
    async with connected(cloud, "device", fixes) as connection:
        tenant_id = tenant_id or await device_moves.tenant_of(connection, device_id)
        return await device_moves.move(
            connection,
            tenant_id=check_id("tenant_id", tenant_id),
            device_id=check_device_id(device_id),
            to_edge=to_edge,
            moved_by=person(),
            backlog_days=backlog_days,
            backlog_before=backlog_before,
        )


async def count_devices(cloud: Cloud, edge_id: str, tenant_id: str | None) -> int:
    """0 of an edge that has none any more."""
    async with _connected(cloud, edge_id) as connection:
        devices = sum((await device_moves.count_devices(connection, edge_id, tenant_id)).values())
        if not devices and not await edges.tokens(connection, edge_id):
            raise edges.EdgeUnknown(f"there is no edge {edge_id[:80]!r}")
        return devices


async def move_devices(
    cloud: Cloud,
    from_edge: str,
    to_edge: str,
    tenant_id: str | None,
    backlog_days: int,
    backlog_before: datetime | None,
    on_moved: Callable[[int], None],
) -> int:
    """All that an edge has. `on_moved` is called with their number after each transaction."""
    fixes = {
        edges.EdgeUnknown: "farmiq edge ls shows which there are",
        edges.TenantNotGranted: f"farmiq edge grant {to_edge} --tenant TENANT",
    }
    total = 0
    async with connected(cloud, "device", fixes) as connection:
        while await device_moves.count_devices(connection, from_edge, tenant_id):
            total += await device_moves.move_step(
                connection,
                from_edge=from_edge,
                to_edge=to_edge,
                moved_by=person(),
                tenant_id=tenant_id,
                backlog_days=backlog_days,
                backlog_before=backlog_before,
            )
            on_moved(total)
    return total


async def device_owners(cloud: Cloud, device_id: str | None, tenant_id: str | None) -> list[DeviceOwner]:
    async with connected(cloud, "device") as connection:
        return await device_moves.owners(connection, device_id, tenant_id)


def _refuse_own_edge(cloud: Cloud, edge_id: str) -> None:
    if cloud.is_of_a_home and edge_id == demo_farm.EDGE_CLUSTER_ID:
        raise CommandFailed(
            f"{edge_id} is the edge that this farm runs itself",
            why="Its token is made with the farm and comes back at each start.",
            fix="farmiq edge add another-id --tenant TENANT",
        )


def _connected(cloud: Cloud, edge_id: str) -> AbstractAsyncContextManager[Connection]:
    return connected(cloud, "edge", {edges.EdgeKnown: f"farmiq edge rotate {edge_id} makes a new token"})
