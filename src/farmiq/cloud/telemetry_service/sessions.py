"""One weigh session, put together from its events. Pure, and the same whatever order they come in and however often.

Of several `session.created` the first counts, by time and then by id. Of several that end it (`session.finalized`,
`session.cancelled`) the one of the highest revision counts, then the last. What has ended stays ended: a `created` that comes
late brings what it knows, and no status.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import msgspec

from farmiq.cloud.telemetry_service.messages import Weighing
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.weighvision import SessionCancelled, SessionCreated, SessionFinalized

Key: TypeAlias = tuple[str, UUID]
"""Tenant and session: a session id is made by a device, and means nothing without its tenant."""

Place: TypeAlias = tuple[str | None, str | None, str | None]


class Session(msgspec.Struct, kw_only=True):
    """What a row of `weight_sessions` is made of. Its status and first weight follow from what is known."""

    first_event_at: datetime
    farm_id: str | None = None
    barn_id: str | None = None
    device_id: str | None = None

    created_event_id: UUID | None = None
    start_at: datetime | None = None
    batch_id: str | None = None
    created_weight_kg: float | None = None
    trace_id: str | None = None

    ended_event_id: UUID | None = None
    ended_revision: int | None = None
    end_at: datetime | None = None
    is_cancelled: bool = False
    cancel_reason: str | None = None
    ended_weight_kg: float | None = None
    final_weight_kg: float | None = None
    image_count: int | None = None
    inference_result_id: UUID | None = None

    @property
    def status(self) -> str:
        if self.ended_event_id is None:
            return "created"
        return "cancelled" if self.is_cancelled else "finalized"

    @property
    def initial_weight_kg(self) -> float | None:
        """Whoever ends a session knows the whole of it."""
        return self.created_weight_kg if self.ended_weight_kg is None else self.ended_weight_kg

    def add(self, weighing: Weighing) -> None:
        envelope = weighing.envelope
        self.first_event_at = min(self.first_event_at, envelope.occurred_at)
        self.farm_id, self.barn_id, self.device_id = _better_place(
            (self.farm_id, self.barn_id, self.device_id), (envelope.farm_id, envelope.barn_id, envelope.device_id)
        )
        if isinstance(weighing.payload, SessionCreated):
            self._create(envelope, weighing.payload)
        elif isinstance(weighing.payload, SessionFinalized | SessionCancelled):
            self._end(envelope, weighing.payload)

    def _create(self, envelope: BusEnvelope, payload: SessionCreated) -> None:
        if self.start_at and self.created_event_id and (self.start_at, self.created_event_id) <= _when(envelope):
            return
        self.created_event_id, self.start_at = envelope.event_id, envelope.occurred_at
        self.batch_id, self.created_weight_kg = payload.batch_id, payload.initial_weight_kg
        self.trace_id = envelope.trace_id

    def _end(self, envelope: BusEnvelope, payload: SessionFinalized | SessionCancelled) -> None:
        if self.end_at and self.ended_event_id and self.ended_revision is not None:
            known = (self.ended_revision, (self.end_at, self.ended_event_id))
            if known >= (payload.revision, _when(envelope)):
                return
        self.ended_event_id, self.ended_revision, self.end_at = (
            envelope.event_id,
            payload.revision,
            envelope.occurred_at,
        )
        if isinstance(payload, SessionCancelled):
            self.is_cancelled, self.cancel_reason = True, payload.reason
            self.ended_weight_kg = self.final_weight_kg = self.image_count = self.inference_result_id = None
        else:
            self.is_cancelled, self.cancel_reason = False, None
            self.ended_weight_kg, self.final_weight_kg = payload.initial_weight_kg, payload.final_weight_kg
            self.image_count, self.inference_result_id = payload.image_count, payload.inference_result_id


def _when(envelope: BusEnvelope) -> tuple[datetime, UUID]:
    return envelope.occurred_at, envelope.event_id


def by_session(weighings: Iterable[Weighing]) -> dict[Key, list[Weighing]]:
    """In the order of the keys, which is the order in which sessions are locked."""
    found: dict[Key, list[Weighing]] = {}
    for weighing in weighings:
        if weighing.envelope.session_id is not None:
            found.setdefault((weighing.envelope.tenant_id, weighing.envelope.session_id), []).append(weighing)
    return dict(sorted(found.items()))


def _better_place(one: Place, other: Place) -> Place:
    """The one that says more. All events of a session say the same; where they do not, the choice must not depend on order."""
    return min(one, other, key=lambda place: (place.count(None), [name or "" for name in place]))
