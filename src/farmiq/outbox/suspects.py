"""Events whose last forwarder ended with them in its hands are sent alone, and their rows say so while they are."""

from collections.abc import Sequence
from typing import Final

from farmiq.kit.postgres import Connection
from farmiq.outbox.event import ClaimedEvent, Lease
from farmiq.outbox.fencing import STILL_OURS, fences

_SENDING: Final = f"""
UPDATE sync_outbox SET status = 'sending', updated_at = clock_timestamp() WHERE {STILL_OURS}
"""  # noqa: S608 - the condition is a constant


def travellers(events: Sequence[ClaimedEvent]) -> list[ClaimedEvent]:
    """Those of a claim that may be sent together, from its head: one suspect, or all in front of the first."""
    if events and events[0].is_suspect:
        return [events[0]]
    first = next((place for place, event in enumerate(events) if event.is_suspect), len(events))
    return list(events[:first])


async def mark_alone(connection: Connection, lease: Lease) -> bool:
    """From now on whoever rescues the row knows that it was alone. False when the row is no longer ours."""
    return await connection.execute(_SENDING, *fences([lease])) == "UPDATE 1"
