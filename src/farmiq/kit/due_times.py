"""Times in rows that decide when something happens, in SQL that a wrong clock cannot stop.

A farm without an uplink has no time server either: its clock may be a day or a year wrong for weeks, and be put right later. What
was written meanwhile must not wait until the clock has come back to it. So nothing that we write lies further ahead than
`DELAY_SECONDS_MAX`, and what lies further ahead than `AHEAD_SECONDS` was written by a clock that was ahead: it is due.

A time that has gone by when it is written (`claimed_at`, `last_seen_at`) lies ahead of the clock for the same reason only: it is
as old as any. `docs/internals/clocks.md` has every such column.
"""

from typing import Final

DELAY_SECONDS_MAX: Final = 3600.0
"""No delay, lease or pause is longer. A setting that says more counts as this."""
AHEAD_SECONDS: Final = 2 * DELAY_SECONDS_MAX
"""Twice as long: a pause has some chance on top, and a step of the clock that is smaller than this ends by itself."""
AHEAD: Final = f"interval '{AHEAD_SECONDS:.0f} seconds'"


def is_due(column: str, *, now: str = "clock_timestamp()", ahead: str = AHEAD) -> str:
    """Condition: its time has come. For a filter on rows that are read anyway; NULL stays NULL."""
    return f"({column} <= {now} OR {column} > {now} + {ahead})"


def has_gone_by(column: str, age: str, *, now: str = "clock_timestamp()") -> str:
    """Condition: a time that was written when it was now is at least that old. NULL stays NULL."""
    return f"({column} <= {now} - {age} OR {column} > {now})"


def first_due(
    table: str,
    where: str,
    column: str,
    *,
    limit: str,
    then: str = "",
    now: str = "statement_timestamp()",
    ahead: str = AHEAD,
) -> str:
    """An array of the places (`ctid`) of the first rows that are due, locked, in the order of an index on `column` (and `then`).

    Two walks, each of which ends where the index says: as one condition they would read everything that waits. `now` must not
    be volatile, or it could not bound them.
    """
    order = f"{column}, {then}" if then else column
    walk = "ARRAY(SELECT ctid FROM {} WHERE {} AND {} ORDER BY {} LIMIT {} FOR UPDATE SKIP LOCKED)"
    come = walk.format(table, where, f"{column} <= {now}", order, limit)
    ahead_of_all = walk.format(table, where, f"{column} > {now} + {ahead}", order, limit)
    return f"({come} || {ahead_of_all})[:{limit}]"
