"""What the cloud does not have, for whoever wants to delete his own copy of it."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from farmiq.kit.postgres import Connection

# Each branch is one of the partial indexes, word for word: nothing is read of the rows that were acknowledged. One statement,
# because a row that is claimed or given back between two of them would be seen by neither.
_BRANCHES: Final = (
    "status = 'pending' AND NOT parked",
    "status = 'pending' AND parked",
    "status IN ('claimed', 'sending')",
    "status = 'dlq'",
    "status = 'failed'",
)
_BRANCH: Final = """
SELECT event_type, occurred_at, created_at, payload_json -> $2 AS field FROM sync_outbox
WHERE {} AND event_type = ANY ($1)
"""
UNSENT: Final = "UNION ALL".join(_BRANCH.format(branch) for branch in _BRANCHES) + "LIMIT $3"


class UnsentEvent(msgspec.Struct, frozen=True):
    """`field` is the one field of the payload that was asked for, None where it has none."""

    event_type: str
    occurred_at: datetime | None
    created_at: datetime
    field: msgspec.Raw | None


async def unsent(
    connection: Connection, event_types: Sequence[str], *, field: str, limit: int
) -> AsyncGenerator[UnsentEvent, None]:
    """Events of these types that are waiting, on their way, or given up: a dead letter is not in the cloud. In no order."""
    async with connection.transaction(readonly=True):
        async for row in connection.cursor(UNSENT, list(event_types), field, limit, prefetch=200):
            yield UnsentEvent(**dict(row.items()))
