"""A time in which nothing new goes to RabbitMQ, so that its queues run empty and the server can be replaced.

It is a row in the cloud's database: it holds for every replica, and across restarts. Whoever is about to publish calls `enter`
in a transaction that ends after the broker's confirmation. `begin` returns when every such transaction has ended that did not
see the row, so nothing is published after it.
"""

from datetime import datetime
from typing import Final

import msgspec

from farmiq.kit.errors import Transient
from farmiq.kit.postgres import Connection, Pool, storable

# The letters "drain": the key of a lock that no other part uses.
_KEY: Final = int.from_bytes(b"drain", "big")
_ENTER: Final = f"SELECT pg_advisory_xact_lock_shared({_KEY})"
_IS_DRAINED: Final = "SELECT begun_at FROM drains WHERE ended_at IS NULL"
_CURRENT: Final = "SELECT begun_at, begun_by FROM drains WHERE ended_at IS NULL"
_BEGIN: Final = "INSERT INTO drains (begun_by) VALUES ($1) ON CONFLICT DO NOTHING"
_UNTIL_LEFT: Final = f"SELECT pg_advisory_xact_lock({_KEY})"
_END: Final = "UPDATE drains SET ended_at = now(), ended_by = $1 WHERE ended_at IS NULL RETURNING begun_at, begun_by"


class Drained(Transient):
    """The cloud takes no events for the time being: its RabbitMQ is being replaced. `farmiq cloud resume` ends that."""

    code = "drained"


class Resumed(Transient):
    """Somebody has ended the drain that was just begun. Agree on who drains, then the same command again."""

    code = "resumed"


class Drain(msgspec.Struct, frozen=True):
    begun_at: datetime
    begun_by: str

    def __str__(self) -> str:
        return f"drained since {self.begun_at:%Y-%m-%d %H:%M:%S}Z by {self.begun_by}"


async def enter(connection: Connection) -> None:
    """In the transaction of whoever publishes. Raises `Drained`."""
    # The lock first: the statement after it sees what was committed until then.
    await connection.execute(_ENTER)
    await refuse(connection)


async def refuse(connection: Connection) -> None:
    """Raises `Drained`, if so. Without a lock: for whoever wants to know before the work begins."""
    begun_at: datetime | None = await connection.fetchval(_IS_DRAINED)
    if begun_at is not None:
        raise Drained(f"The cloud is drained since {begun_at:%Y-%m-%d %H:%M:%S}Z and takes no events")


async def current(connection: "Connection | Pool") -> Drain | None:
    row = await connection.fetchrow(_CURRENT)
    return None if row is None else Drain(**dict(row.items()))


async def remark(connection: "Connection | Pool") -> str | None:
    """For a person who asks whether all is well."""
    drain = await current(connection)
    return None if drain is None else f"{drain}: edges keep their events until somebody runs farmiq cloud resume"


async def begin(connection: Connection, begun_by: str) -> Drain:
    """Or go on with the one that is under way. When this returns, nobody publishes any more."""
    await connection.execute(_BEGIN, storable(begun_by))
    await until_left(connection)
    drain = await current(connection)
    if drain is None:
        raise Resumed("Somebody has resumed the cloud in this moment")
    return drain


async def until_left(connection: Connection) -> None:
    """Returns when every transaction has ended that had entered."""
    await connection.execute(_UNTIL_LEFT)


async def end(connection: Connection, ended_by: str) -> Drain | None:
    """The one that was ended; None when there was none."""
    row = await connection.fetchrow(_END, storable(ended_by))
    return None if row is None else Drain(**dict(row.items()))
