"""What begins when the cloud has lost what it had accepted: a backup was restored, RabbitMQ lost its disk, or a person says so.

Edges keep what the cloud has acknowledged for `OUTBOX_RETENTION_DAYS`. The first answer under a new epoch has each of them send
again what was acknowledged since then, and `MARGIN` before it: an event that was accepted may have been on the bus, in no table
yet. Pictures follow their events. Analytics hears again of the hours of that time: what it was told may have been on the bus too.
"""

from datetime import datetime, timedelta
from typing import Final

from farmiq.cloud.ingestion import epochs
from farmiq.cloud.ingestion.epochs import Begun
from farmiq.cloud.telemetry_service.unsent import mark_since
from farmiq.kit.postgres import Connection

__all__ = ["Begun", "begin"]

MARGIN: Final = timedelta(hours=24)


async def begin(
    connection: Connection, lost_since: datetime, tenant_id: str | None = None, began_after: datetime | None = None
) -> Begun:
    """In one transaction, for a restored database the one that opens it again. Of all tenants, or of one. `began_after`: when
    the last epoch of the database began that was replaced."""
    await mark_since(connection, lost_since - MARGIN, tenant_id)
    return await epochs.begin(connection, lost_since - MARGIN, tenant_id, began_after)
