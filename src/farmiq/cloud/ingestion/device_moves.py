"""What a person asks about owners of devices, and how a device gets another one."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from farmiq.cloud.ingestion.edges import EdgeUnknown, TenantNotGranted, may_deliver
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection, storable

BACKLOG_DAYS: Final = 30
"""As long as edges keep what they have sent, and may be restored from a backup."""
MOVE_STEP: Final = 500
HELD_MINUTES: Final = 15
"""An edge tries held events again within a minute: what was not tried for so long is not waiting there any more."""

_TENANTS: Final = """
SELECT tenant_id FROM device_owners WHERE device_id = $1
UNION SELECT tenant_id FROM held_deliveries WHERE device_id = $1 ORDER BY tenant_id
"""
_LOCK: Final = "SELECT edge_cluster_id FROM device_owners WHERE tenant_id = $1 AND device_id = $2 FOR UPDATE"
_LAST_FROM: Final = """
SELECT from_edge FROM device_moves
WHERE tenant_id = $1 AND device_id = $2 AND from_edge IS NOT NULL ORDER BY moved_at DESC LIMIT 1
"""
_RECORD: Final = """
INSERT INTO device_moves (tenant_id, device_id, moved_by, from_edge, to_edge, backlog_before, backlog_until)
VALUES ($1, $2, $3, $4, $5, coalesce($6::timestamptz, clock_timestamp()), clock_timestamp() + make_interval(days => $7))
RETURNING tenant_id, device_id, moved_at, moved_by, from_edge, to_edge, backlog_before, backlog_until
"""
_SET: Final = """
INSERT INTO device_owners (tenant_id, device_id, edge_cluster_id, came_by) VALUES ($1, $2, $3, 'move')
ON CONFLICT (tenant_id, device_id)
DO UPDATE SET edge_cluster_id = excluded.edge_cluster_id, came_by = excluded.came_by, since = now()
"""
_NO_LONGER_HELD: Final = """
DELETE FROM held_deliveries WHERE tenant_id = $1 AND device_id = $2 AND edge_cluster_id = $3
"""
_COUNT: Final = """
SELECT tenant_id, count(*) AS devices FROM device_owners
WHERE edge_cluster_id = $1 AND ($2::text IS NULL OR tenant_id = $2) GROUP BY tenant_id ORDER BY tenant_id
"""
# One statement, so that the version is raised once. Rows are locked in the order in which requests claim theirs. One that was
# moved elsewhere a moment ago is passed over.
_MOVE_STEP: Final = """
WITH chosen AS MATERIALIZED (
  SELECT tenant_id, device_id FROM device_owners
   WHERE edge_cluster_id = $1 AND ($2::text IS NULL OR tenant_id = $2)
   ORDER BY tenant_id, device_id LIMIT $7 FOR UPDATE),
recorded AS (
  INSERT INTO device_moves (tenant_id, device_id, moved_by, from_edge, to_edge, backlog_before, backlog_until)
  SELECT tenant_id, device_id, $4, $1, $3, coalesce($5::timestamptz, clock_timestamp()),
         clock_timestamp() + make_interval(days => $6) FROM chosen),
delivered AS (
  DELETE FROM held_deliveries AS held USING chosen
   WHERE held.edge_cluster_id = $3 AND (held.tenant_id, held.device_id) = (chosen.tenant_id, chosen.device_id)),
moved AS (
  UPDATE device_owners AS owner SET edge_cluster_id = $3, came_by = 'move', since = now() FROM chosen
   WHERE (owner.tenant_id, owner.device_id) = (chosen.tenant_id, chosen.device_id) RETURNING 1)
SELECT count(*) FROM moved
"""
_OWNERS: Final = """
SELECT owner.tenant_id, owner.device_id, owner.edge_cluster_id, owner.came_by, owner.since,
       coalesce((SELECT array_agg(held.edge_cluster_id ORDER BY held.edge_cluster_id) FROM held_deliveries AS held
                  WHERE held.tenant_id = owner.tenant_id AND held.device_id = owner.device_id
                    AND held.last_held_at BETWEEN now() - make_interval(mins => $3) AND clock_timestamp()), '{}') AS held_edges
  FROM device_owners AS owner
 WHERE ($1::text IS NULL OR owner.device_id = $1) AND ($2::text IS NULL OR owner.tenant_id = $2)
 ORDER BY owner.tenant_id, owner.device_id
