"""Who may say what became of a job, what it costs to find the next one, and the end of old ones."""

import asyncio
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from farmiq.edge.media_store import store as pictures
from farmiq.edge.vision_inference import handlers, store
from farmiq.edge.vision_inference.at_work import AtWork, Models
from farmiq.edge.vision_inference.card import model_of
from farmiq.edge.vision_inference.cleanup import delete_finished
from farmiq.edge.vision_inference.counters import Counters
from farmiq.edge.vision_inference.engine import Engine, Limits
from farmiq.edge.vision_inference.job import AGAIN, LIVE, Job, Lane
from farmiq.edge.vision_inference.looking import Looker
from farmiq.edge.vision_inference.seen import Seen
from farmiq.edge.vision_inference.settings import InferenceRetentionSettings
from farmiq.edge.vision_inference.verdicts import Again, GivenUp, Trouble
from farmiq.edge.vision_inference.worker import _held
from farmiq.kit.clock import Clock
from farmiq.kit.jobs import Work
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.s3 import ObjectStore
from farmiq.outbox import Announcer
from farmiq.stack.ports import free_port
from support.inference_world import assert_weighed_once, ended, grey, job_row, keep_picture, scales
from support.media_world import register
from support.s3 import S3
from support.session_rows import open_alerts
from support.tiny_models import card_of, tiny_model, write_model
from support.waiting import eventually

NOW = Clock().now()


def at_work() -> AtWork:
    content = tiny_model()
    return AtWork(Engine(model_of(content, card_of(content, "tiny-v1"), "here"), Limits()), "tiny-v1", 1)


async def claim(
    pool: Pool, lane: Lane = LIVE, *, by: str = "one", lease_seconds: float = 30.0, limit: int = 1
) -> list[Job]:
    async with pool.acquire() as connection:
        return await store.claim(connection, lane, instance_id=by, lease_seconds=lease_seconds, limit=limit)


async def test_whoever_lost_its_lease_says_nothing_any_more(edge_pool: Pool, s3: S3) -> None:
    media_id = await keep_picture(edge_pool, s3, grey(50))
    (late,) = await claim(edge_pool, lease_seconds=-1.0)
    ((job, verdict),) = await handlers.rescue(edge_pool, attempts_max=5)
    assert (job.id, verdict) == (late.id, Again(0.0, is_free=False))
    (now,) = await claim(edge_pool, by="two")
    assert not await handlers.complete(edge_pool, late, Seen(1.0, 1.0), at_work(), NOW)
    assert not await handlers.settle_failure(edge_pool, late, Trouble("x", "y"), GivenUp())
    await handlers.finish_known(edge_pool, late, at_work())
    row = await job_row(edge_pool, media_id)
    assert (row["state"], row["claimed_by"], row["attempt_count"]) == ("running", "two", 2)
    assert await edge_pool.fetchval("SELECT count(*) FROM inference_results") == 0
    assert await handlers.complete(edge_pool, now, Seen(50.0, 0.9), at_work(), NOW)
    await assert_weighed_once(edge_pool, [media_id])


async def test_a_picture_that_is_asked_for_again_is_taken_from_whoever_is_looking(edge_pool: Pool, s3: S3) -> None:
    media_id = await keep_picture(edge_pool, s3, grey(50))
    (before,) = await claim(edge_pool)
    async with edge_pool.acquire() as connection:
        picture = await pictures.of_tenant(connection, media_id, "demo")
        assert picture is not None
        await store.ask_again(connection, [picture], None)
    assert not await handlers.complete(edge_pool, before, Seen(1.0, 1.0), at_work(), NOW)
    assert [job.media_id for job in await claim(edge_pool, AGAIN)] == [media_id]


async def test_one_that_takes_every_replica_with_it_is_given_up(edge_pool: Pool, s3: S3) -> None:
    media_id = await keep_picture(edge_pool, s3, grey(50))
    for _ in range(3):
        await claim(edge_pool, lease_seconds=-1.0)
        ((_, verdict),) = await handlers.rescue(edge_pool, attempts_max=3)
    assert verdict == GivenUp()
    row = await job_row(edge_pool, media_id)
    assert (row["state"], row["last_error_code"], row["attempt_count"]) == ("failed", "abandoned", 3)
    assert await open_alerts(edge_pool)


