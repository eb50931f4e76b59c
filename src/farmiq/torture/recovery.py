"""After the faults: does the farm come back by itself, and is nothing left on the way?"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

import asyncpg

from farmiq.kit.amqp_channel import BusAway
from farmiq.torture.bus import depths, waiting_queues
from farmiq.torture.farm import STATION, Farm

LOOK_SECONDS = 0.25

# What was begun before `$1`: the farm's own node and station go on, and always have something on the way.
_UNSENT = "SELECT status, count(*) AS rows FROM sync_outbox WHERE status <> 'acked' AND created_at < $1 GROUP BY status"
_TRANSFERS = (
    "SELECT state, count(*) AS rows FROM media_transfers WHERE state <> 'sent' AND created_at < $1 GROUP BY state"
)
_LOOKS = "SELECT state, count(*) AS rows FROM inference_jobs WHERE state <> 'done' AND requested_at < $1 GROUP BY state"
_PICTURES = """SELECT 'not verified' AS state, count(*) AS rows FROM media_objects
                WHERE state = 'presigned' AND announced_at < $1 HAVING count(*) > 0"""
_SESSIONS = f"""SELECT 'not told to the cloud' AS state, count(*) AS rows FROM weight_sessions
                WHERE device_id = '{STATION}' AND created_at < $1 AND status <> 'created'
                  AND (told_digest IS NULL OR look_at IS NOT NULL) HAVING count(*) > 0"""  # noqa: S608 - our own constant
# A lease that is over is nobody's: whoever looks for such rows had time enough to find them.
_STUCK = """
SELECT 'sync_outbox' AS place, id::text AS row FROM sync_outbox
 WHERE status IN ('claimed', 'sending') AND lease_expires_at < now() - interval '30 seconds'
UNION ALL
SELECT 'media_transfers', media_id::text FROM media_transfers
 WHERE state = 'sending' AND lease_expires_at < now() - interval '30 seconds'
UNION ALL
SELECT 'inference_jobs', id::text FROM inference_jobs
 WHERE state = 'running' AND lease_expires_at < now() - interval '30 seconds'
"""
_HIGHEST = (
    "SELECT device_id, max(upper(received)) - 1 AS last FROM streams WHERE device_id = ANY($1) GROUP BY device_id"
)
# Of a node whose disk was set back, whose sequences are no longer the numbers of its samples.
_HIGHEST_VALUE = """SELECT device_id, max(metric_value)::bigint AS last FROM telemetry_raw
                     WHERE device_id = ANY($1) AND stream_id IS NOT NULL GROUP BY device_id"""
_GAPS = """SELECT device_id, stream_id, received + lost AS covered FROM streams
            WHERE (SELECT count(*) FROM unnest(received + lost)) <> 1 OR lower(received + lost) <> 1"""


@dataclass
class Recovery:
    healthy_seconds: float | None = None
    fresh_seconds: float | None = None
    drained_seconds: float | None = None
    left: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        seconds = (self.healthy_seconds, self.fresh_seconds, self.drained_seconds)
        return all(value is not None for value in seconds) and not self.left and not self.stuck


async def until(condition: Callable[[], Awaitable[bool]], seconds_max: float) -> float | None:
    """How long it took, or None when the time was over."""
    began_at = time.monotonic()
    while True:
        try:
            is_so = await condition()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, BusAway, TimeoutError):
            is_so = False  # whoever should answer is not back yet
        if is_so:
            return round(time.monotonic() - began_at, 2)
        if time.monotonic() - began_at > seconds_max:
            return None
        await asyncio.sleep(LOOK_SECONDS)


async def has_fresh(farm: Farm, taken: dict[str, int], *, is_set_back: bool = False) -> bool:
    """A sample of each node is in the cloud that was taken after `taken` were."""
    rows = await farm.fetch("cloud", _HIGHEST_VALUE if is_set_back else _HIGHEST, list(taken))
    highest = {row["device_id"]: row["last"] for row in rows}
    return all(highest.get(device, 0) > count for device, count in taken.items())


async def leftovers(farm: Farm, before: datetime) -> list[str]:
    """What is still on its way that was begun before then: nothing, when all is well."""
    found = []
    for place, query in (
        ("outbox", _UNSENT),
        ("picture transfers", _TRANSFERS),
        ("inference jobs", _LOOKS),
        ("pictures", _PICTURES),
        ("sessions", _SESSIONS),
    ):
        rows = await farm.fetch("edge", query, before)
        found += [f"{place}: {row['rows']} {row[0]}" for row in rows]
    for tier in ("edge", "cloud"):
        rows = await farm.fetch(tier, _GAPS)
        found += [f"{tier}: gaps in the stream of {row['device_id']}: {row['covered']}" for row in rows]
    counts = await depths(farm.rabbitmq(), waiting_queues())
    return found + [
        f"{queue}: {'messages that cannot be counted' if count is None else f'{count} messages'}"
        for queue, count in counts.items()
        if count != 0
    ]


async def stuck_rows(farm: Farm) -> list[str]:
    return [f"{row['place']} {row['row']}" for row in await farm.fetch("edge", _STUCK)]
