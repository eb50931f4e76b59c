"""Each device in one line: how many of its sequences are here, declared lost, or missing, over all of its streams."""

from typing import Final

import msgspec

from farmiq.kit.postgres import Connection

# In the order of the index on tenant and device, so a page ends where its last device does. No sequence is in both ranges.
_TOTALS: Final = """
    SELECT device_id, sum(stored)::bigint AS stored, sum(lost)::bigint AS lost,
           sum(highest - stored - lost)::bigint AS missing
      FROM (SELECT device_id, greatest(upper(received), upper(lost), 1) - 1 AS highest,
                   (SELECT coalesce(sum(upper(run) - lower(run)), 0) FROM unnest(received) AS run) AS stored,
                   (SELECT coalesce(sum(upper(run) - lower(run)), 0) FROM unnest(lost) AS run) AS lost
              FROM streams WHERE tenant_id = $1 AND device_id > $2) AS stream
     GROUP BY device_id
     ORDER BY device_id
     LIMIT $3
"""


class DeviceTotals(msgspec.Struct, frozen=True):
    """A device that sends single readings has no sequences and is not among them."""

    device_id: str
    stored: int
    lost: int
    missing: int


async def device_totals(connection: Connection, *, tenant_id: str, after: str = "", limit: int) -> list[DeviceTotals]:
    rows = await connection.fetch(_TOTALS, tenant_id, after, limit)
    return [DeviceTotals(**row) for row in rows]
