"""Many rows in a few numbers, day by day, so that two databases can be compared without naming each row.

The digest of a day adds up sixty bits of each row's MD5. It does not depend on the order of the rows nor on the version of
PostgreSQL, and two days that differ in a row have the same one by accident about once in 2^60 times.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from farmiq.kit.postgres import Connection

_DAYS: Final = """
    SELECT coalesce(device_id, '') AS device_id, date_trunc('day', {at}, 'UTC') AS day_at, {state} AS state, count(*) AS rows,
           sum(('x' || substr(md5(id::text || ':' || ({content})), 1, 15))::bit(60)::bigint)::text AS digest
      FROM {table}
     WHERE tenant_id = $1 AND {at} >= $2 AND {at} < $3 AND ($4::text IS NULL OR device_id = $4)
     GROUP BY 1, 2, 3
     ORDER BY 1, 2, 3
"""

_ROWS: Final = """
    SELECT id, coalesce(device_id, '') AS device_id, {at} AS at, {shown} AS content
      FROM {table}
     WHERE tenant_id = $1 AND ({at}, id) > ($2, $5) AND {at} < $3 AND ($4::text IS NULL OR device_id = $4)
     ORDER BY {at}, id
     LIMIT $6
"""
SMALLEST_ID: Final = UUID(int=0)

UTC_TIME: Final = "coalesce(to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), 'unknown')"
"""SQL for a time in words, the same in every session."""

# A weight is the same number at both tiers, and so is its rounded text, whatever PostgreSQL writes it. The first weight of a
# session that has not ended may be known better at the edge: the cloud is told of it with the end.
SESSION_CONTENT: Final = f"""
    concat_ws('/', status, batch_id, {UTC_TIME.format("start_at")},
              CASE WHEN status <> 'created' THEN {UTC_TIME.format("end_at")} END,
              CASE WHEN status = 'finalized' THEN concat_ws('/', coalesce(image_count, 0),
                coalesce(round(initial_weight_kg::numeric, 6)::text, ''), coalesce(round(final_weight_kg::numeric, 6)::text, ''),
                inference_result_id) END)
"""
"""How a weigh session began and ended, of a table that both tiers have alike."""

PICTURE_CONTENT: Final = f"concat({{}}, ' taken ', {UTC_TIME.format('captured_at')}, ' in session ', session_id)"
"""A picture, by its checksum."""

IMAGE_CONTENT: Final = "concat('in session ', session_id)"
"""That a station took a picture."""

# PostgreSQL writes a number with as many digits as tell it from every other.
WEIGHT_CONTENT: Final = f"concat(weight_kg, ' kg in session ', session_id, ' at ', {UTC_TIME.format('occurred_at')})"
"""What a scale said, of a table that both tiers have alike."""

RESULT_CONTENT: Final = f"""
    concat(predicted_weight_kg, ' kg, size ', predicted_size, ', confidence ', confidence, ' of picture ', media_id, ' by ',
           model_version, ' at ', {UTC_TIME.format("occurred_at")})
"""
"""What a model said of a picture. Its session may be known at one tier and not yet at the other, so it is left out."""


class DayDigest(msgspec.Struct, frozen=True):
    """Of the rows of one device, day and state. A row without a device has '' for it."""

    device_id: str
    day_at: datetime
    state: str
    rows: int
    digest: str


class DayDigests(msgspec.Struct, frozen=True):
    """`kept_since`: nothing of later was deleted by a retention. Null where nobody says."""

    days: list[DayDigest]
    kept_since: datetime | None = None


class DigestedRow(msgspec.Struct, frozen=True):
    """`content` is what goes into the digest, in words; of an aggregate, a JSON array."""

    id: UUID
    device_id: str
    at: datetime
    content: str


class Digested(msgspec.Struct, frozen=True):
    """A table with `id`, `tenant_id` and `device_id`, and SQL of its owner for when a row is, its state, and what it says. In all
    of it, $1 is the tenant."""

    table: str
    at: str
    state: str
    content: str
    shown: str | None = None
    """What is shown of a row, where it is not what goes into the digest."""

    async def days(
        self, connection: Connection, tenant_id: str, device_id: str | None, since: datetime, until: datetime
    ) -> DayDigests:
        statement = _DAYS.format(table=self.table, at=self.at, state=self.state, content=self.content)
        rows = await connection.fetch(statement, tenant_id, since, until, device_id)
        return DayDigests([DayDigest(**row) for row in rows])

    async def rows(
        self,
        connection: Connection,
        tenant_id: str,
        device_id: str | None,
        after: tuple[datetime, UUID],
        until: datetime,
        limit: int,
    ) -> list[DigestedRow]:
        """In order, from behind `after`."""
        statement = _ROWS.format(table=self.table, at=self.at, shown=self.shown or self.content)
        since, after_id = after
        rows = await connection.fetch(statement, tenant_id, since, until, device_id, after_id, limit)
        return [DigestedRow(**row) for row in rows]
