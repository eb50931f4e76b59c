"""The embedded broker follows the register of devices while the farm runs.

Whoever changes the register says so with the commit (NOTIFY), and we look each few seconds besides: a word that was lost
costs seconds. A change that the broker has not confirmed is carried out again until it has, and a broker that was started again
is looked at as well: its plugin's file may be older than what it had confirmed."""

import asyncio
import contextlib
from typing import Any, Final

import asyncpg

from farmiq.edge.ingress_gateway.devices import CHANNEL, REGISTER_LOCK_KEY
from farmiq.kit.logging import get_logger, mask
from farmiq.kit.postgres import RETRY, Connection
from farmiq.kit.retry import Backoff
from farmiq.stack.device_logins import BrokerOfHome, apply_register
from farmiq.stack.errors import StackError

LOOK_SECONDS: Final = 5.0
_FAILURES: Final[tuple[type[BaseException], ...]] = (*RETRY, StackError)
_TAKE_TURN: Final = "SELECT pg_advisory_xact_lock($1)"
# Every change moves one of these: a device comes, its secrets are made anew, it goes. A restored backup moves them all. Where a
# device is registered decides which topics it may use.
_STATE: Final = """
    SELECT count(*), max(credential_at), count(revoked_at), max(revoked_at),
           sum(hashtextextended(concat_ws(' ', device_id, tenant_id, farm_id, barn_id, station_id), 0))
      FROM devices
"""

log = get_logger(__name__)


async def keep_logins(database_url: str, broker: BrokerOfHome, look_seconds: float = LOOK_SECONDS) -> None:
    """Until cancelled."""
    backoff = Backoff(0.5, 10.0)
    while True:
        try:
            await _keep_connected(database_url, broker, look_seconds, backoff)
        except _FAILURES as error:
            if backoff.failures == 0:
                log.warning("device_logins_not_kept", reason=mask(str(error)))
        await asyncio.sleep(backoff.next_seconds())


async def _keep_connected(database_url: str, broker: BrokerOfHome, look_seconds: float, backoff: Backoff) -> None:
    """Until the database or the broker fails. What the broker may not have read is put in force first."""
    connection = await asyncpg.connect(
        database_url, timeout=10.0, command_timeout=60.0, server_settings={"application_name": "farmiq-logins"}
    )
    changed = asyncio.Event()

    def heard(*_notice: Any) -> None:
        changed.set()

    try:
        await connection.add_listener(CHANNEL, heard)
        known = await _bring_in_line(connection, broker)
        backoff.reset()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(look_seconds):
                    await changed.wait()
            changed.clear()
            if await _state(connection, broker) != known:
                known = await _bring_in_line(connection, broker)
    finally:
        connection.terminate()


async def _bring_in_line(connection: Connection, broker: BrokerOfHome) -> tuple[Any, ...]:
    async with connection.transaction():
        await connection.execute(_TAKE_TURN, REGISTER_LOCK_KEY)
        state = await _state(connection, broker)
        if await apply_register(connection, broker):
            log.info("device_logins_renewed", devices=state[1])
    return state


async def _state(connection: Connection, broker: BrokerOfHome) -> tuple[Any, ...]:
    row = await connection.fetchrow(_STATE)
    return (broker.pid, *(() if row is None else tuple(row)))
