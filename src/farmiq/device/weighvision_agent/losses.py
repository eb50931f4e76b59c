"""How a `station.loss` comes together. While nobody has been told of a loss, more of the same kind is added to it."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.station import LOSS_NAMED_MAX, LossReason, StationLoss
from farmiq.contracts.timestamps import from_us
from farmiq.device.weighvision_agent.messages import Event


class Lost(Struct, frozen=True):
    """One thing that was given up: an event if it has a type, else a picture."""

    ts: datetime
    session_id: UUID | None
    event_type: str | None = None
    event_id: UUID | None = None


def as_lost(event: Event) -> Lost:
    """For one that could not be recorded."""
    return Lost(from_us(event.ts_us), event.session_id, event.event_type, event.event_id)


def loss_of(
    reason: LossReason, lost: Sequence[Lost], dropped_at: datetime, before: StationLoss | None = None
) -> StationLoss:
    """`before` is a loss for the same reason that nobody was told of yet."""
    known = before or StationLoss(reason=reason, dropped_at=dropped_at)
    times = [one.ts for one in lost] + [ts for ts in (known.first_ts, known.last_ts) if ts is not None]
    events = Counter(known.events) + Counter(one.event_type for one in lost if one.event_type is not None)
    return StationLoss(
        reason=reason,
        dropped_at=dropped_at,
        count=known.count + len(lost),
        first_ts=min(times, default=None),
        last_ts=max(times, default=None),
        events=dict(sorted(events.items())),
        pictures=known.pictures + sum(one.event_type is None for one in lost),
        session_ids=_named(known.session_ids, [one.session_id for one in lost]),
        event_ids=_named(known.event_ids, [one.event_id for one in lost]),
        is_count_exact=known.is_count_exact,
    )


def _named(known: Sequence[UUID], more: Sequence[UUID | None]) -> list[UUID]:
    return list(dict.fromkeys([*known, *(one for one in more if one is not None)]))[:LOSS_NAMED_MAX]
