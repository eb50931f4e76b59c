"""What begins when a database comes from a backup. The tiers' own code decides what has to be forgotten."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from farmiq.backup.manifest import Manifest
from farmiq.backup.replaced import Held
from farmiq.cloud import restore_epoch
from farmiq.edge import new_life as edge_life
from farmiq.kit.postgres import Connection


class Life(Struct, frozen=True, kw_only=True):
    """`epoch_before` is the epoch that the backup was taken in. `resend_since`: edges send again what this cloud had
    acknowledged from then on; `events_sent_again` are those that a forwarder of this edge had in hand."""

    epoch: UUID
    epoch_before: UUID | None
    events_sent_again: int = 0
    resend_since: datetime | None = None


async def begin(connection: Connection, manifest: Manifest, replaced: Held | None = None) -> Life:
    """Inside the caller's transaction, which also opens the database to its services. `replaced`: the database before, if it
    could be read."""
    before = manifest.database.epoch
    if manifest.tier == "cloud":
        epoch = (
            await restore_epoch.begin(
                connection, manifest.database.taken_at, began_after=replaced.began_at if replaced else None
            )
        ).epoch
        return Life(epoch=epoch.epoch, epoch_before=before, resend_since=epoch.resend_since)
    begun = await edge_life.begin(connection)
    return Life(epoch=begun.epoch, epoch_before=before, events_sent_again=begun.sent_again)
