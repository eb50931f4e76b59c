"""Three forwarders killed again and again, all the way into the cloud's tables.

SYNC_CAMPAIGN_KILLS in the environment says how many kills the long form has, SYNC_CAMPAIGN_SEED makes another campaign."""

import asyncio
import os
import random
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from farmiq.cloud.ingestion import edges
from farmiq.contracts import event_types
from farmiq.contracts.telemetry import TelemetryIngested
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.outbox import CHANNEL, Event, append
from support.rabbitmq import NewVirtualHost
from support.service_process import ServiceProcess, StartService, start_service
from support.telemetry import NOW
from support.waiting import eventually

__all__ = ["start_service"]  # a fixture

KILLS: Final = 15
LONG: Final = int(os.environ.get("SYNC_CAMPAIGN_KILLS", "200"))
SEED: Final = int(os.environ.get("SYNC_CAMPAIGN_SEED", "5"))
REPLICAS: Final = 3
BATCH: Final = 10
EVENTS_PER_KILL: Final = 40

many_kills = pytest.mark.long(reason="the same campaign, with many times as many kills")

# Written by the database itself, so that it also sees what a replica did that is dead by now.
WITNESS = """
CREATE TABLE witnessed (event_id uuid, claim_token bigint);
-- The owner's word: the forwarder, which works as a role of its own, knows nothing of this table.
CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO witnessed VALUES (NEW.id, NEW.claim_token);
  RETURN NULL;
END
$$;
CREATE TRIGGER witness AFTER UPDATE ON sync_outbox FOR EACH ROW WHEN (NEW.status = 'acked') EXECUTE FUNCTION witness();
"""


class Replicas:
    """Forwarders that come back as soon as they are killed, as a supervisor has them."""

    def __init__(self, environ: dict[str, str], run_folder: Path, tmp_path: Path) -> None:
        self._processes = {
            name: ServiceProcess(
                "edge-sync-forwarder", {**environ, "INSTANCE_ID": name}, run_folder, tmp_path / f"{name}.log"
            )
            for name in (f"replica-{number}" for number in range(REPLICAS))
        }
        self._starting: dict[str, asyncio.Task[object]] = {}

    @property
    def alive(self) -> list[str]:
        return sorted(name for name in self._processes if name not in self._starting)

    def start_all(self) -> None:
        for name in self._processes:
            self._start(name)

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._start(name)

    async def stop_all(self) -> None:
        await asyncio.gather(*self._starting.values())
        for process in self._processes.values():
            assert await asyncio.to_thread(process.stop) == 0

    async def kill_all(self) -> None:
        await asyncio.gather(*self._starting.values(), return_exceptions=True)
        for process in self._processes.values():
            process.kill()

    def lines(self) -> Iterator[dict[str, object]]:
        for process in self._processes.values():
            yield from process.log_lines()

    def _start(self, name: str) -> None:
        task = asyncio.create_task(asyncio.to_thread(self._processes[name].start))
        self._starting[name] = task
        task.add_done_callback(lambda _task: self._starting.pop(name))


async def write(pool: Pool, count: int) -> list[UUID]:
    ids = [new_id() for _ in range(count)]
    reading = TelemetryIngested(metric_type="temperature", metric_value=26.4, unit="C")
    given: dict[str, Any] = {"tenant_id": "demo", "farm_id": "farm-1", "barn_id": "barn-1", "device_id": "node-1"}
    async with pool.acquire() as connection:
        await append(
            connection,
            [
                Event(id=event_id, event_type=event_types.TELEMETRY_INGESTED, occurred_at=NOW, payload=reading, **given)
                for event_id in ids
            ],
        )
        await connection.execute("SELECT pg_notify($1, '')", CHANNEL)
    return ids


async def acked_count(pool: Pool) -> int:
    return int(await pool.fetchval("SELECT count(*) FROM witnessed"))


async def somebody_is_sending(pool: Pool, replicas: Replicas) -> str:
    """A replica that has claimed rows: killed now, it leaves them behind."""
    query = (
        "SELECT claimed_by FROM sync_outbox WHERE status IN ('claimed', 'sending') AND claimed_by = ANY ($1) LIMIT 1"
    )
    return str(await pool.fetchval(query, replicas.alive) or "")


