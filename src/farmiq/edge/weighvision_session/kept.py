"""A session as its row has it, with what follows from the rows around it."""

from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec

from farmiq.edge.weighvision_session.ending import Told
from farmiq.edge.weighvision_session.session import (
    Announced,
    Closing,
    Created,
    Picture,
    Result,
    Ruling,
    Session,
    Weight,
)
from farmiq.edge.weighvision_session.telling import Subject
from farmiq.edge.weighvision_session.watch import Heard
from farmiq.timeseries.stream import Origin


class Kept(msgspec.Struct, frozen=True):
    id: UUID
    origin: Origin
    session: Session
    heard: Heard
    told: Told | None
    incomplete_since: datetime | None
    trace_id: str | None
    look_at: datetime | None = None
    """When the service looks at it next: never, where nothing can change."""

    @property
    def key(self) -> tuple[str, UUID]:
        return self.origin.tenant_id, self.id

    @property
    def subject(self) -> Subject:
        return Subject(self.id, self.origin, self.trace_id)


def kept_of(row: asyncpg.Record, pictures: dict[UUID, Picture]) -> Kept:
    return Kept(
        row["id"],
        Origin(row["tenant_id"], row["farm_id"], row["barn_id"], row["device_id"]),
        _session(row, pictures),
        Heard(row["created_at"], row["last_heard_at"], row["ended_heard_at"]),
        _told(row),
        row["incomplete_since"],
        row["trace_id"],
        row["look_at"],
    )


def picture_of(row: asyncpg.Record) -> Picture:
    announced = None
    if row["announced_event_id"] is not None:
        announced = Announced(row["announced_at"], row["announced_event_id"])
    return Picture(announced, row["stored_at"], row["has_result"])


def _session(row: asyncpg.Record, pictures: dict[UUID, Picture]) -> Session:
    return Session(
        created=_created(row),
        first_weight=_weight(row, "first"),
        last_weight=_weight(row, "last"),
        pictures=pictures,
        closing=_closing(row),
        ruling=_ruling(row),
        result=_result(row),
    )


def _created(row: asyncpg.Record) -> Created | None:
    if row["created_event_id"] is None:
        return None
    return Created(row["start_at"], row["created_event_id"], row["batch_id"], row["given_initial_weight_kg"])


def _weight(row: asyncpg.Record, which: str) -> Weight | None:
    if row[f"{which}_event_id"] is None:
        return None
    return Weight(row[f"{which}_at"], row[f"{which}_event_id"], row[f"{which}_weight_kg"])


def _closing(row: asyncpg.Record) -> Closing | None:
    if row["ended_event_id"] is None:
        return None
    return Closing(
        row["end_at"],
        row["ended_event_id"],
        row["status"],
        row["image_count"],
        row["given_final_weight_kg"],
        row["ended_reason"],
    )


def _ruling(row: asyncpg.Record) -> Ruling | None:
    if row["ruled_id"] is None:
        return None
    return Ruling(
        row["ruled_at"],
        row["ruled_id"],
        row["ruled_reason"],
        row["ruled_image_count"],
        row["ruled_final_weight_kg"],
    )


def _result(row: asyncpg.Record) -> Result | None:
    if row["result_id"] is None:
        return None
    return Result(row["result_id"], row["model_generation"], row["confidence"], row["result_at"])


def _told(row: asyncpg.Record) -> Told | None:
    if row["told_event_id"] is None:
        return None
    return Told(row["told_event_id"], row["told_digest"], row["told_revision"])
