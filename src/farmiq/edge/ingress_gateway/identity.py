"""Every statement that asks for or ends an epoch of this database, besides the door's own.

The server that the database was last seen on is kept in it. A restore to a point in time and a failover change the timeline of
its log, a copy that was loaded elsewhere changes the system identifier: either way the database may lack what it had
committed, and the devices send it again under a new epoch. An upgrade with `pg_upgrade` changes it too, and costs repetitions.
"""

from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.edge.alerts import Kind, raise_alert
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection, Pool

KIND: Final[Kind] = "edge_database_replaced"
LOOK_SECONDS: Final = 30.0

_SERVER: Final = """
    (SELECT system_identifier FROM pg_control_system()) AS system_identifier,
    ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer AS timeline
"""
_EPOCH: Final = "SELECT epoch FROM edge_identity"
_ROTATE: Final = f"""
    UPDATE edge_identity AS known
       SET epoch = gen_random_uuid(), changed_at = clock_timestamp(), is_restored = true,
           system_identifier = server.system_identifier, timeline = server.timeline
      FROM (SELECT {_SERVER}) AS server
    RETURNING known.epoch
"""  # noqa: S608 - our own constants
_NOTE: Final = f"""
    UPDATE edge_identity AS known
       SET system_identifier = server.system_identifier, timeline = server.timeline
      FROM (SELECT {_SERVER}) AS server
"""  # noqa: S608 - our own constants
_SEEN: Final = f"""
    SELECT known.epoch, known.system_identifier, known.timeline,
           server.system_identifier AS system_identifier_now, server.timeline AS timeline_now
      FROM edge_identity AS known, (SELECT {_SERVER}) AS server FOR UPDATE OF known
"""  # noqa: S608 - our own constants

log = get_logger(__name__)


class Replaced(Struct, frozen=True):
    """The database is on another server, or on another timeline, than it was seen on before."""

    epoch_before: UUID
    epoch: UUID
    system_identifier_before: int
    system_identifier: int
    timeline_before: int
    timeline: int


async def current_epoch(connection: Connection) -> UUID:
    epoch: UUID = await connection.fetchval(_EPOCH)
    return epoch


async def rotate_epoch(connection: Connection) -> UUID:
    """For a database that comes from a backup: devices that see a new epoch believe its marks, and send again what they still
    have. Call it before any service may acknowledge anything."""
    epoch: UUID = await connection.fetchval(_ROTATE)
    return epoch


async def follow_server(pool: Pool) -> Replaced | None:
    """Begin a new epoch when the server is another one than the last time. Of several gateways the first one does it."""
    async with pool.acquire() as connection, connection.transaction():
        seen = await connection.fetchrow(_SEEN)
        assert seen is not None  # noqa: S101 - the table has one row
        before = (seen["system_identifier"], seen["timeline"])
        now = (seen["system_identifier_now"], seen["timeline_now"])
        if before == now:
            return None
        if None in before:
            await connection.execute(_NOTE)
            return None
        replaced = Replaced(seen["epoch"], await rotate_epoch(connection), before[0], now[0], before[1], now[1])
        evidence = {name: str(getattr(replaced, name)) for name in replaced.__struct_fields__}
        subject = (
            "the edge's database is on another server or timeline than before: devices send again what it may lack"
        )
        await raise_alert(connection, KIND, subject, f"edge-database:{replaced.epoch}", evidence)
    log.warning("edge_database_replaced", **evidence)
    return replaced


async def watch_server(life: Lifetime, pool: Pool) -> None:
    """Until cancelled: a failover happens under a running gateway."""
    while await life.pause(LOOK_SECONDS):
        try:
            await follow_server(pool)
        except RETRY as error:
            log.warning("server_not_looked_at", reason=str(error) or type(error).__name__)
