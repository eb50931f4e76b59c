"""What of a session is here, and what it still lacks. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import msgspec

from farmiq.cloud.media_store.intake import Picture
from farmiq.cloud.telemetry_service.session_queries import ImageRow, SessionRow

Lack = Literal["session_created", "session_ended", "weight", "pictures_announced", "pictures_stored"]

STORED: Final = "stored"


class PictureView(msgspec.Struct, frozen=True, kw_only=True):
    """`state`: `unknown` when the station told of it and the cloud's media store has not heard of it."""

    media_id: UUID
    state: str
    mime_type: str | None
    size_bytes: int | None
    captured_at: datetime
    is_announced: bool


class Pictures(msgspec.Struct, frozen=True):
    """`expected` is null until the session has ended: nobody knows then how many there are to be."""

    expected: int | None
    announced: int
    stored: int
    pictures: list[PictureView]


def pictures_of_session(session: SessionRow, images: Sequence[ImageRow], known: Mapping[UUID, Picture]) -> Pictures:
    announced = {image.media_id: image for image in images}
    views = [
        _view(media_id, announced.get(media_id), known.get(media_id)) for media_id in announced.keys() | known.keys()
    ]
    views.sort(key=lambda view: (view.captured_at, view.media_id))
    stored = sum(view.state == STORED for view in views)
    return Pictures(session.image_count, len(announced), stored, views)


def lacking(session: SessionRow, pictures: Pictures) -> list[Lack]:
    """Empty: complete. A session that was cancelled lacks nothing: nobody waits for its weight and pictures."""
    if session.status == "cancelled":
        return []
    has_weight = session.weights > 0 or session.final_weight_kg is not None or session.initial_weight_kg is not None
    expected = pictures.expected or 0
    lacks: dict[Lack, bool] = {
        "session_created": session.start_at is None,
        "session_ended": session.status == "created",
        "weight": not has_weight,
        "pictures_announced": pictures.announced < expected,
        "pictures_stored": pictures.stored < max(expected, pictures.announced),
    }
    return [lack for lack, is_so in lacks.items() if is_so]


def _view(media_id: UUID, image: ImageRow | None, picture: Picture | None) -> PictureView:
    if picture is not None:
        return PictureView(
            media_id=media_id,
            state=picture.state,
            mime_type=picture.mime_type,
            size_bytes=picture.size_bytes,
            captured_at=picture.captured_at,
            is_announced=image is not None,
        )
    assert image is not None  # noqa: S101 - it is known from one of the two
    return PictureView(
        media_id=media_id,
        state="unknown",
        mime_type=image.content_type,
        size_bytes=image.size_bytes,
        captured_at=image.occurred_at,
        is_announced=True,
    )
