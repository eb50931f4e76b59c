"""Aggregates of which the bus is to be told: marked by whoever changes them, taken off the list once they were published.

A row is marked in the transaction that changes its bucket, which holds the row until the commit. It becomes due when the
window has closed and settled. `take` puts due rows off for as long as telling them may take; a change that comes meanwhile counts
`changes` up, and `told` deletes only rows whose count is as it was taken. So a change is never lost: it is in what was
published, or its row is still there. Killed anywhere, the rows are due again and the same buckets give the same events.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import asyncpg
import msgspec

from farmiq.kit.postgres import Connection
from farmiq.timeseries.announcement import TELLING_AHEAD, TELLING_DUE, with_due_times
from farmiq.timeseries.rollup import Bucket
from farmiq.timeseries.store import GIVEN_KEYS, KEY, key_columns

# Replicas' clocks differ a little. A row that another one may take as due must count every change.
CLOCKS_DIFFER: Final = timedelta(minutes=10)

# A conflict locks the row in any case; only rows that may be in somebody's hands are written, so open buckets cost little.
_MARK: Final = f"""
    INSERT INTO telemetry_agg_unsent AS known ({KEY}, due_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[],
                         $8::timestamptz[])
    ON CONFLICT ({KEY}) DO UPDATE SET changes = known.changes + 1
     WHERE known.due_at < $9::timestamptz OR known.due_at > $9::timestamptz + {TELLING_AHEAD} - interval '1 hour'
"""  # noqa: S608 - our own constants
_TAKE: Final = f"""
    UPDATE telemetry_agg_unsent SET due_at = $3 WHERE ctid = ANY ({TELLING_DUE}) RETURNING {KEY}, changes
"""  # noqa: S608 - as above
# Buckets of which the bus was told, and nobody knows any more whether analytics heard it. By the time of the last change and by
# their own: one of the two clocks may have been behind.
_MARK_SINCE: Final = f"""
    INSERT INTO telemetry_agg_unsent AS known ({KEY}, due_at)
    SELECT {KEY}, now() FROM telemetry_agg
     WHERE greatest(updated_at, bucket_end_at) >= $1 AND "window" = ANY ($2) AND ($3::text IS NULL OR tenant_id = $3)
    ON CONFLICT ({KEY}) DO UPDATE SET changes = known.changes + 1
"""  # noqa: S608 - as above
# `is_from_edge`: what the bucket shows is not what samples gave here. See `received.py`.
_BUCKETS: Final = f"""
    SELECT {KEY}, farm_id, barn_id, bucket_end_at, count, sum_value, min_value, max_value,
           EXISTS (SELECT FROM received_buckets AS received
                    WHERE (received.tenant_id, received.device_id, received.metric_type, received."window",
                           received.bucket_start_at, received.sensor, received.unit)
                        = (shown.tenant_id, shown.device_id, shown.metric_type, shown."window", shown.bucket_start_at,
                           shown.sensor, shown.unit)) AS is_from_edge
      FROM {GIVEN_KEYS} JOIN telemetry_agg AS shown USING ({KEY})
"""  # noqa: S608 - as above
# Whoever is changing a bucket at this moment holds its row. Such rows are left alone, without waiting: they are told again.
_OURS: Final = """
      SELECT unsent.ctid AS place FROM telemetry_agg_unsent AS unsent
        JOIN {given} ON
            (unsent.tenant_id, unsent.device_id, unsent.metric_type, unsent."window", unsent.bucket_start_at, unsent.sensor,
             unsent.unit)
          = (given.tenant_id, given.device_id, given.metric_type, given."window", given.bucket_start_at, given.sensor, given.unit)
"""
_GIVEN_CHANGES: Final = f"""
    unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::bigint[])
      AS given ({KEY}, changes)
"""
_TOLD: Final = f"""
    WITH ours AS ({_OURS.format(given=_GIVEN_CHANGES)} AND unsent.changes = given.changes FOR UPDATE OF unsent SKIP LOCKED)
    DELETE FROM telemetry_agg_unsent WHERE ctid = ANY (ARRAY(SELECT place FROM ours))
"""  # noqa: S608 - as above
_GIVE_BACK: Final = f"""
    WITH ours AS ({_OURS.format(given=GIVEN_KEYS)} FOR UPDATE OF unsent SKIP LOCKED)
    UPDATE telemetry_agg_unsent SET due_at = $8 WHERE ctid = ANY (ARRAY(SELECT place FROM ours))
"""  # noqa: S608 - as above


class Plan(msgspec.Struct, frozen=True):
    """Of which windows the bus is told, and how long after a window closed or late samples came."""

    windows: tuple[str, ...] = ("1h", "1d")
    settle_seconds: float = 60.0


Key = tuple[object, ...]


async def mark(connection: Connection, touched: Iterable[Bucket], changed_at: datetime, plan: Plan) -> None:
    """After the buckets were written, in the same transaction."""
    wanted = (bucket for bucket in touched if bucket.window in plan.windows)
    due = _one_place(with_due_times(wanted, changed_at, plan.settle_seconds))
    if due:
        columns = key_columns([bucket for bucket, _ in due])
        await connection.execute(_MARK, *columns, [due_at for _, due_at in due], changed_at + CLOCKS_DIFFER)


async def mark_since(connection: Connection, since: datetime, tenant_id: str | None) -> int:
    """The bus is told once more of every closed hour and day that changed since then; how many. Of all tenants, or of one."""
    tag = await connection.execute(_MARK_SINCE, since, ["1h", "1d"], tenant_id)
    return int(tag.rpartition(" ")[2])


async def take(connection: Connection, now: datetime, limit: int, hold_seconds: float) -> dict[Key, int]:
    """Up to `limit` rows that are due, with how often each has changed. Nobody else takes them for `hold_seconds`."""
    rows = await connection.fetch(_TAKE, now, limit, now + timedelta(seconds=hold_seconds))
    return {tuple(row)[:-1]: row["changes"] for row in rows}


async def buckets(connection: Connection, keys: Sequence[Key]) -> list[asyncpg.Record]:
    """These buckets as they are now. In a transaction after that of `take`: what was committed before it counts."""
    return await connection.fetch(_BUCKETS, *_columns(keys))


async def told(connection: Connection, taken: dict[Key, int]) -> None:
    """These were published as they were when they were taken, or later."""
    if taken:
        await connection.execute(_TOLD, *_columns(list(taken)), list(taken.values()))


async def give_back(connection: Connection, keys: Sequence[Key], due_at: datetime) -> None:
    """These were taken and could not be told: anybody may take them again from then on."""
    if keys:
        await connection.execute(_GIVE_BACK, *_columns(keys), due_at)


def _columns(keys: Sequence[Key]) -> list[list[object]]:
    return [list(column) for column in zip(*keys, strict=True)]


def _one_place(due: Iterable[tuple[Bucket, datetime]]) -> list[tuple[Bucket, datetime]]:
    """A device that moved has one bucket all the same."""
    stays = {(bucket.origin.tenant_id, bucket.origin.device_id, *bucket[1:]): (bucket, at) for bucket, at in due}
    return list(stays.values())
