"""What weigh stations have given up, kept for good like the losses of streams: a station has no sequence, so a loss counts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from farmiq.contracts.timestamps import Timestamp
from farmiq.kit.postgres import Connection
from farmiq.timeseries.paging import BeforeLoss

UNREADABLE: Final = "not_readable"
REASON_CHARS_MAX: Final = 120
COUNT_MAX: Final = 10**12
"""Whoever may publish events may publish one of this type: a number out of this world must not spoil the sums."""

_RECORD: Final = """
    INSERT INTO station_losses (tenant_id, event_id, farm_id, barn_id, device_id, reason, count, pictures, is_count_exact,
                                first_ts, last_ts, dropped_at, recorded_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING
"""
# Only what was asked for stands in the statement, so that PostgreSQL sees which index serves.
_PAGE: Final = """
    SELECT event_id, farm_id, barn_id, device_id, reason, count, pictures, is_count_exact, first_ts, last_ts, dropped_at,
           recorded_at, declared_by, note
      FROM station_losses
     WHERE tenant_id = $1 AND dropped_at >= $2 AND dropped_at <= $3 AND (dropped_at, event_id) < ($3, $4) {filters}
     ORDER BY dropped_at DESC, event_id DESC
     LIMIT $5
"""
_SUMS: Final = """
    SELECT date_trunc('month', dropped_at, 'UTC') AS month_at, count(*) AS records, sum(count)::bigint AS lost,
           sum(pictures)::bigint AS pictures, max(dropped_at) AS last_at
      FROM station_losses WHERE tenant_id = $1 GROUP BY month_at ORDER BY month_at
"""
_RECORDED: Final = """
    SELECT count(*) AS losses, coalesce(sum(count), 0)::bigint AS lost, coalesce(sum(pictures), 0)::bigint AS pictures,
           count(DISTINCT device_id) AS stations, max(recorded_at) AS last_at, min(device_id) AS device_id
      FROM station_losses WHERE tenant_id = $1 AND recorded_at >= $2 AND recorded_at < $3
"""


class StationLossRow(msgspec.Struct, frozen=True, kw_only=True):
    """`count` is events and pictures together, `pictures` how many of them are pictures. `is_count_exact` is false where the
    station could not tell: then there were at least so many. `recorded_at` is when this tier wrote it down.
    `declared_by` and `note` are of a person who discarded it as a dead letter: who, and why."""

    event_id: UUID
    farm_id: str | None
    barn_id: str | None
    device_id: str
    reason: str
    count: int
    pictures: int
    is_count_exact: bool
    first_ts: datetime | None
    last_ts: datetime | None
    dropped_at: datetime
    recorded_at: datetime
    declared_by: str | None = None
    note: str | None = None


class StationSum(msgspec.Struct, frozen=True):
    month_at: datetime
    records: int
    lost: int
    pictures: int


class StationSummary(msgspec.Struct, frozen=True):
    """`lost` are events and pictures together."""

    records: int
    lost: int
    pictures: int
    last_at: datetime | None
    sums: list[StationSum]


class StationsLost(msgspec.Struct, frozen=True):
    """What was recorded in a range of time. `device_id` is the station if it was one."""

    losses: int
    lost: int
    pictures: int
    stations: int
    last_at: datetime | None
    device_id: str | None


class Said(msgspec.Struct, frozen=True):
    """A `station.loss` as far as it is needed here, also from a station that has a reason of its own."""

    reason: Annotated[str, Meta(min_length=1)]
    count: Annotated[int, Meta(ge=0)] = 0
    pictures: Annotated[int, Meta(ge=0)] = 0
    first_ts: Timestamp | None = None
    last_ts: Timestamp | None = None
    is_count_exact: bool = True


class Place(msgspec.Struct, frozen=True):
    """Where a station stands, as far as its event says."""

    tenant_id: str
    farm_id: str | None
    barn_id: str | None
    device_id: str


async def record(
    connection: Connection, place: Place, event_id: UUID, at: datetime, payload: bytes, recorded_at: datetime
) -> None:
    """Once, however often it is told."""
    loss = read(payload)
    await connection.execute(
        _RECORD,
        place.tenant_id,
        event_id,
        place.farm_id,
        place.barn_id,
        place.device_id,
        loss.reason.replace("\0", " ")[:REASON_CHARS_MAX],
        min(loss.count, COUNT_MAX),
        min(loss.pictures, COUNT_MAX),
        loss.is_count_exact,
        loss.first_ts,
        loss.last_ts,
        at,
        recorded_at,
    )


def read(payload: bytes) -> Said:
    """What can't be read is a loss all the same."""
    try:
        return msgspec.json.decode(payload, type=Said)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Said(UNREADABLE, is_count_exact=False)


async def ledger(
    connection: Connection,
    *,
    tenant_id: str,
    since: datetime,
    before: BeforeLoss,
    device_id: str | None = None,
    reason: str | None = None,
    limit: int,
) -> list[StationLossRow]:
    only = {"device_id": device_id, "reason": reason}
    given = {name: value for name, value in only.items() if value is not None}
    filters = "".join(f" AND {name} = ${number}" for number, name in enumerate(given, start=6))
    rows = await connection.fetch(_PAGE.format(filters=filters), tenant_id, since, *before, limit, *given.values())
    return [StationLossRow(**row) for row in rows]


async def summary(connection: Connection, tenant_id: str) -> StationSummary:
    rows = await connection.fetch(_SUMS, tenant_id)
    sums = [StationSum(row["month_at"], row["records"], row["lost"], row["pictures"]) for row in rows]
    return StationSummary(
        sum(one.records for one in sums),
        sum(one.lost for one in sums),
        sum(one.pictures for one in sums),
        max((row["last_at"] for row in rows), default=None),
        sums,
    )


async def recorded(connection: Connection, tenant_id: str, since: datetime, until: datetime) -> StationsLost:
    row = await connection.fetchrow(_RECORDED, tenant_id, since, until)
    assert row is not None  # noqa: S101 - an aggregate always has its one row
    found = StationsLost(**row)
    return found if found.stations == 1 else msgspec.structs.replace(found, device_id=None)


def position_after(rows: Sequence[StationLossRow]) -> BeforeLoss:
    return BeforeLoss(rows[-1].dropped_at, rows[-1].event_id)
