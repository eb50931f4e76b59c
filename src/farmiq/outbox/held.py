"""Rows that the cloud does not take until a person decides: what they are about, and bringing them back into the claim."""

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.sync import DEVICE_MOVED, DEVICE_OF_ANOTHER_EDGE, SESSION_OF_ANOTHER_EDGE
from farmiq.kit.postgres import Connection

HELD_CODES: Final = (DEVICE_OF_ANOTHER_EDGE, SESSION_OF_ANOTHER_EDGE, DEVICE_MOVED)
PAGE_ROWS: Final = 1_000
SUBJECTS_MAX: Final = 1_000

# From the partial indexes of what waits and of what is in flight: the one that asks the cloud again is held too.
_SUBJECTS: Final = """
SELECT tenant_id, last_error_code AS code, device_id,
       CASE WHEN last_error_code = $2 THEN session_id END AS session_id,
       min(last_error_message) AS message, count(*) AS events, count(*) FILTER (WHERE status = 'pending') AS parked,
       min(created_at) AS since
  FROM (SELECT * FROM sync_outbox WHERE status = 'pending' AND parked
        UNION ALL SELECT * FROM sync_outbox WHERE status IN ('claimed', 'sending')) AS waiting
 WHERE last_error_code = ANY ($1) AND ($4::text IS NULL OR tenant_id = $4) GROUP BY 1, 2, 3, 4 LIMIT $3
"""
# The oldest of each. Should somebody change the row in this moment, another one asks next time.
_WAKE: Final = """
UPDATE sync_outbox SET parked = false, next_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE status = 'pending' AND parked AND id = ANY (ARRAY(
  SELECT DISTINCT ON (tenant_id, last_error_code, device_id, session) id FROM (
    SELECT id, tenant_id, last_error_code, device_id, occurred_at,
           CASE WHEN last_error_code = $2 THEN session_id END AS session
      FROM sync_outbox WHERE status = 'pending' AND parked AND last_error_code IN ($1, $2)) AS held
  ORDER BY tenant_id, last_error_code, device_id, session, occurred_at LIMIT $3))
"""
_RELEASE: Final = """
UPDATE sync_outbox SET parked = false, next_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE tenant_id = $1 AND id = ANY (ARRAY(
  SELECT id FROM sync_outbox
  WHERE status = 'pending' AND parked AND tenant_id = $1 AND last_error_code = $2
    AND (updated_at < $6 OR updated_at > clock_timestamp())
    AND ($3::text IS NULL OR device_id = $3) AND ($4::uuid IS NULL OR session_id = $4)
  ORDER BY next_attempt_at LIMIT $5 FOR UPDATE SKIP LOCKED))
"""


class Subject(Struct, frozen=True):
    """A device or a weigh session of which the cloud takes nothing from this edge for the time being."""

    tenant_id: str
    code: str
    name: str | UUID


class HeldRows(Struct, frozen=True, kw_only=True):
    """What of one device waits for a person. `session_id` only where it is the session that is held."""

    tenant_id: str
    code: str
    device_id: str | None
    session_id: UUID | None
    message: str | None
    events: int
    parked: int
    since: datetime

    @property
    def subject(self) -> Subject | None:
        return subject_of(self.code, self.tenant_id, self.device_id, self.session_id)


def subject_of(code: str, tenant_id: str, device_id: str | None, session_id: UUID | None) -> Subject | None:
    """None where each event is held for itself."""
    name = {DEVICE_OF_ANOTHER_EDGE: device_id, SESSION_OF_ANOTHER_EDGE: session_id}.get(code)
    return None if name is None else Subject(tenant_id, code, name)


async def held_subjects(connection: Connection, tenant_id: str | None = None) -> list[HeldRows]:
    """Of all tenants, or of one."""
    rows = await connection.fetch(_SUBJECTS, list(HELD_CODES), SESSION_OF_ANOTHER_EDGE, SUBJECTS_MAX, tenant_id)
    return [HeldRows(**dict(row.items())) for row in rows]


async def wake_one_of_each(connection: Connection) -> int:
    """One row of each subject may be claimed again, to ask whether the cloud still holds it."""
    tag = await connection.execute(_WAKE, DEVICE_OF_ANOTHER_EDGE, SESSION_OF_ANOTHER_EDGE, SUBJECTS_MAX)
    return int(tag.rpartition(" ")[2])


async def release(connection: Connection, subject: Subject) -> int:
    """What was held of this subject until now may be claimed again. In pages that hold no lock for long. Returns how many."""
    device_id = subject.name if subject.code == DEVICE_OF_ANOTHER_EDGE else None
    session_id = subject.name if subject.code == SESSION_OF_ANOTHER_EDGE else None
    now = await connection.fetchval("SELECT clock_timestamp()")
    given = (subject.tenant_id, subject.code, device_id, session_id, PAGE_ROWS, now)
    total = 0
    while page := int((await connection.execute(_RELEASE, *given)).rpartition(" ")[2]):
        total += page
    return total
