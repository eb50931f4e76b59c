"""What other services of the cloud may call: inside their transaction, never by SQL of their own."""

from datetime import datetime

import msgspec

from farmiq.kit.postgres import Connection
from farmiq.timeseries import hours

DEVICES_MAX = 1000
"""In one step. A tenant may have more; they are gone through in steps."""


class Completeness(msgspec.Struct, frozen=True):
    """Samples of one barn. `missing` are below the highest sequence that was seen: neither stored nor declared lost."""

    stored: int
    lost: int
    missing: int

    @property
    def ratio(self) -> float | None:
        """How much of what was measured is here; None when nothing was."""
        measured = self.stored + self.lost + self.missing
        return self.stored / measured if measured else None


async def completeness_of_barn(
    connection: Connection, tenant_id: str, barn: tuple[str, str], since: datetime, until: datetime
) -> Completeness:
    """Of a farm and its barn, over the hours that the two times touch. What is lost or missing between unknown times is in no
    hour, and not counted."""
    rows: list[hours.HourRow] = []
    after = ""
    while device_ids := await hours.devices(connection, tenant_id=tenant_id, after=after, limit=DEVICES_MAX):
        found = await hours.hours(
            connection, tenant_id=tenant_id, device_ids=device_ids, since=since, until=until, barn=barn
        )
        rows += found.hours
        after = device_ids[-1]
    return Completeness(
        sum(row.stored for row in rows), sum(row.lost for row in rows), sum(row.missing for row in rows)
    )
