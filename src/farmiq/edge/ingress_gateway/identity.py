"""Every statement that asks for or ends a life of this database, besides the door's own."""

from typing import Final
from uuid import UUID

from farmiq.kit.postgres import Connection

_EPOCH: Final = "SELECT epoch FROM edge_identity"
_ROTATE: Final = """
UPDATE edge_identity SET epoch = gen_random_uuid(), changed_at = clock_timestamp(), is_restored = true RETURNING epoch
"""


async def current_epoch(connection: Connection) -> UUID:
    epoch: UUID = await connection.fetchval(_EPOCH)
    return epoch


async def rotate_epoch(connection: Connection) -> UUID:
    """For a database that comes from a backup: devices that see a new epoch believe its marks, and send again what they still
    have. Call it before any service may acknowledge anything."""
    epoch: UUID = await connection.fetchval(_ROTATE)
    return epoch
