"""One session in a list, whichever tier told of it. Pure."""

from collections.abc import Collection
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.console.weighings.answers import CloudSession, EdgeSession
from farmiq.console.weighings.whereabouts import Kind

CSV_COLUMNS: Final = (
    "session_id", "begun_at", "end_at", "device_id", "barn_id", "batch_id", "status", "state", "final_weight_kg",
    "pictures_expected", "pictures_here", "is_in_cloud",
)  # fmt: skip


class Card(Struct, frozen=True, kw_only=True):
    """`pictures_here`: stored at the edge, or announced in the cloud, whichever told of it. `is_in_cloud` is None when nobody
    knows."""

    id: UUID
    begun_at: datetime
    end_at: datetime | None
    device_id: str
    barn_id: str
    batch_id: str | None
    status: str
    kind: Kind
    state: str
    final_weight_kg: float | None
    pictures_expected: int | None
    pictures_here: int
    is_in_cloud: bool | None

    @property
    def pictures(self) -> str:
        expected = "" if self.pictures_expected is None else f" of {self.pictures_expected}"
        return f"{self.pictures_here}{expected} pictures"

    def row(self) -> tuple[object, ...]:
        return (
            self.id, self.begun_at, self.end_at, self.device_id, self.barn_id, self.batch_id, self.status, self.state,
            self.final_weight_kg, self.pictures_expected, self.pictures_here, self.is_in_cloud,
        )  # fmt: skip


def card_of_edge(session: EdgeSession, in_cloud: Collection[UUID] | None) -> Card:
    kind, state = _edge_state(session)
    return Card(
        id=session.id,
        begun_at=session.start_at or session.first_heard_at,
        end_at=session.end_at,
        device_id=session.device_id,
        barn_id=session.barn_id,
        batch_id=session.batch_id,
        status=session.status,
        kind=kind,
        state=state,
        final_weight_kg=session.final_weight_kg,
        pictures_expected=session.pictures.expected,
        pictures_here=session.pictures.stored,
        is_in_cloud=None if in_cloud is None else session.id in in_cloud,
    )


def card_of_cloud(session: CloudSession) -> Card:
    kind, state = _cloud_state(session)
    return Card(
        id=session.id,
        begun_at=session.start_at or session.first_event_at,
        end_at=session.end_at,
        device_id=session.device_id or "",
        barn_id=session.barn_id or "",
        batch_id=session.batch_id,
        status=session.status,
        kind=kind,
        state=state,
        final_weight_kg=session.final_weight_kg,
        pictures_expected=session.image_count,
        pictures_here=session.images_announced,
        is_in_cloud=True,
    )


def lacks_of(session: EdgeSession) -> list[str]:
    """In words, what a complete session still needs."""
    missing, pictures = session.missing, session.missing.pictures
    said = {
        "its beginning": missing.created,
        "a weight": missing.weight,
        "its end": missing.finalized,
        "1 picture" if pictures == 1 else f"{pictures} pictures": pictures > 0,
    }
    return [what for what, is_missing in said.items() if is_missing]


def _edge_state(session: EdgeSession) -> tuple[Kind, str]:
    lacks = ", ".join(lacks_of(session))
    if session.status == "cancelled":
        return "none", "cancelled"
    if session.incomplete_since is not None:
        return "bad", f"incomplete: {lacks} missing" if lacks else "incomplete"
    if session.is_complete:
        return "good", "complete, closed by hand" if session.is_finalized_by_hand else "complete"
    return "busy", f"waits for {lacks}" if lacks else "going on"


def _cloud_state(session: CloudSession) -> tuple[Kind, str]:
    if session.status == "cancelled":
        return "none", "cancelled"
    if session.status == "created":
        return "busy", "not ended yet"
    if session.images_announced < (session.image_count or 0):
        return "warn", "ended; pictures are missing"
    return "good", "ended"
