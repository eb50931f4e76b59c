"""What begins when a database comes from a backup. The tiers' own code decides what has to be forgotten."""

from uuid import UUID

from msgspec import Struct

from farmiq.backup.manifest import Manifest
from farmiq.edge import new_life as edge_life
from farmiq.kit.postgres import Connection


class Life(Struct, frozen=True, kw_only=True):
    """`epoch_before` is the epoch that the backup was taken in."""

    epoch: UUID | None
    epoch_before: UUID | None
    events_sent_again: int = 0


async def begin(connection: Connection, manifest: Manifest) -> Life:
    """Inside the caller's transaction, which also opens the database to its services."""
    before = manifest.database.epoch
    if manifest.tier == "cloud":
        return Life(epoch=None, epoch_before=before)
    begun = await edge_life.begin(connection)
    return Life(epoch=begun.epoch, epoch_before=before, events_sent_again=begun.sent_again)
