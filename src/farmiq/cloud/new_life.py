"""What a cloud database from a backup has to forget, in the transaction that opens it again.

Edges keep what the cloud has acknowledged for `OUTBOX_RETENTION_DAYS`. The first answer under a new epoch has each of them send
again what was acknowledged since the backup, and `MARGIN` before it: clocks differ, and an event that was accepted may have been
on the bus, in no table yet. Pictures follow their events.
"""

from datetime import datetime, timedelta
from typing import Final

from farmiq.cloud.ingestion.identity import begin_life
from farmiq.contracts.sync import CloudLife
from farmiq.kit.postgres import Connection

MARGIN: Final = timedelta(hours=24)


async def begin(connection: Connection, taken_at: datetime) -> tuple[CloudLife, int]:
    """The life that begins, and how many events it forgets to have seen."""
    return await begin_life(connection, taken_at - MARGIN)
