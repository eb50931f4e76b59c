"""One picture to be looked at, as its row has it."""

from datetime import datetime
from typing import Final, Literal
from uuid import UUID, uuid5

import asyncpg
from msgspec import Struct

from farmiq.contracts import event_types
from farmiq.kit.ids import Naming, time_of
from farmiq.timeseries.stream import Origin

State = Literal["pending", "running", "done", "failed"]
Lane = Literal[0, 1]

LIVE: Final[Lane] = 0
AGAIN: Final[Lane] = 1


class Job(Struct, frozen=True, kw_only=True):
    id: UUID
    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    session_id: UUID | None
    media_id: UUID
    bucket: str
    object_key: str
    sha256: str
    trace_id: str | None
    model_version: str | None
    state: State
    lane: Lane
    attempt_count: int
    next_attempt_at: datetime
    claimed_by: str | None
    claim_token: int
    lease_expires_at: datetime | None
    last_error_code: str | None
    last_error_message: str | None
    result_id: UUID | None
    requested_at: datetime
    finished_at: datetime | None

    @property
    def origin(self) -> Origin:
        return Origin(self.tenant_id, self.farm_id, self.barn_id, self.device_id)


def job_of(row: asyncpg.Record) -> Job:
    return Job(**{name: row[name] for name in Job.__struct_fields__})


def job_id_of(media_id: UUID) -> UUID:
    return uuid5(media_id, "inference.job")


def result_id_of(media_id: UUID, model_version: str) -> UUID:
    """Derived, so that whoever repeats the work repeats no result."""
    return uuid5(media_id, model_version)


def event_id_of(result_id: UUID, tenant_id: str, media_id: UUID, names: Naming) -> UUID:
    """The time is the picture's, as its own id has it: that of the work would be another one when it is done again."""
    return names.name(
        time_of(media_id),
        lambda: uuid5(result_id, event_types.INFERENCE_COMPLETED),
        event_types.INFERENCE_COMPLETED,
        tenant_id,
        result_id,
    )
