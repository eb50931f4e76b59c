"""What the services answer about weigh sessions, as far as the pages need it."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from msgspec import Struct

Status = Literal["created", "finalized", "cancelled"]


class Missing(Struct, frozen=True):
    created: bool = False
    weight: bool = False
    finalized: bool = False
    pictures: int = 0


class PictureCounts(Struct, frozen=True):
    expected: int | None
    stored: int


class EdgeSession(Struct, frozen=True, kw_only=True):
    id: UUID
    farm_id: str
    barn_id: str
    device_id: str
    batch_id: str | None
    status: Status
    is_complete: bool
    is_finalized_by_hand: bool
    incomplete_since: datetime | None
    missing: Missing
    pictures: PictureCounts
    start_at: datetime | None
    end_at: datetime | None
    final_weight_kg: float | None
    inference_result_id: UUID | None
    first_heard_at: datetime
    last_heard_at: datetime


class EdgePage(Struct, frozen=True):
    sessions: list[EdgeSession]
    next: str | None = None


class Weight(Struct, frozen=True):
    occurred_at: datetime
    weight_kg: float


class EdgePicture(Struct, frozen=True, kw_only=True):
    media_id: UUID
    where: str
    reason: str | None = None
    captured_at: datetime | None = None
    announced_at: datetime | None = None
    stored_at: datetime | None = None
    size_bytes: int | None = None


class Result(Struct, frozen=True, kw_only=True):
    """What a model said of one picture; the edge and the cloud call its id differently."""

    media_id: UUID | None
    predicted_weight_kg: float | None
    confidence: float | None
    model_version: str
    occurred_at: datetime
    id: UUID | None = None
    inference_result_id: UUID | None = None

    @property
    def result_id(self) -> UUID | None:
        return self.id or self.inference_result_id


class Operation(Struct, frozen=True):
    action: str
    reason: str | None
    done_at: datetime


class EdgeDetail(Struct, frozen=True):
    session: EdgeSession
    weights: list[Weight]
    pictures: list[EdgePicture]
    results: list[Result]
    operations: list[Operation]


class CloudSession(Struct, frozen=True, kw_only=True):
    id: UUID
    barn_id: str | None
    device_id: str | None
    batch_id: str | None
    status: Status
    start_at: datetime | None
    end_at: datetime | None
    final_weight_kg: float | None
    cancel_reason: str | None
    image_count: int | None
    inference_result_id: UUID | None
    first_event_at: datetime
    weights: int
    images_announced: int


class CloudPage(Struct, frozen=True):
    sessions: list[CloudSession]
    next: str | None = None


class CloudPicture(Struct, frozen=True):
    media_id: UUID
    state: str
    captured_at: datetime
    size_bytes: int | None = None


class CloudPictures(Struct, frozen=True):
    pictures: list[CloudPicture]
    expected: int | None = None


class CloudView(Struct, frozen=True):
    session: CloudSession
    weights: list[Weight]
    inferences: list[Result]
    pictures: CloudPictures
    first_stored_at: datetime
    last_stored_at: datetime


class Transfer(Struct, frozen=True, kw_only=True):
    """The way of one picture from the edge to the cloud."""

    media_id: UUID
    state: Literal["pending", "sending", "sent", "failed"]
    attempt_count: int
    next_attempt_at: datetime
    last_error_code: str | None = None
    last_error_message: str | None = None
    sent_at: datetime | None = None


class Transfers(Struct, frozen=True):
    entries: list[Transfer]


class Job(Struct, frozen=True, kw_only=True):
    media_id: UUID
    state: Literal["pending", "running", "done", "failed"]
    last_error_code: str | None = None
    last_error_message: str | None = None


class Jobs(Struct, frozen=True):
    jobs: list[Job]


class JobsAccepted(Struct, frozen=True):
    job_ids: list[UUID]
    unknown: list[UUID]


class MediaItem(Struct, frozen=True):
    media_id: UUID
    state: str


class EdgeMediaPage(Struct, frozen=True):
    pictures: list[MediaItem]


class CloudMediaPage(Struct, frozen=True):
    media: list[MediaItem]


class MediaUrl(Struct, frozen=True):
    url: str
