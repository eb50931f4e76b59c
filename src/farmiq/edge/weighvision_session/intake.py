"""What other services of the edge may call: inside their transaction, never by SQL of their own.

Whoever also holds rows of pictures takes those first: `edge-media-store` stores a picture and then asks for its session.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import Final
from uuid import UUID

from farmiq import outbox
from farmiq.contracts.weighvision import ImageCaptured, WeightRecorded
from farmiq.edge.weighvision_session import store
from farmiq.edge.weighvision_session.events import InferenceResult, SessionEvent, StoredPicture
from farmiq.edge.weighvision_session.kept import Kept
from farmiq.edge.weighvision_session.outgoing import append_ending
from farmiq.edge.weighvision_session.session import Closing, Picture, Session, seen
from farmiq.edge.weighvision_session.telling import forwarded, replaced
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection

OTHER_DEVICE: Final = "session_of_another_device"
SESSION_FULL: Final = "session_full"
PICTURES_MAX: Final = 5000
"""Of one session. A station that never begins a new one would otherwise make every event dearer than the one before."""

log = get_logger(__name__)

Traced = tuple[SessionEvent, str]
"""A station's event with its trace id."""

StoredAt = Mapping[UUID, datetime]


async def take(
    connection: Connection, events: Sequence[Traced], received_at: datetime, stored: StoredAt | None = None
) -> list[str | None]:
    """Add what stations said to their sessions, and pass it on to the cloud. Answers in the same order: None, or why not.

    `stored` says of announced pictures that are whole already since when they are. Doing it again changes nothing.
    """
    if not events:
        return []
    owners = await store.open_sessions(
        connection, {_key(event): (event.origin, trace_id) for event, trace_id in reversed(events)}, received_at
    )
    kept = {one.key: one for one in await store.read(connection, list(owners))}
    answers = [_refusal(event, kept[_key(event)]) for event, _ in events]
    taken = [traced for traced, refusal in zip(events, answers, strict=True) if refusal is None]
    weighed = [(event, event.said) for event, _ in taken if isinstance(event.said, WeightRecorded)]
    heard_of = await store.add_weights(connection, weighed, received_at)
    told: list[outbox.Event] = []
    for key, own in _by_session(taken).items():
        before = kept[key]
        after = _joined(before.session, own, stored or {})
        if after != before.session or key in heard_of:
            await _save(connection, before, after, received_at)
        told += [event for word, trace in own if (event := forwarded(word, after, trace)) is not None]
        for closing in _replaced(before, after, own):
            await append_ending(connection, replaced(before.subject, closing))
    await outbox.append(connection, told)
    return answers


async def picture_stored(connection: Connection, picture: StoredPicture) -> None:
    """A picture is whole. Its session, if it has one or ever gets one, knows from this commit on."""
    origin, media_id = picture.origin, picture.media_id
    naming = set(await store.naming(connection, origin.tenant_id, media_id))
    if picture.session_id is not None:
        key = (origin.tenant_id, picture.session_id)
        owners = await store.open_sessions(connection, {key: (origin, picture.trace_id)}, picture.stored_at)
        if owners[key].is_same_device(origin):
            naming.add(key)
        else:
            log.warning(
                "picture_binding_refused", session_id=picture.session_id, media_id=media_id, device_id=origin.device_id
            )
    await store.lock(connection, sorted(naming))
    for key in sorted(naming):
        if await store.is_full(connection, key, media_id, PICTURES_MAX):
            log.warning("picture_binding_refused", session_id=key[1], media_id=media_id, code=SESSION_FULL)
            continue
        await store.add_picture(connection, key, media_id, Picture(stored_at=picture.stored_at))
    await store.touch(connection, sorted(naming), picture.stored_at)


async def picture_lost(connection: Connection, tenant_id: str, media_id: UUID, at: datetime) -> None:
    """A picture that was whole is gone, or is another one now. The only fact that is ever taken back: its sessions miss it
    until it is stored again."""
    naming = await store.naming(connection, tenant_id, media_id)
    await store.lock(connection, naming)
    await store.lose_picture(connection, naming, media_id)
    await store.touch(connection, naming, at)


async def inference_completed(connection: Connection, result: InferenceResult, at: datetime) -> None:
    """A model has spoken. A picture that is in no session yet takes its results along when it is bound."""
    if await store.add_result(connection, result):
        naming = await store.naming(connection, result.origin.tenant_id, result.media_id, result.session_id)
        await store.touch(connection, naming, at)


async def unfinished(connection: Connection, keys: Sequence[store.Key]) -> set[store.Key]:
    """Which of these sessions are not over: whoever deletes old pictures keeps theirs. One never heard of is not over either."""
    return await store.unfinished(connection, keys)


async def refusals(connection: Connection, events: Sequence[SessionEvent]) -> list[str | None]:
    """Those that `take` is going to refuse, as far as can be said without a lock: before anything else is done for them."""
    owners = await store.owners(connection, [_key(event) for event in events])
    return [
        None if (owner := owners.get(_key(event))) is None or owner.is_same_device(event.origin) else OTHER_DEVICE
        for event in events
    ]


def _refusal(event: SessionEvent, kept: Kept) -> str | None:
    if not kept.origin.is_same_device(event.origin):
        return OTHER_DEVICE
    is_new_picture = isinstance(event.said, ImageCaptured) and event.said.media_id not in kept.session.pictures
    return SESSION_FULL if is_new_picture and len(kept.session.pictures) >= PICTURES_MAX else None


def _key(event: SessionEvent) -> store.Key:
    return event.origin.tenant_id, event.session_id


def _by_session(events: Sequence[Traced]) -> dict[store.Key, list[Traced]]:
    sessions: dict[store.Key, list[Traced]] = {}
    for event, trace_id in events:
        sessions.setdefault(_key(event), []).append((event, trace_id))
    return sessions


def _joined(session: Session, events: Sequence[Traced], stored: StoredAt) -> Session:
    said = reduce(Session.join, (seen(event) for event, _ in events), session)
    known = {media_id: Picture(stored_at=stored[media_id]) for media_id in said.pictures if media_id in stored}
    return said.join(Session(pictures=known))


async def _save(connection: Connection, before: Kept, after: Session, at: datetime) -> None:
    for media_id, picture in after.pictures.items():
        if picture != before.session.pictures.get(media_id):
            await store.add_picture(connection, before.key, media_id, picture)
    await store.save(connection, before, after, at)


def _replaced(before: Kept, after: Session, events: Sequence[Traced]) -> list[Closing]:
    """The station's words about the end that its other words have replaced before the cloud was told of them."""
    closings = [before.session.closing, *(seen(event).closing for event, _ in events)]
    words = {word.event_id: word for word in closings if word is not None}
    known = {after.closing and after.closing.event_id, before.told and before.told.event_id}
    return [word for event_id, word in words.items() if event_id not in known]
