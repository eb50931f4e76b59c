"""A picture that was announced, and is missing or damaged here: its station may send it again, and then it is declared lost.

A station asks what became of its pictures (`POST /api/v1/media/images/states`) and uploads those that are wanted by their old
name. What nobody brings within `WANTED_HOURS` is written into the ledger, here and, as a `station.loss`, in the cloud. Bytes that
are the announced ones and no picture will never be good: they are declared at once. A declared loss is final, so a picture is
stored or lost, never both.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

from farmiq import outbox
from farmiq.contracts.decoding import encode
from farmiq.contracts.media import PictureStatus
from farmiq.contracts.station import STATION_LOSS, LossReason, StationLoss
from farmiq.edge.alerts import about_picture, raise_alert
from farmiq.edge.media_store.picture import NewPicture, Picture, picture_of
from farmiq.edge.media_store.store import COLUMNS
from farmiq.edge.media_store.verdicts import Unfit
from farmiq.edge.own_events import append_own, naming
from farmiq.edge.sync_forwarder.intake import give_up_transfers, transfers_of
from farmiq.edge.telemetry_timeseries.intake import record_station_loss
from farmiq.kit.ids import Naming, time_of
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.s3 import ObjectStore
from farmiq.timeseries.asking import asking
from farmiq.timeseries.stream import Origin

PRIORITY: Final = 10
AT_ONCE: Final = 100
LOOK_SECONDS: Final = 1.0
"""Until a picture that is sent again is first looked for. It was announced before, so nobody may announce it once more."""
WANTED_HOURS: Final = 72
"""So long a station may send a picture again that it announced and that is missing or damaged here. Then it is declared lost."""

_MARK_REFUSED: Final = """
    UPDATE media_objects
       SET state = 'refused', refused_reason = $2, refused_detail = $3, refused_at = now(), next_check_at = NULL,
           upload_token_hash = NULL, declare_at = now() + make_interval(hours => $4)
     WHERE id = $1
"""
_MARK_MISSING: Final = """
    UPDATE media_objects
       SET state = 'missing', next_check_at = NULL, upload_token_hash = NULL, declare_at = now() + make_interval(hours => $2)
     WHERE id = $1
"""
_STATES_OF: Final = """
    SELECT id, CASE WHEN state = 'stored' THEN 'stored'
                    WHEN declared_lost_at IS NOT NULL THEN 'lost'
                    WHEN state <> 'presigned' AND declare_at > now() THEN 'wanted'
                    ELSE 'awaited' END AS state
      FROM media_objects WHERE tenant_id = $1 AND device_id = $2 AND id = ANY ($3)
"""
_LOCK_WANTED: Final = f"""
    SELECT {COLUMNS} FROM media_objects
     WHERE id = $1 AND state IN ('missing', 'refused') AND declare_at > now() FOR UPDATE
"""  # noqa: S608 - our own constants
_REOPEN: Final = """
    UPDATE media_objects
       SET state = 'presigned', expires_at = $2, next_check_at = now() + make_interval(secs => $3), checks = 0, declare_at = NULL,
           refused_reason = NULL, refused_detail = NULL, refused_at = NULL, object_removed_at = NULL
     WHERE id = $1
"""
# Written by a clock that was ahead and is right now, it would wait for years.
_NOT_AHEAD: Final = """
    UPDATE media_objects SET declare_at = now() + make_interval(hours => $1)
     WHERE declare_at IS NOT NULL AND declare_at > now() + make_interval(hours => $1 + 1)
"""
# One that nobody announced, and that never was whole, was not accepted: its device has it still. One that is just being sent is
# decided when that is over.
_DUE: Final = f"""
    SELECT {COLUMNS} FROM media_objects AS m
     WHERE declare_at <= now() AND state IN ('refused', 'missing') AND (announced_at IS NOT NULL OR stored_at IS NOT NULL)
       AND NOT EXISTS (SELECT FROM media_transfers AS t
                        WHERE t.media_id = m.id AND t.tenant_id = m.tenant_id AND t.state = 'sending')
     ORDER BY declare_at LIMIT $1 FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - our own constants
_DECIDED: Final = """
    UPDATE media_objects SET declare_at = NULL, declared_lost_at = CASE WHEN $2 THEN now() END WHERE id = ANY ($1)
"""
# The cloud went back, or was not heard of for long: nobody knows yet whether it has the picture.
_DECIDE_LATER: Final = "UPDATE media_objects SET declare_at = now() + interval '1 hour' WHERE id = ANY ($1)"

log = get_logger(__name__)


async def mark_refused(connection: Connection, media_id: UUID, unfit: Unfit, *, may_come_again: bool) -> None:
    hours = WANTED_HOURS if may_come_again else 0
    await connection.execute(_MARK_REFUSED, media_id, unfit.code, unfit.detail, hours)


