"""What the edge says that it has of the pictures which were announced to it. An acknowledged announcement is no stored picture:
the edge looks at it later, and may find it missing or damaged. So its file is kept until the edge says that it is verified, and
sent again while the edge wants it. What the edge declares lost is declared: the station does not do it once more.

Everything here happens inside the caller's transaction, in microseconds of the station's running time.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from farmiq.contracts.envelope import MqttEnvelope
from farmiq.contracts.weighvision import ImageCaptured
from farmiq.device.weighvision_agent import event_store, picture_store
from farmiq.device.weighvision_agent.declaring import fail_session
from farmiq.device.weighvision_agent.picture_store import Picture
from farmiq.kit.logging import get_logger

SOON_US: Final = 10_000_000
AGAIN_US: Final = 3_600_000_000
"""A verified picture is asked about each hour while its file is here: one that is lost at the edge can be sent again."""

log = get_logger(__name__)


def check_soon(connection: sqlite3.Connection, picture_id: UUID, now_us: int) -> None:
    picture_store.check_in(connection, picture_id, now_us + SOON_US)


def note_states(
    connection: sqlite3.Connection, pictures: Sequence[Picture], states: Mapping[UUID, str] | None, now_us: int
) -> Iterator[Picture]:
    """Those that the edge does not have and that are to be uploaded again. Without states the edge is of a release that cannot
    say, and its acknowledgement has to do."""
    for asked in pictures:
        picture = picture_store.get(connection, asked.picture_id)
        if (
            picture is None
            or picture.media_id is None
            or (picture.state, picture.media_id) != ("acked", asked.media_id)
        ):
            continue  # it was given up, or something else was heard of it meanwhile
        match "stored" if states is None else states.get(picture.media_id):
            case "stored":
                picture_store.verified(connection, picture.picture_id, now_us, now_us + AGAIN_US)
            case "wanted" | "unknown" as state:
                yield _to_send_again(connection, picture, now_us, is_announced=state == "wanted")
            case "lost":
                reason = "the edge has declared it lost"
                log.error("picture_given_up", picture_id=str(picture.picture_id), reason=reason)
                picture_store.settle(connection, picture.picture_id, "failed", now_us, reason)
                fail_session(connection, picture.session_id, f"a picture was given up: {reason}")
            case _:
                check_soon(connection, picture.picture_id, now_us)


def _to_send_again(connection: sqlite3.Connection, picture: Picture, now_us: int, *, is_announced: bool) -> Picture:
    log.warning("picture_wanted_again", picture_id=str(picture.picture_id), is_announced=is_announced)
    if not is_announced and (known := event_store.announcement_of(connection, picture.picture_id)) is not None:
        event_store.delete(connection, [known[0]])  # its name means nothing to the edge any more
    picture_store.send_again(connection, picture.picture_id, now_us, is_announced=is_announced)
    return replace(picture, is_announced=is_announced)


def is_announced_as(connection: sqlite3.Connection, picture: Picture, media_id: UUID, now_us: int) -> bool:
    """A picture that was sent again under the name that the edge has acknowledged needs no second announcement."""
    known = event_store.announcement_of(connection, picture.picture_id) if picture.is_announced else None
    if known is None:
        return False
    number, body = known
    envelope = msgspec.json.decode(body, type=MqttEnvelope)
    if msgspec.json.decode(envelope.payload, type=ImageCaptured).media_id != media_id:
        event_store.delete(connection, [number])
        return False
    picture_store.settle(connection, picture.picture_id, "acked", now_us)
    check_soon(connection, picture.picture_id, now_us)
    return True
