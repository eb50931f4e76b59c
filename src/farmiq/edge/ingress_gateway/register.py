"""The register as the other services of the edge read it: a page at a time, of one tenant."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from farmiq.kit.postgres import Connection

_COLUMNS: Final = "device_id, farm_id, barn_id, kind, created_at, credential_at, revoked_at"
# In the order of the index on tenant and name, whose entries alone say which names match.
_MATCHING: Final = """
      FROM devices
     WHERE tenant_id = $1 AND device_id > $2 AND ($3::text IS NULL OR strpos(lower(device_id), lower($3)) > 0)
     ORDER BY device_id
"""
_PAGE: Final = f"SELECT {_COLUMNS} {_MATCHING} LIMIT $4"
_SOME: Final = f"SELECT {_COLUMNS} FROM devices WHERE tenant_id = $1 AND device_id = ANY ($2::text[])"  # noqa: S608 - as above
_NAMES: Final = f"SELECT device_id, revoked_at IS NOT NULL AS is_revoked {_MATCHING}"


class Registration(Struct, frozen=True):
    device_id: str
    farm_id: str
    barn_id: str
    kind: str
    created_at: datetime
    credential_at: datetime | None
    revoked_at: datetime | None


async def registered(
    connection: Connection, *, tenant_id: str, part_of_name: str | None, after: str, limit: int
) -> list[Registration]:
    """In the order of their names, the revoked ones too. `part_of_name` may stand anywhere in it, in capitals or not."""
    rows = await connection.fetch(_PAGE, tenant_id, after, part_of_name, limit)
    return [Registration(*row) for row in rows]


async def registrations_of(
    connection: Connection, *, tenant_id: str, device_ids: Sequence[str]
) -> dict[str, Registration]:
    rows = await connection.fetch(_SOME, tenant_id, list(device_ids))
    return {row["device_id"]: Registration(*row) for row in rows}


async def names(
    connection: Connection, *, tenant_id: str, part_of_name: str | None = None, after: str = ""
) -> dict[str, bool]:
    """Every device of the tenant in the order of their names, and whether it was revoked."""
    rows = await connection.fetch(_NAMES, tenant_id, after, part_of_name)
    return {row["device_id"]: row["is_revoked"] for row in rows}