"""
_HELD: Final = """
SELECT tenant_id, device_id, edge_cluster_id, owner_edge FROM held_deliveries
WHERE last_held_at BETWEEN now() - make_interval(mins => $1) AND clock_timestamp() ORDER BY last_held_at DESC LIMIT $2
"""


class DeviceUnowned(Rejected):
    """No edge has registered this device or delivered anything of it."""

    code = "device_unowned"


class TenantUnclear(Rejected):
    """Several tenants have a device of this id."""

    code = "tenant_unclear"


class DeviceOwner(Struct, frozen=True, kw_only=True):
    """`held_edges`: the edges that send something of it in vain."""

    tenant_id: str
    device_id: str
    edge_cluster_id: str
    came_by: str
    since: datetime
    held_edges: list[str]


class DeviceMove(Struct, frozen=True, kw_only=True):
    """`from_edge` may deliver what occurred before `backlog_before`, until `backlog_until`."""

    tenant_id: str
    device_id: str
    moved_at: datetime
    moved_by: str
    from_edge: str | None
    to_edge: str
    backlog_before: datetime
    backlog_until: datetime


class Held(Struct, frozen=True):
    """`device_id` is empty for a weigh session of which no device is known."""

    tenant_id: str
    device_id: str
    edge_cluster_id: str
    owner_edge: str


async def tenant_of(connection: Connection, device_id: str) -> str:
    """The only tenant with a device of this id."""
    tenants = [row["tenant_id"] for row in await connection.fetch(_TENANTS, device_id)]
    if not tenants:
        raise DeviceUnowned(f"no edge has registered or delivered a device {device_id[:80]!r}")
    if len(tenants) > 1:
        raise TenantUnclear(f"device {device_id} is known for {', '.join(tenants)}")
    return str(tenants[0])


async def move(
    connection: Connection,
    *,
    tenant_id: str,
    device_id: str,
    to_edge: str,
    moved_by: str,
    backlog_days: int = BACKLOG_DAYS,
    backlog_before: datetime | None = None,
) -> DeviceMove | None:
    """Give a device to an edge, which then delivers everything of it. None when it has it already.

    `backlog_before` given for a device that is there already: what its former edge may deliver is changed. Owner and record are
    one transaction: killed anywhere, the same call again does what is left, which is all of it or nothing."""
    async with connection.transaction():
        await _check_grant(connection, to_edge, tenant_id)
        from_edge = await connection.fetchval(_LOCK, tenant_id, device_id)
        if from_edge == to_edge:
            if backlog_before is None and backlog_days == BACKLOG_DAYS:
                return None
            from_edge = await connection.fetchval(_LAST_FROM, tenant_id, device_id)
        row = await connection.fetchrow(
            _RECORD, tenant_id, device_id, storable(moved_by), from_edge, to_edge, backlog_before, backlog_days
        )
        assert row is not None  # noqa: S101 - an insert without conditions returns its row
        await connection.execute(_SET, tenant_id, device_id, to_edge)
        await connection.execute(_NO_LONGER_HELD, tenant_id, device_id, to_edge)
    return DeviceMove(**dict(row.items()))


async def count_devices(connection: Connection, edge_cluster_id: str, tenant_id: str | None) -> dict[str, int]:
    """How many devices an edge has, by tenant."""
    return {row["tenant_id"]: row["devices"] for row in await connection.fetch(_COUNT, edge_cluster_id, tenant_id)}


async def move_step(
    connection: Connection,
    *,
    from_edge: str,
    to_edge: str,
    moved_by: str,
    tenant_id: str | None = None,
    backlog_days: int = BACKLOG_DAYS,
    backlog_before: datetime | None = None,
    limit: int = MOVE_STEP,
) -> int:
    """Give so many devices of an edge to another one, in one transaction, each with its record. Returns how many. Killed
    anywhere, the same call again moves the rest."""
    async with connection.transaction():
        for tenant in await count_devices(connection, from_edge, tenant_id):
            await _check_grant(connection, to_edge, tenant)
        how = (backlog_before, backlog_days, limit)
        return int(await connection.fetchval(_MOVE_STEP, from_edge, tenant_id, to_edge, storable(moved_by), *how))


async def _check_grant(connection: Connection, edge_cluster_id: str, tenant_id: str) -> None:
    granted = await may_deliver(connection, edge_cluster_id, tenant_id)
    if granted is None:
        raise EdgeUnknown(f"there is no edge {edge_cluster_id[:80]!r}")
    if not granted:
        raise TenantNotGranted(f"edge {edge_cluster_id} may not deliver for tenant {tenant_id[:80]}")


async def owners(connection: Connection, device_id: str | None, tenant_id: str | None) -> list[DeviceOwner]:
    rows = await connection.fetch(_OWNERS, device_id, tenant_id, HELD_MINUTES)
    return [DeviceOwner(**dict(row.items())) for row in rows]


async def held(connection: Connection, *, limit: int) -> list[Held]:
    """What edges sent lately of devices that are not theirs, the latest first."""
    return [Held(*row) for row in await connection.fetch(_HELD, HELD_MINUTES, limit)]
