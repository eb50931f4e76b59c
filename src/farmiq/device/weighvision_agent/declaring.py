"""Giving something up, in the transaction that gives it up: what goes is counted and becomes part of a loss that will be told."""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import msgspec

from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import MqttEnvelope
from farmiq.contracts.station import STATION_LOSS, LossReason, StationLoss
from farmiq.contracts.timestamps import from_us
from farmiq.device.weighvision_agent import event_store, picture_store
from farmiq.device.weighvision_agent.database import PICTURES
from farmiq.device.weighvision_agent.event_store import Queued
from farmiq.device.weighvision_agent.losses import Lost, loss_of
from farmiq.device.weighvision_agent.messages import Messages
from farmiq.device.weighvision_agent.picture_store import Picture
from farmiq.kit.ids import new_id
from farmiq.kit.logging import get_logger

DROPPED = "dropped"
"""The fact that counts everything that was ever given up here."""

log = get_logger(__name__)


def give_up_events(
    connection: sqlite3.Connection,
    messages: Messages,
    queued: Sequence[Queued],
    reason: LossReason,
    at: datetime,
    settled_us: int,
) -> None:
    event_store.delete(connection, [one.number for one in queued])
    for one in queued:
        unannounced(connection, one, settled_us)
    declare(connection, messages, reason, [lost_event(one) for one in queued], at)
    for one in queued:
        fail_session(connection, one.session_id, f"{one.event_type} was given up: {reason}")


def unannounced(connection: sqlite3.Connection, event: Queued, settled_us: int) -> None:
    """Nobody will announce its picture any more. Its bytes are at the edge, which finds them by itself."""
    if event.picture_id is not None:
        picture_store.settle(connection, event.picture_id, "failed", settled_us, "its announcement was given up")


def give_up_pictures(
    connection: sqlite3.Connection, messages: Messages, pictures: Sequence[Picture], reason: LossReason, at: datetime
) -> None:
    """Their rows stay with the caller: a file may be kept for a person to look at, or have to go. What was announced to the edge
    is in its hands: it waits for the picture and declares it, and nobody counts it twice."""
    ours = [one for one in pictures if not one.is_announced]
    declare(connection, messages, reason, [Lost(from_us(one.captured_us), one.session_id) for one in ours], at)
    for one in pictures:
        fail_session(connection, one.session_id, f"a picture was given up: {reason}")


def declare_untaken(connection: sqlite3.Connection, messages: Messages, lost: Sequence[Lost], at: datetime) -> None:
    """Captured, and never on the disk. A picture counts as one of its session's, so that the edge knows that one is missing."""
    declare(connection, messages, "no_space", lost, at)
    for one in lost:
        if one.event_type is None:
            event_store.count_image(connection, one.session_id)
        fail_session(connection, one.session_id, f"{one.event_type or 'a picture'} was given up: no_space")


def fail_session(connection: sqlite3.Connection, session_id: UUID | None, reason: str) -> None:
    if event_store.fail_session(connection, session_id, reason):
        log.error("session_failed", session_id=str(session_id), reason=reason)


def declare(
    connection: sqlite3.Connection, messages: Messages, reason: LossReason, lost: Sequence[Lost], at: datetime
) -> None:
    if not lost:
        return
    for event_id, before in _gathering(connection):
        if before.reason == reason:
            event_store.gather(connection, messages.loss(loss_of(reason, lost, at, before), event_id))
            break
    else:
        event_store.gather(connection, messages.loss(loss_of(reason, lost, at)))
    event_store.set_fact(connection, DROPPED, str(dropped(connection) + len(lost)))
    log.error("loss_declared", reason=reason, count=len(lost))


def declare_damage(connection: sqlite3.Connection, messages: Messages, aside: Path, at: datetime) -> None:
    """The whole queue, whose files were set aside and tell of its time: how many events were in it, nobody knows."""
    pictures = list((aside / PICTURES).glob("*")) if (aside / PICTURES).exists() else []
    times = [path.stat().st_mtime for path in [*pictures, *aside.iterdir()]]
    since = at - timedelta(seconds=max(0.0, at.timestamp() - min(times))) if times else at
    loss = StationLoss(
        reason="damaged",
        dropped_at=at,
        count=len(pictures),
        pictures=len(pictures),
        first_ts=since,
        last_ts=at,
        is_count_exact=False,
    )
    event_store.gather(connection, messages.loss(loss))
    log.error("queue_damaged", set_aside=aside.name, pictures=len(pictures))


def tell_under_another_id(connection: sqlite3.Connection, number: int) -> None:
    """The edge knows something else under the loss's id."""
    envelope = msgspec.json.decode(event_store.body_of(connection, number), type=MqttEnvelope)
    renamed = msgspec.structs.replace(envelope, event_id=new_id())
    event_store.rename(connection, number, renamed.event_id, encode(renamed))


def dropped(connection: sqlite3.Connection) -> int:
    return int(event_store.fact(connection, DROPPED) or 0)


def lost_event(one: Queued) -> Lost:
    return Lost(from_us(one.ts_us), one.session_id, one.event_type, one.event_id)


def _gathering(connection: sqlite3.Connection) -> Iterable[tuple[UUID, StationLoss]]:
    for _, event_id, body in event_store.gathering(connection, STATION_LOSS):
        envelope = msgspec.json.decode(body, type=MqttEnvelope)
        yield event_id, msgspec.json.decode(envelope.payload, type=StationLoss)