async def mark_missing(connection: Connection, media_id: UUID) -> None:
    await connection.execute(_MARK_MISSING, media_id, WANTED_HOURS)


async def states_of(connection: Connection, origin: Origin, media_ids: Sequence[UUID]) -> list[PictureStatus]:
    """Of this device's pictures, in the order of the question."""
    rows = await connection.fetch(_STATES_OF, origin.tenant_id, origin.device_id, list(media_ids))
    states = {row["id"]: row["state"] for row in rows}
    return [PictureStatus(media_id=media_id, state=states.get(media_id, "unknown")) for media_id in media_ids]


async def reopen(connection: Connection, objects: ObjectStore, new: NewPicture) -> bool:
    """Let a picture that is wanted be uploaded by its old name. False when this is none, or another one.

    Damaged bytes go first, because nothing is ever overwritten: killed after that, the row still says that it is refused.
    """
    async with connection.transaction():
        row = await connection.fetchrow(_LOCK_WANTED, new.media_id)
        if row is None or not _is_same(known := picture_of(row), new):
            return False
        if known.state == "refused":
            await objects.delete(known.bucket, known.object_key)
        await connection.execute(_REOPEN, known.media_id, new.expires_at, LOOK_SECONDS)
    log.info("picture_wanted_again", media_id=str(known.media_id), device_id=known.device_id, was=known.state)
    return True


def _is_same(known: Picture, new: NewPicture) -> bool:
    return (known.origin, known.bucket, known.object_key, known.mime_type, known.size_bytes, known.sha256) == (
        new.origin, new.bucket, new.object_key, new.mime_type, new.size_bytes, new.sha256,
    )  # fmt: skip


async def declare_due(pool: Pool, at: datetime) -> int:
    """Declare what no station brought in time; how many. In one transaction: ledger, outbox, and the rows that say so.

    A picture that the cloud has is not lost: the edge only has no copy of it any more.
    """
    async with asking(pool) as connection, connection.transaction():
        await connection.execute(_NOT_AHEAD, WANTED_HOURS)
        due = [picture_of(row) for row in await connection.fetch(_DUE, AT_ONCE)]
        if not due:
            return 0
        transfers = await transfers_of(connection, [picture.media_id for picture in due])
        lost = [picture for picture in due if transfers.get(picture.media_id) not in ("sent", "unsure")]
        sent = [picture for picture in due if transfers.get(picture.media_id) == "sent"]
        unsure = [picture for picture in due if transfers.get(picture.media_id) == "unsure"]
        names = await naming(connection)
        for picture in lost:
            await _declare(connection, picture, at, names)
        await give_up_transfers(connection, [picture.media_id for picture in lost])
        await connection.execute(_DECIDED, [picture.media_id for picture in sent], False)
        await connection.execute(_DECIDE_LATER, [picture.media_id for picture in unsure])
        await connection.execute(_DECIDED, [picture.media_id for picture in lost], True)
    return len(due)


async def _declare(connection: Connection, picture: Picture, at: datetime, names: Naming) -> None:
    reason: LossReason = "picture_refused" if picture.state == "refused" else "picture_missing"
    # Of the picture's own time: an edge that was restored and declares it once more says the same event, which the cloud knows.
    loss = StationLoss(
        reason=reason,
        dropped_at=picture.captured_at,
        count=1,
        first_ts=picture.captured_at,
        last_ts=picture.captured_at,
        pictures=1,
        session_ids=[] if picture.session_id is None else [picture.session_id],
        media_ids=[picture.media_id],
    )
    event = outbox.Event(
        id=_event_id_of(picture, loss, names),
        tenant_id=picture.tenant_id,
        farm_id=picture.farm_id,
        barn_id=picture.barn_id,
        device_id=picture.device_id,
        session_id=picture.session_id,
        event_type=STATION_LOSS,
        occurred_at=picture.captured_at,
        trace_id=picture.trace_id,
        payload=loss,
        priority=PRIORITY,
    )
    await append_own(connection, [event])
    await record_station_loss(connection, picture.origin, event.id, loss.dropped_at, encode(loss), at)
    subject = f"A picture of {picture.device_id} was declared lost: {picture.refused_reason or 'it never came'}"
    key = f"station-loss:{picture.device_id}:{at:%Y-%m-%d}"
    evidence = about_picture(picture.media_id, picture.device_id, picture.session_id, reason=reason)
    await raise_alert(connection, "station_loss", subject[:300], key, evidence, picture.tenant_id)
    log.error("picture_declared_lost", media_id=str(picture.media_id), device_id=picture.device_id, reason=reason)


def _event_id_of(picture: Picture, loss: StationLoss, names: Naming) -> UUID:
    """Derived from all that is said, so that one id never stands for two contents."""
    said = hashlib.sha256(encode(loss)).hexdigest()
    media_id = picture.media_id
    return names.name(time_of(media_id), lambda: uuid5(media_id, said), STATION_LOSS, picture.tenant_id, media_id, said)
