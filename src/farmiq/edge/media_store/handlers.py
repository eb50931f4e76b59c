"""What happens to a picture, step by step. Each step is one transaction; whoever dies between two leaves a row that says so."""

from datetime import datetime
from typing import Final, Literal
from uuid import UUID, uuid5

import asyncpg
from msgspec import Struct

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.contracts.media import MediaStored
from farmiq.edge.alerts import about_picture, raise_alert
from farmiq.edge.disk import RETRY_AFTER_SECONDS, State
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.media_store import losses, store
from farmiq.edge.media_store.picture import NewPicture, Picture, ShownState
from farmiq.edge.media_store.screening import DayLimit, refuse_identity, stranger
from farmiq.edge.media_store.verdicts import Again, GivenUp, Sound, Unfit, disagreement, may_come_again
from farmiq.edge.own_events import append_own, naming
from farmiq.edge.sync_forwarder.intake import PictureToSend, follow_picture
from farmiq.edge.vision_inference import intake as vision_inference
from farmiq.edge.weighvision_session import intake as sessions
from farmiq.edge.weighvision_session.events import StoredPicture
from farmiq.kit.errors import Rejected
from farmiq.kit.http_server import ApiError
from farmiq.kit.ids import Naming, time_of
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.s3 import ObjectStore
from farmiq.timeseries.asking import asking
from farmiq.timeseries.stream import Origin

# As live samples: a picture's event is small, and the bytes that follow it take their own way.
PRIORITY: Final = 10
RETRY_AFTER_SECONDS_MAX: Final = 600
"""A person may have raised the limit meanwhile."""
REFUSED_ALERT: Final = "media-refused"
MISSING_ALERT: Final = "media-missing"
"""One of each for a tenant. `cleanup` closes them."""

Outcome = ShownState | Literal["forgotten"]


class NameTaken(Rejected):
    """A picture of this name is there, or was refused: the new one needs another."""

    code = "media_id_taken"


class Settled(Struct, frozen=True):
    """What is true of the picture now. `is_ours`: this transaction made it so, and not one before it."""

    outcome: Outcome
    is_ours: bool = False
    unfit: Unfit | None = None
    size_bytes: int = 0


async def admit(
    connection: Connection,
    new: NewPicture,
    token: str,
    *,
    presigns_per_minute: int,
    first_check_seconds: float,
    day_limit: DayLimit,
    objects: ObjectStore,
    disk: State = "free",
) -> None:
    """The row is committed before the URL is handed out: no upload is ever a stranger here. `NameTaken`: nothing was changed.

    A picture that is missing or damaged may be sent again by its name, while it is not declared lost.

    The picture is its device's only if the token is, which the same statement finds out. Why it did nothing is asked afterwards.
    """
    if disk == "full" or (disk == "low" and await store.has_more_than_its_part(connection, new.origin)):
        raise no_room()
    try:
        is_admitted = await store.add_in_turn(
            connection,
            new,
            devices.hash_of(token),
            per_minute=presigns_per_minute,
            first_check_seconds=first_check_seconds,
            day_limit=day_limit,
        )
    except asyncpg.UniqueViolationError as error:
        # Nothing is inserted for a wrong token, so whoever gets here holds the right one.
        if await losses.reopen(connection, objects, new):
            return
        raise NameTaken(f"there is a picture {new.media_id} already") from error
    if not is_admitted:
        refuse_identity(await holder_of(connection, token), new.origin)
        await refuse_bytes(connection, new.origin, new.size_bytes or 0, day_limit)
        wait_seconds = await store.turn_in_seconds(connection, new.origin.device_id, presigns_per_minute)
        raise ApiError(
            429,
            "too_fast",
            f"This device may ask for {presigns_per_minute} upload URLs a minute",
            retry_after_seconds=int(wait_seconds + 0.999),
        )


async def refuse_bytes(connection: Connection, origin: Origin, size_bytes: int, day_limit: DayLimit) -> None:
    used = await store.bytes_of_day(connection, origin)
    if not day_limit.has_room(used, size_bytes):
        raise ApiError(
            429,
            "too_many_bytes",
            "The pictures of this device or its tenant have reached their bytes of this day: it starts anew at midnight UTC",
            retry_after_seconds=min(RETRY_AFTER_SECONDS_MAX, used.seconds_left),
        )


def no_room() -> ApiError:
    return ApiError(
        507, "disk_full", "The edge's disk is nearly full: keep the picture", retry_after_seconds=RETRY_AFTER_SECONDS
    )


async def holder_of(connection: Connection, token: str) -> Origin:
    """The device that holds this token, and where it stands."""
    device = await devices.holder_of(connection, token)
    if device is None:
        raise stranger()
    return device.origin


async def refuse_foreign_station(connection: Connection, origin: Origin, station_id: str) -> None:
    """A picture is filed under its device's own station. Who the device is, the token says later, in `admit`."""
    if await devices.station_of(connection, origin) not in (None, station_id):
        raise ApiError(403, "station_forbidden", f"{station_id[:64]} is not the station of device {origin.device_id}")


