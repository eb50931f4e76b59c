"""Rows that both tiers have alike under one id, for whoever compares tiers: digests of their days, and what each row says."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from litestar import get

from farmiq.contracts.timestamps import Timestamp
from farmiq.kit.day_digests import SMALLEST_ID, UTC_TIME, DayDigests, Digested, DigestedRow
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Limit, Tenant, To, position, time_range

_TICK: Final = timedelta(microseconds=1)
_TIMES: Final = f"""
    ', measured from ', {UTC_TIME.format("first_ts")}, ' to ', {UTC_TIME.format("last_ts")},
    ', given up at ', {UTC_TIME.format("dropped_at")}
"""
# What a person discarded in the cloud is the cloud's own record: there is nothing of it at the edge to compare with.
_COMPARED: Final = "(SELECT event_id AS id, * FROM {} WHERE reason <> 'discarded') AS losses"
LOSSES: Final = Digested(
    _COMPARED.format("stream_losses"),
    at="dropped_at",
    state="reason",
    content=f"concat(reason, ': ', count, ' of sequences ', first_seq, ' to ', last_seq, ' of stream ', stream_id, {_TIMES})",
)
STATION_LOSSES: Final = Digested(
    _COMPARED.format("station_losses"),
    at="dropped_at",
    state="reason",
    content=f"""
      concat(reason, ': ', count, CASE WHEN NOT is_count_exact THEN ' or more' END, ', ', pictures, ' pictures', {_TIMES})
    """,
)


class AfterRecord(NamedTuple):
    at: Timestamp
    id: UUID


class RecordPage(msgspec.Struct, frozen=True):
    records: list[DigestedRow]
    next: str | None


def loss_record_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    return record_routes(pool, guards, {"losses": LOSSES, "station-losses": STATION_LOSSES})


def record_routes(pool: Pool, guards: Sequence[Any], kinds: Mapping[str, Digested]) -> list[Any]:
    return [route for kind, digested in kinds.items() for route in _routes_of(pool, guards, kind, digested)]


def _routes_of(pool: Pool, guards: Sequence[Any], kind: str, digested: Digested) -> list[Any]:
    @get(f"/api/v1/records/{kind}/days", guards=guards, tags=["audit"], operation_id=f"days_of_{kind}")
    async def days(tenant_id: Tenant, device_id: AnyDevice = None, since: From = None, until: To = None) -> DayDigests:
        """How many there are of each day, by device, with a digest of what they say: for comparing tiers."""
        async with read_as(pool, tenant_id) as connection:
            return await digested.days(connection, tenant_id, device_id, *time_range(since, until))

    @get(f"/api/v1/records/{kind}", guards=guards, tags=["audit"], operation_id=f"records_of_{kind}")
    async def records(
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 1000,
    ) -> RecordPage:
        """Each with what goes into the digest of its day, in the order of time."""
        lower, upper = time_range(since, until)
        begin: tuple[datetime, UUID] = position(after, AfterRecord) or (lower - _TICK, SMALLEST_ID)
        async with read_as(pool, tenant_id) as connection:
            rows = await digested.rows(connection, tenant_id, device_id, begin, upper, limit)
        return RecordPage(rows, cursor(AfterRecord(rows[-1].at, rows[-1].id)) if len(rows) == limit else None)

    return [days, records]
