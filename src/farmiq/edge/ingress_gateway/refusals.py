"""What the broker refused to devices, and whose connections another one under the same login ended.

One row for each device and kind: whoever tries a million topics fills no table. All who are no device of this edge share one row
of a kind, under no tenant."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge

from farmiq.edge.ingress_gateway.devices import TRIAL_KIND
from farmiq.kit.clock import Clock
from farmiq.kit.due_times import AHEAD
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection, Pool, storable

Kind = Literal["publish_denied", "subscribe_denied", "login_refused", "connection_replaced", "retained_removed"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
TOPIC_CHARS_MAX: Final = 200
RECENT: Final = timedelta(minutes=5)
LOOK_SECONDS: Final = 15.0

log = get_logger(__name__)

# Kept as the greatest, unless a clock that was ahead has written it.
_RECORD: Final = f"""
    INSERT INTO broker_refusals AS kept (tenant_id, device_id, kind, count, topic, first_at, last_at)
    SELECT coalesce(known.tenant_id, ''), coalesce(known.device_id, ''), seen.kind, sum(seen.count),
           (array_agg(topic ORDER BY last_at DESC))[1], min(first_at), max(last_at)
      FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::timestamptz[], $6::timestamptz[])
           AS seen (client_id, kind, count, topic, first_at, last_at)
      LEFT JOIN devices AS known ON known.device_id = seen.client_id
     GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (tenant_id, device_id, kind) DO UPDATE
       SET count = kept.count + excluded.count, topic = excluded.topic,
           last_at = greatest(CASE WHEN kept.last_at <= excluded.last_at + {AHEAD} THEN kept.last_at END, excluded.last_at)
"""  # noqa: S608 - our own constants
_OF_TENANT: Final = """
    SELECT device_id, kind, count, topic, first_at, last_at FROM broker_refusals
     WHERE tenant_id = $1 AND ($2::text IS NULL OR device_id = $2) ORDER BY last_at DESC, device_id, kind LIMIT $3
"""
_RECENT: Final = f"""
    SELECT kind, count(*) AS devices FROM broker_refusals
     WHERE last_at > $1 AND last_at <= $1::timestamptz + {AHEAD} GROUP BY kind
"""  # noqa: S608 - as above
_SINCE: Final = "SELECT device_id, kind, count FROM broker_refusals WHERE last_at > $1 ORDER BY last_at DESC LIMIT 100"
_FORGET: Final = "DELETE FROM broker_refusals WHERE last_at < $1"


class Seen(Struct, frozen=True):
    """Of one client of the broker and one kind, since the last time that it was recorded."""

    client_id: str
    kind: Kind
    count: int
    topic: str
    first_at: datetime
    last_at: datetime


class BrokerRefusal(Struct, frozen=True):
    """`topic` is the last one, cut; it is empty for what has none."""

    device_id: str
    kind: str
    count: int
    topic: str
    first_at: datetime
    last_at: datetime


async def record(connection: Connection, seen: Sequence[Seen]) -> None:
    """But for what `farmiq doctor` tried."""
    seen = [one for one in seen if not one.client_id.startswith(f"{TRIAL_KIND}-")]
    await connection.execute(
        _RECORD,
        [one.client_id for one in seen],
        [one.kind for one in seen],
        [one.count for one in seen],
        [storable(one.topic[:TOPIC_CHARS_MAX]) for one in seen],
        [one.first_at for one in seen],
        [one.last_at for one in seen],
    )


async def of_tenant(connection: Connection, tenant_id: str, device_id: str | None, limit: int) -> list[BrokerRefusal]:
    """The newest first."""
    return [BrokerRefusal(*row) for row in await connection.fetch(_OF_TENANT, tenant_id, device_id, limit)]


async def recent(connection: Connection, now: datetime) -> Mapping[str, int]:
    """How many devices were refused something of each kind lately. Those that nobody knows count as one."""
    return {row["kind"]: row["devices"] for row in await connection.fetch(_RECENT, now - RECENT)}


async def show_recent(pool: Pool, clock: Clock, registry: CollectorRegistry) -> None:
    """The metric, until cancelled. While the database is away it stays as it was: the service's readiness says so."""
    gauge = Gauge(
        "farmiq_broker_refused_devices",
        f"Devices to which our own broker refused something in the last {RECENT.seconds // 60} minutes, by kind.",
        ["kind"],
        registry=registry,
    )
    for kind in KINDS:
        gauge.labels(kind)
    while True:
        try:
            async with pool.acquire() as connection:
                found = await recent(connection, clock.now())
        except RETRY as error:
            log.debug("broker_refusals_not_read", reason=str(error))
        else:
            for kind in KINDS:
                gauge.labels(kind).set(found.get(kind, 0))
        await asyncio.sleep(LOOK_SECONDS)


async def since(connection: Connection, at: datetime) -> list[tuple[str, str, int]]:
    """Device, kind and count over all tenants, for the operator of this edge. The newest first."""
    return [(row["device_id"], row["kind"], row["count"]) for row in await connection.fetch(_SINCE, at)]


async def forget(connection: Connection, before: datetime) -> int:
    return int((await connection.execute(_FORGET, before)).rpartition(" ")[2])