async def settle(pool: Pool, picture: Picture, finding: Sound | Unfit | GivenUp | Again, at: datetime) -> Settled:
    """Write down what was found. Somebody may have been faster: then theirs holds, and nothing happens twice."""
    async with asking(pool) as connection, connection.transaction():
        now = await store.lock(connection, picture.media_id)
        if now is None:
            return Settled("forgotten")
        if now.state != "presigned":
            return Settled(now.state)
        match finding:
            case Sound():
                return await _store(connection, now, finding, at)
            case Unfit():
                return await _refuse(connection, now, finding)
            case GivenUp():
                return await _give_up(connection, now)
            case Again(seconds):
                await store.check_again(connection, picture, seconds)
        return Settled(now.shown_state)


async def _store(connection: Connection, picture: Picture, sound: Sound, at: datetime) -> Settled:
    if (unfit := disagreement(picture, sound)) is not None:
        return await _refuse(connection, picture, unfit)
    stored = await store.mark_stored(connection, picture.media_id, sound, at)
    await append_own(connection, [media_stored(stored, at, await naming(connection))])
    await follow_picture(connection, _to_send(stored, sound))
    await sessions.picture_stored(
        connection, StoredPicture(stored.origin, stored.media_id, stored.session_id, at, stored.trace_id)
    )
    await vision_inference.look_at(connection, stored)
    return Settled("stored", is_ours=True, size_bytes=sound.size_bytes)


async def _refuse(connection: Connection, picture: Picture, unfit: Unfit) -> Settled:
    await losses.mark_refused(connection, picture.media_id, unfit, may_come_again=may_come_again(picture, unfit))
    subject = f"A picture of {picture.device_id} was refused: {unfit.code}"
    evidence = about_picture(
        picture.media_id, picture.device_id, picture.session_id, object_key=picture.object_key, detail=unfit.detail
    )
    await raise_alert(connection, "picture_refused", subject, REFUSED_ALERT, evidence, picture.tenant_id)
    return Settled("refused", is_ours=True, unfit=unfit)


async def _give_up(connection: Connection, picture: Picture) -> Settled:
    """One that nobody ever spoke of was not taken, or not to its end: there is nothing to remember."""
    if picture.announced_at is None:
        await store.forget(connection, picture.media_id)
        return Settled("forgotten", is_ours=True)
    await losses.mark_missing(connection, picture.media_id)
    subject = f"A picture that {picture.device_id} announced is not in the object store"
    evidence = about_picture(picture.media_id, picture.device_id, picture.session_id, object_key=picture.object_key)
    await raise_alert(connection, "picture_missing", subject, MISSING_ALERT, evidence, picture.tenant_id)
    return Settled("missing", is_ours=True)


def event_id_of(picture: Picture, names: Naming) -> UUID:
    """Derived, so that a picture which is verified once more after a restored backup is the same event to the cloud.
    The time is the one in the picture's id: of a picture that is found in the object store alone, only the day is known."""
    media_id = picture.media_id
    return names.name(
        time_of(media_id),
        lambda: uuid5(media_id, event_types.MEDIA_STORED),
        event_types.MEDIA_STORED,
        picture.tenant_id,
        media_id,
    )


def media_stored(picture: Picture, at: datetime, names: Naming) -> outbox.Event:
    assert picture.size_bytes is not None  # noqa: S101 - a stored picture was measured
    payload = MediaStored(
        media_id=picture.media_id,
        mime_type=picture.mime_type,
        size_bytes=picture.sent_size_bytes or picture.size_bytes,
        bucket=picture.bucket,
        object_key=picture.object_key,
        sha256=picture.sent_sha256 or picture.sha256,
        captured_at=picture.captured_at,
    )
    return outbox.Event(
        id=event_id_of(picture, names),
        tenant_id=picture.tenant_id,
        farm_id=picture.farm_id,
        barn_id=picture.barn_id,
        device_id=picture.device_id,
        session_id=picture.session_id,
        event_type=event_types.MEDIA_STORED,
        occurred_at=at,
        trace_id=picture.trace_id,
        payload=payload,
        priority=PRIORITY,
    )


def _to_send(picture: Picture, sound: Sound) -> PictureToSend:
    return PictureToSend(
        tenant_id=picture.tenant_id,
        farm_id=picture.farm_id,
        barn_id=picture.barn_id,
        device_id=picture.device_id,
        session_id=picture.session_id,
        media_id=picture.media_id,
        bucket=picture.bucket,
        object_key=picture.object_key,
        mime_type=picture.mime_type,
        size_bytes=sound.sent_size_bytes or sound.size_bytes,
        sha256=sound.sent_sha256 or sound.sha256,
        stored_size_bytes=None if sound.sent_sha256 is None else sound.size_bytes,
        captured_at=picture.captured_at,
        trace_id=picture.trace_id,
    )
