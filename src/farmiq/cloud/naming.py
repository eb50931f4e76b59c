"""How this cloud names what it makes. Its secret stays when a backup is restored: what is made again gets the same name."""

from typing import Final

from farmiq.kit.ids import Naming
from farmiq.kit.postgres import Connection

_NAMING: Final = "SELECT id_secret, ids_keyed_since FROM cloud_identity"


async def naming(connection: Connection) -> Naming:
    row = await connection.fetchrow(_NAMING)
    assert row is not None  # noqa: S101 - the migration makes the one row, and a rule keeps it one
    return Naming(row["id_secret"], row["ids_keyed_since"])