async def has_moved_on(pool: Pool, replicas: Replicas, acked: int) -> bool:
    return bool(replicas.alive) and await acked_count(pool) > acked


async def campaign(pool: Pool, replicas: Replicas, kills: int, rng: random.Random) -> list[UUID]:
    """Every kill comes after some progress; every second one hits a replica with rows in its hands."""
    ids: list[UUID] = []
    for number in range(kills):
        before = await acked_count(pool)
        ids += await write(pool, EVENTS_PER_KILL)
        await eventually(
            partial(has_moved_on, pool, replicas, before + rng.randrange(BATCH)), 60, "progress after a kill"
        )
        victim = rng.choice(replicas.alive)
        if number % 2:
            ids += await write(pool, EVENTS_PER_KILL)
            victim = await eventually(partial(somebody_is_sending, pool, replicas), 60, "somebody to send")
        replicas.kill(victim)
    return ids


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(KILLS, marks=pytest.mark.timeout(120 + 5 * KILLS)),
        pytest.param(LONG, marks=[many_kills, pytest.mark.timeout(120 + 5 * LONG)]),
    ],
)
async def test_three_forwarders_killed_at_random_deliver_every_event_once(
    kills: int,
    edge_url: str,
    edge_pool: Pool,
    cloud_url: str,
    cloud_pool: Pool,
    new_vhost: NewVirtualHost,
    start_service: StartService,
    run_folder: Path,
    tmp_path: Path,
) -> None:
    amqp_url, token = new_vhost(), secrets.token_urlsafe(24)
    async with cloud_pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo"], token=token)
    await edge_pool.execute(WITNESS)
    cloud = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}
    entrance = await asyncio.to_thread(start_service, "cloud-ingestion", cloud)
    await asyncio.to_thread(start_service, "cloud-telemetry-service", {**cloud, "ADMIN_TOKEN": "for-this-test"})
    replicas = Replicas(
        {
            "DATABASE_URL": edge_url,
            "CLOUD_INGESTION_URL": entrance.url,
            "CLOUD_INGESTION_TOKEN": token,
            "EDGE_CLUSTER_ID": "edge-1",
            "OUTBOX_BATCH_SIZE": str(BATCH),
            "OUTBOX_LEASE_SECONDS": "2",
            "OUTBOX_BACKOFF_CAP_SECONDS": "1",
            "SYNC_BATCH_EVENTS_SECONDS": "0",
        },
        run_folder,
        tmp_path,
    )
    try:
        replicas.start_all()
        ids = await campaign(edge_pool, replicas, kills, random.Random(SEED))
        await eventually(partial(is_all_acked, edge_pool, len(ids)), 120, "every row to be acknowledged")
        await replicas.stop_all()
    finally:
        await replicas.kill_all()

    await assert_acked_once(edge_pool, ids, kills)
    await eventually(partial(is_all_stored, cloud_pool, len(ids)), 60, "every event in the cloud's table")
    stored = await cloud_pool.fetch("SELECT id FROM telemetry_raw")
    assert sorted(row["id"] for row in stored) == sorted(ids)
    known = await cloud_pool.fetch("SELECT event_id FROM ingest_dedupe")
    assert sorted(row["event_id"] for row in known) == sorted(ids)
    assert "leases_expired" in {line["message"] for line in replicas.lines()}, "no kill hit a delivery"


async def is_all_acked(pool: Pool, count: int) -> bool:
    """Also what dead replicas had in their hands: no row is stuck past its lease."""
    left = await pool.fetchval("SELECT count(*) FROM sync_outbox WHERE status <> 'acked'")
    return left == 0 and await acked_count(pool) >= count


async def is_all_stored(pool: Pool, count: int) -> bool:
    return bool(await pool.fetchval("SELECT count(*) >= $1 FROM telemetry_raw", count))


async def assert_acked_once(pool: Pool, ids: list[UUID], kills: int) -> None:
    rows = await pool.fetch("SELECT event_id, count(*) FROM witnessed GROUP BY event_id")
    assert {row["event_id"]: row["count"] for row in rows} == dict.fromkeys(ids, 1)
    rescued = await pool.fetchval("SELECT count(*) FROM sync_outbox WHERE last_error_code = 'LEASE_EXPIRED'")
    assert rescued >= kills // 4
