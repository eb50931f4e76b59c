"""The outbox without its forwarder: claim and settle, as the forwarder does it, with nothing to send in between."""

import asyncio
import time
from collections.abc import Sequence

import asyncpg

from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import Pool, open_pool
from farmiq.outbox import CHANNEL, Announcer, Event, append
from farmiq.outbox.claim import claim
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import acked
from queues import PAYLOAD, Queue

TENANT = "demo"
LOOPS = 2  # batches under way at the same time, each on a connection of its own

# Ids and times as a node's readings have them: they rise.
_FILL = """
INSERT INTO sync_outbox (id, tenant_id, farm_id, barn_id, device_id, event_type, occurred_at, trace_id, payload_json)
SELECT uuidv7(), $2, 'farm-1', 'barn-1', 'node-' || n % 20, 'telemetry.ingested', now() + n * interval '1 ms',
       md5(n::text), convert_from($3, 'utf8')::jsonb
FROM generate_series(1, $1::int) AS n
"""


class Outbox(Queue):
    batch = 500

    async def install(self) -> None:
        await migrate(self.url, "farmiq.edge.migrations")

    async def fill(self, events: int) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute(_FILL, events, TENANT, PAYLOAD)
        await connection.execute("SELECT pg_notify($1, '')", CHANNEL)
        await connection.close()

    async def drain(self, limit_seconds: float) -> int:
        give_up_at = time.perf_counter() + limit_seconds
        async with await open_pool(self.url, service="benchmark") as pool:
            done = await asyncio.gather(*(self._loop(pool, f"loop-{number}", give_up_at) for number in range(LOOPS)))
        return sum(done)

    async def _loop(self, pool: Pool, instance_id: str, give_up_at: float) -> int:
        done = 0
        async with pool.acquire() as connection:
            while time.perf_counter() < give_up_at:
                events = await claim(connection, TENANT, instance_id=instance_id, limit=self.batch, lease_seconds=120)
                if not events:
                    break
                done += len(await settle(connection, [acked(event) for event in events]))
        return done


class Packs(Outbox):
    """Node batches of many samples, one event each, appended as the gateway does it: those of a moment in one transaction."""

    batch = 100
    together = 10

    async def write(self, events: Sequence[Event]) -> None:
        async with await open_pool(self.url, service="benchmark") as pool, pool.acquire() as connection:
            announcer = Announcer(pool)
            for start in range(0, len(events), self.together):
                async with connection.transaction():
                    await append(connection, events[start : start + self.together])
                announcer.announce()
            await announcer.close()
