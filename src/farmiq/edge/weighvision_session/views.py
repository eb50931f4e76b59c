"""What a person is shown of a session: what is there, what is missing, and where the missing part is."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from farmiq.edge.media_store import intake as pictures
from farmiq.edge.media_store.intake import SessionPictures
from farmiq.edge.media_store.picture import Picture
from farmiq.edge.weighvision_session import questions
from farmiq.edge.weighvision_session.ending import digest_of
from farmiq.edge.weighvision_session.intake import PICTURES_MAX
from farmiq.edge.weighvision_session.kept import Kept
from farmiq.edge.weighvision_session.session import Missing, Status
from farmiq.kit.postgres import Connection

Whereabouts = Literal["not_announced", "not_verified", "not_uploaded", "missing", "refused", "stored", "deleted"]


class PictureCounts(msgspec.Struct, frozen=True, kw_only=True):
    """`expected` is the station's count, once it has finalized. Of what is not stored: `unheard` pictures nobody has named yet;
    for `presigned` ones a URL was signed and no word came since; `awaited` ones were announced and are not verified; `missing`
    ones were announced and never came; `refused` ones came and were not taken. `lost` ones of these two were declared."""

    expected: int | None
    stored: int
    unheard: int
    presigned: int
    awaited: int
    missing: int
    refused: int
    lost: int = 0


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """`missing` is what a valid session still needs. `incomplete_since` is set when that has been outstanding for too long.
    `is_told`: the cloud was told of the end, as it is now. `is_settled`: the service does not look at the session again unless
    something comes."""

    id: UUID
    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    station_id: str
    batch_id: str | None
    status: Status
    is_complete: bool
    is_finalized_by_hand: bool
    incomplete_since: datetime | None
    missing: Missing
    pictures: PictureCounts
    start_at: datetime | None
    end_at: datetime | None
    initial_weight_kg: float | None
    final_weight_kg: float | None
    inference_result_id: UUID | None
    first_heard_at: datetime
    last_heard_at: datetime
    told_revision: int
    is_told: bool
    is_settled: bool
    trace_id: str | None


class WeightView(msgspec.Struct, frozen=True):
    event_id: UUID
    occurred_at: datetime
    weight_kg: float
    received_at: datetime


class PictureView(msgspec.Struct, frozen=True, kw_only=True):
    """`where` it is: `not_announced` (a URL was signed, no word since), `not_verified` (announced, and looked at soon),
    `not_uploaded` (announced, and not in the object store yet), `missing` (given up), `refused`, `stored`, or `deleted` (it was
    stored, and is past its retention)."""

    media_id: UUID
    where: Whereabouts
    reason: str | None = None
    captured_at: datetime | None = None
    announced_at: datetime | None = None
    attached_at: datetime | None = None
    stored_at: datetime | None = None
    size_bytes: int | None = None


class ResultView(msgspec.Struct, frozen=True):
    id: UUID
    media_id: UUID | None
    predicted_weight_kg: float
    confidence: float
    model_version: str
    occurred_at: datetime


class OperationView(msgspec.Struct, frozen=True):
    id: UUID
    action: str
    media_id: UUID | None
    reason: str | None
    done_at: datetime


class SessionDetail(msgspec.Struct, frozen=True):
    """One session with everything that was said of it. Weights, results and operations: the newest 1,000 of each."""

    session: SessionView
    weights: list[WeightView]
    pictures: list[PictureView]
    results: list[ResultView]
    operations: list[OperationView]


def view_of(kept: Kept, tally: SessionPictures) -> SessionView:
    session, origin = kept.session, kept.origin
    created, ended, result = session.created, session.ended, session.result
    return SessionView(
        id=kept.id,
        tenant_id=origin.tenant_id,
        farm_id=origin.farm_id,
        barn_id=origin.barn_id,
        device_id=origin.device_id,
        station_id=origin.device_id,
        batch_id=None if created is None else created.batch_id,
        status=session.status,
        is_complete=session.is_complete,
        is_finalized_by_hand=session.ruling is not None,
        incomplete_since=kept.incomplete_since,
        missing=session.missing,
        pictures=_counts(kept, tally),
        start_at=None if created is None else created.at,
        end_at=None if ended is None else ended.at,
        initial_weight_kg=session.initial_weight_kg,
        final_weight_kg=session.final_weight_kg,
        inference_result_id=None if result is None else result.id,
        first_heard_at=kept.heard.first_at,
        last_heard_at=kept.heard.last_at,
        told_revision=0 if kept.told is None else kept.told.revision,
        is_told=kept.told is not None and kept.told.digest == digest_of(session),
        is_settled=kept.look_at is None,
        trace_id=kept.trace_id,
    )


async def detail_of(connection: Connection, kept: Kept, tally: SessionPictures) -> SessionDetail:
    known = await pictures.listed(connection, kept.origin.tenant_id, kept.id, PICTURES_MAX)
    weights = await questions.weights(connection, kept)
    results = await questions.results(connection, kept)
    operations = await questions.operations(connection, kept)
    return SessionDetail(
        view_of(kept, tally),
        [WeightView(**row) for row in weights],
        _pictures(known, [Binding(**row) for row in await questions.bindings(connection, kept)]),
        [ResultView(**row) for row in results],
        [OperationView(**row) for row in operations],
    )


class Binding(msgspec.Struct, frozen=True):
    """A picture's place in the session."""

    media_id: UUID
    announced_at: datetime | None
    attached_at: datetime | None
    stored_at: datetime | None


def where_is(picture: Picture) -> Whereabouts:
    match picture.shown_state:
        case "presigned":
            return "not_announced"
        case "awaited":
            # Whoever looks counts it first: one that was looked for and is still awaited was not there.
            return "not_verified" if picture.checks == 0 else "not_uploaded"
        case state:
            return state


def _pictures(known: list[Picture], bindings: list[Binding]) -> list[PictureView]:
    bound = {binding.media_id: binding for binding in bindings}
    shown = [_picture(picture, bound.pop(picture.media_id, None)) for picture in known]
    gone = [
        PictureView(
            media_id=binding.media_id,
            where="not_announced" if binding.stored_at is None else "deleted",
            announced_at=binding.announced_at,
            attached_at=binding.attached_at,
            stored_at=binding.stored_at,
        )
        for binding in bound.values()
    ]
    return shown + gone


def _picture(picture: Picture, binding: Binding | None) -> PictureView:
    return PictureView(
        media_id=picture.media_id,
        where=where_is(picture),
        reason=picture.refused_reason,
        captured_at=picture.captured_at,
        announced_at=picture.announced_at,
        attached_at=None if binding is None else binding.attached_at,
        stored_at=picture.stored_at,
        size_bytes=picture.size_bytes,
    )


def _counts(kept: Kept, tally: SessionPictures) -> PictureCounts:
    expected, stored = kept.session.image_count, kept.session.pictures_stored
    heard_of = stored + tally.presigned + tally.awaited + tally.missing + tally.refused
    return PictureCounts(
        expected=expected,
        stored=stored,
        unheard=max(0, (expected or 0) - heard_of),
        presigned=tally.presigned,
        awaited=tally.awaited,
        missing=tally.missing,
        refused=tally.refused,
        lost=tally.lost,
    )
