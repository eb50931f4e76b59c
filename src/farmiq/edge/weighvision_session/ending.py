"""How a session ended, as the cloud is told."""

from hashlib import blake2b
from uuid import UUID

import msgspec

from farmiq.contracts.weighvision import SessionCancelled, SessionFinalized
from farmiq.edge.weighvision_session.session import Closing, Session

Ending = SessionFinalized | SessionCancelled

REPLACED = 0
"""The revision of a word that the station has itself replaced before the cloud was told of it."""


class Told(msgspec.Struct, frozen=True):
    """What the cloud was last told of the end: in whose words, what in short, and for which time."""

    event_id: UUID
    digest: str
    revision: int


def ending_of(session: Session, revision: int = 1) -> Ending | None:
    """Everything that is known of the end. None while there is none."""
    ended = session.ended
    if ended is None:
        return None
    if session.status == "cancelled":
        return SessionCancelled(status="cancelled", reason=_reason(ended), revision=revision)
    return SessionFinalized(
        status="finalized",
        image_count=session.image_count or 0,
        final_weight_kg=session.final_weight_kg,
        inference_result_id=None if session.result is None else session.result.id,
        initial_weight_kg=session.initial_weight_kg,
        revision=revision,
    )


def digest_of(session: Session) -> str | None:
    """The same for the same end, however often it is told. None while there is none."""
    ending = ending_of(session)
    return None if ending is None else blake2b(msgspec.json.encode(ending), digest_size=16).hexdigest()


def _reason(ended: object) -> str | None:
    return ended.reason if isinstance(ended, Closing) else None
