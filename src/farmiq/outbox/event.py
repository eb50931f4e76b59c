"""What goes into the outbox, and what a forwarder gets out of it."""

from datetime import datetime
from uuid import UUID

from msgspec import Raw, Struct


class Event(Struct, frozen=True, kw_only=True):
    """One event to be sent. `id` is the event's id everywhere: the cloud dedupes by `(tenant_id, id)`."""

    id: UUID
    tenant_id: str
    event_type: str
    occurred_at: datetime | None
    payload: Raw | Struct
    farm_id: str | None = None
    barn_id: str | None = None
    device_id: str | None = None
    session_id: UUID | None = None
    trace_id: str | None = None
    priority: int = 0


# What a forwarder has in hand by the thousand can form no cycle: the collector need not look at it (`gc=False`).
class Lease(Struct, frozen=True, gc=False):
    """The right to settle one event: good for as long as the row still carries this token."""

    id: UUID
    claim_token: int
    attempt_count: int
    tenant_id: str


class ClaimedEvent(Lease, frozen=True, gc=False):
    """`claim` asks for the fields in this order and fills them by their places: by name costs as much as reading the row."""

    farm_id: str | None
    barn_id: str | None
    device_id: str | None
    session_id: UUID | None
    event_type: str
    occurred_at: datetime
    """When it was created, where nobody knows when it occurred."""
    is_time_known: bool
    trace_id: str | None
    priority: int
    is_suspect: bool
    """Its last forwarder ended while it had this in its hands, alone or among others."""
    payload: Raw
