"""What an edge database from a backup has to forget and to redo, in the transaction that opens it again.

Nothing else has to be undone. Devices send again what the backup lacks. Events that were acknowledged after it was taken are
pending here, go out once more, and the cloud answers `duplicate`. Leases of pictures and of inference end by themselves.
"""

from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.edge.ingress_gateway.identity import rotate_epoch
from farmiq.kit.postgres import Connection
from farmiq.outbox.redrive import unclaim

# The forwarders that held them are gone with the other life: nobody has to wait for the end of a pause of theirs. The cloud has
# answered more often than this database knows, and is asked at once.
_END_PAUSES: Final = "UPDATE sync_state SET paused_until = NULL, consecutive_failures = 0, cloud_heard_at = NULL"


class EdgeLife(Struct, frozen=True):
    """`sent_again` counts events that a forwarder of the other life had in hand."""

    epoch: UUID
    sent_again: int


async def begin(connection: Connection) -> EdgeLife:
    sent_again = await unclaim(connection, older_than_seconds=0.0)
    await connection.execute(_END_PAUSES)
    return EdgeLife(await rotate_epoch(connection), sent_again)
