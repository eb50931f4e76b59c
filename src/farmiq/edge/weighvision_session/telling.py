"""The outbox events of a session.

What a station said goes on under its own event id, once. How the session ended is told when it is settled, with everything that
is known by then; should that change later, it is told again with the next revision. A database that was restored may have told of
the end before, and knew more or less then: its revisions are above all earlier ones, and their ids follow from what they say.
"""

from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

import msgspec

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.contracts.weighvision import (
    ImageCaptured,
    SessionCancelled,
    SessionCreated,
    SessionFinalized,
    StationSessionCreated,
    WeightRecorded,
)
from farmiq.edge.weighvision_session.ending import REPLACED, Ending, Told, digest_of, ending_of
from farmiq.edge.weighvision_session.events import SessionEvent
from farmiq.edge.weighvision_session.session import Closing, Session
from farmiq.kit.ids import Naming, time_of
from farmiq.timeseries.stream import Origin

# Few, small, and what people wait for: ahead of samples, behind declared losses.
PRIORITY: Final = 15

# Frozen: the ids of everything that 0.1.0 told by itself are derived from these.
ENDINGS: Final = UUID("0c2b4a53-94f2-5c0e-8d0c-6a3f3f8f5d1e")
BINDINGS: Final = UUID("a2b7f7f0-31f5-5f53-9a86-0b6a6d2f7c44")


class Subject(msgspec.Struct, frozen=True):
    """Which session an event is about."""

    session_id: UUID
    origin: Origin
    trace_id: str | None


def forwarded(event: SessionEvent, session: Session, trace_id: str) -> outbox.Event | None:
    """What the station said, as the bus knows it. None for the end of a session, which is told as `ending`."""
    subject = Subject(event.session_id, event.origin, trace_id)
    match event.said:
        case StationSessionCreated(batch_id=batch_id):
            created = SessionCreated(status="created", batch_id=batch_id, initial_weight_kg=session.initial_weight_kg)
            return _event(subject, event.event_id, event_types.SESSION_CREATED, event.at, created)
        case WeightRecorded() as weight:
            return _event(subject, event.event_id, event_types.WEIGHT_RECORDED, event.at, weight)
        case ImageCaptured() as image:
            return _event(subject, event.event_id, event_types.IMAGE_CAPTURED, event.at, image)
    return None


def ending(
    subject: Subject, session: Session, told: Told | None, names: Naming, revision_floor: int = 0
) -> tuple[outbox.Event, Told] | None:
    """The end of the session, and what the cloud has then been told. None while there is no end. `revision_floor`: 0 in a
    database that was never restored."""
    revision = max(revision_floor, 1 if told is None else told.revision + 1)
    payload, digest, ended = ending_of(session, revision), digest_of(session), session.ended
    if payload is None or digest is None or ended is None:
        return None
    is_first = not revision_floor and (told is None or told.event_id != ended.event_id)
    parts = (subject.session_id, revision, digest)
    event_id = (
        ended.event_id
        if is_first
        else names.name(
            ended.at,
            lambda: uuid5(ENDINGS, f"{subject.session_id}/{revision}/{digest}"),
            "ending",
            subject.origin.tenant_id,
            *parts,
        )
    )
    return _event(subject, event_id, _type_of(payload), ended.at, payload), Told(ended.event_id, digest, revision)


def replaced(subject: Subject, word: Closing) -> outbox.Event:
    """A word of the station about the end that another one has replaced before the cloud was told: told as such."""
    payload: Ending
    if word.status == "cancelled":
        payload = SessionCancelled(status="cancelled", reason=word.reason, revision=REPLACED)
    else:
        payload = SessionFinalized(
            status="finalized",
            image_count=word.image_count or 0,
            final_weight_kg=word.final_weight_kg,
            revision=REPLACED,
        )
    return _event(subject, word.event_id, _type_of(payload), word.at, payload)


def attached(subject: Subject, media_id: UUID, at: datetime, names: Naming) -> outbox.Event:
    """An operator bound a picture: to the cloud as if the station had announced it."""
    session_id = subject.session_id
    event_id = names.name(
        time_of(media_id),
        lambda: uuid5(BINDINGS, f"{session_id}/{media_id}"),
        "binding",
        subject.origin.tenant_id,
        session_id,
        media_id,
    )
    return _event(subject, event_id, event_types.IMAGE_CAPTURED, at, ImageCaptured(media_id=media_id))


def _type_of(payload: Ending) -> str:
    if isinstance(payload, SessionCancelled):
        return event_types.SESSION_CANCELLED
    return event_types.SESSION_FINALIZED


def _event(
    subject: Subject, event_id: UUID, event_type: str, occurred_at: datetime, payload: msgspec.Struct
) -> outbox.Event:
    origin = subject.origin
    return outbox.Event(
        id=event_id,
        tenant_id=origin.tenant_id,
        farm_id=origin.farm_id,
        barn_id=origin.barn_id,
        device_id=origin.device_id,
        session_id=subject.session_id,
        event_type=event_type,
        occurred_at=occurred_at,
        trace_id=subject.trace_id,
        payload=payload,
        priority=PRIORITY,
    )