async def test_a_lease_is_renewed_while_somebody_is_at_it(
    edge_pool: Pool, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farmiq.edge.vision_inference.worker.LEASE_SECONDS", 0.6)
    media_id = await keep_picture(edge_pool, s3, grey(50))
    jobs = await claim(edge_pool, lease_seconds=0.6)

    async def is_renewed() -> bool:
        return bool((await job_row(edge_pool, media_id))["lease_expires_at"] > jobs[0].lease_expires_at)

    async with _held(edge_pool, jobs):
        await eventually(is_renewed, what="the lease to be renewed")


async def test_with_the_object_store_away_it_costs_the_picture_no_attempt(edge_pool: Pool, s3: S3) -> None:
    media_id = await keep_picture(edge_pool, s3, grey(50))
    nowhere = ObjectStore(f"http://127.0.0.1:{free_port()}", access_key="a", secret_key="b")
    with closing(nowhere):
        models, announcer = Models(edge_pool, nowhere, Limits(), 1 << 20), Announcer(edge_pool)
        models.at_work = at_work()
        counters = Counters(CollectorRegistry())
        looker = Looker(edge_pool, nowhere, models, announcer, counters, Clock(), 1 << 20, 5)
        (job,) = await claim(edge_pool)
        assert not await looker.attend(job)
    row = await job_row(edge_pool, media_id)
    assert (row["state"], row["attempt_count"], row["last_error_code"]) == ("pending", 0, "object_store_away")


async def test_pictures_that_just_came_go_before_those_that_are_looked_at_again(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    old = [await keep_picture(edge_pool, s3, grey(level)) for level in range(40, 43)]
    await edge_pool.execute("UPDATE inference_jobs SET lane = 1")
    new = await keep_picture(edge_pool, s3, grey(99))
    async with scales(edge_url, s3, write_model(tmp_path, "tiny-v1"), INFERENCE_AT_ONCE="1"):
        await ended(edge_pool, *old, new)
    first = await edge_pool.fetchval("SELECT media_id FROM inference_jobs ORDER BY finished_at LIMIT 1")
    assert first == new


_MANY = """
INSERT INTO inference_jobs (id, tenant_id, farm_id, barn_id, device_id, media_id, bucket, object_key, sha256, state, lane,
                            next_attempt_at, finished_at)
SELECT gen_random_uuid(), 'demo', 'f', 'b', 'd', gen_random_uuid(), 'x', 'y', repeat('0', 64),
       (ARRAY['pending', 'pending', 'done', 'failed'])[1 + n % 4], n / 2 % 2,
       now() + CASE WHEN n % 8 = 0 THEN interval '1 hour' ELSE interval '-1 hour' END,
       CASE WHEN n % 4 > 1 THEN now() END
  FROM generate_series(1, $1) AS n
"""


async def blocks_of_a_claim(connection: Connection) -> int:
    """Pages touched by claiming four jobs."""
    plan = await connection.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {store._CLAIM}", "one", 30.0, LIVE, 4, column=0
    )
    found = msgspec.json.decode(plan)[0]["Plan"]
    return int(found["Shared Hit Blocks"] + found["Shared Read Blocks"])


async def test_finding_the_next_jobs_costs_the_batch_and_not_the_backlog(edge_pool: Pool) -> None:
    async with edge_pool.acquire() as connection:
        await connection.execute(_MANY, 400)
        await connection.execute("ANALYZE inference_jobs")
        few = await blocks_of_a_claim(connection)
        await connection.execute(_MANY, 40_000)
        await connection.execute("ANALYZE inference_jobs")
        many = await blocks_of_a_claim(connection)
    assert many < few + 100, (few, many)


async def test_old_jobs_and_results_go_and_the_alert_ends_with_the_last_that_was_given_up(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    await register(edge_pool)
    good, bad = await keep_picture(edge_pool, s3, grey(50)), await keep_picture(edge_pool, s3, b"broken")
    waiting = await keep_picture(edge_pool, s3, grey(51))
    await edge_pool.execute(
        "UPDATE inference_jobs SET next_attempt_at = now() + interval '1 hour' WHERE media_id = $1", waiting
    )
    async with scales(edge_url, s3, write_model(tmp_path, "tiny-v1")):
        await asyncio.gather(ended(edge_pool, good, bad))
    settings = InferenceRetentionSettings()

    class Later(Clock):
        def now(self):  # type: ignore[no-untyped-def]  # the clock's own type
            return super().now() + timedelta(days=31)

    async with edge_pool.acquire() as connection:
        assert await delete_finished(settings, Work(connection, Clock())) == {"jobs": 0, "results": 0}
        assert await open_alerts(edge_pool)
        assert await delete_finished(settings, Work(connection, Later(), is_dry_run=True)) == {"jobs": 2, "results": 0}
        assert await delete_finished(settings, Work(connection, Later())) == {"jobs": 2, "results": 0}
    assert not await open_alerts(edge_pool)
    assert [row["media_id"] for row in await edge_pool.fetch("SELECT media_id FROM inference_jobs")] == [waiting]
