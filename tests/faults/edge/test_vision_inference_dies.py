"""Killed between any two lines, run twice at once: each picture gets one result of each model, told once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import psutil

from farmiq.kit.postgres import Pool
from support.inference_world import (
    SERVICE,
    assert_weighed_once,
    ended,
    grey,
    inference_environment,
    keep_picture,
    scales,
)
from support.s3 import S3
from support.service_process import Death, ServiceProcess
from support.tiny_models import write_model

HERE = "farmiq.edge.vision_inference"
DEATHS: list[Death] = [
    (f"{HERE}.worker:_attend", "before", 1),
    (f"{HERE}.engine:Engine.look_at", "after", 2),  # the first is the probe
    (f"{HERE}.store:finish", "after", 1),
    (f"{HERE}.store:add_result", "after", 1),
    ("farmiq.outbox:add", "after", 1),
    (f"{HERE}.handlers:sessions.inference_completed", "after", 1),
    (f"{HERE}.looking:complete", "after", 1),
]


@contextlib.asynccontextmanager
async def process(
    environ: dict[str, str], run_folder: Path, log: Path, dies: Death | None = None
) -> AsyncIterator[ServiceProcess]:
    service = ServiceProcess(SERVICE, environ, run_folder, log, dies)
    await asyncio.to_thread(service.start)
    try:
        yield service
    finally:
        await asyncio.to_thread(service.kill)


async def test_killed_anywhere_each_picture_is_weighed_and_told_exactly_once(
    edge_pool: Pool, edge_url: str, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    """One picture for each of those that will die: all of them together, and each takes one."""
    model, log = write_model(tmp_path, "tiny-v1"), tmp_path / "inference.log"
    environ = inference_environment(edge_url, s3, model, INFERENCE_AT_ONCE="1")
    media_ids = [await keep_picture(edge_pool, s3, grey(level)) for level in range(40, 40 + len(DEATHS))]
    async with contextlib.AsyncExitStack() as doomed:
        services = await asyncio.gather(
            *(doomed.enter_async_context(process(environ, run_folder, log, death)) for death in DEATHS)
        )
        await asyncio.gather(*(asyncio.to_thread(service.wait_for_death) for service in services))
    # One was killed after its commit, all others before.
    states = await edge_pool.fetch("SELECT state FROM inference_jobs ORDER BY state")
    assert [row["state"] for row in states] == ["done"] + ["running"] * (len(DEATHS) - 1)
    assert await edge_pool.fetchval("SELECT count(*) FROM inference_results") == 1
    # Their leases would be over in half a minute.
    await edge_pool.execute("UPDATE inference_jobs SET lease_expires_at = now() WHERE state = 'running'")
    async with process(environ, run_folder, log) as service:
        assert set(await ended(edge_pool, *media_ids)) == {"done"}
        assert service._process is not None
        children = psutil.Process(service._process.pid).children()
    assert children
    # Killed with -9, the service takes the process with the model along: it has nobody left to listen to.
    _, alive = await asyncio.to_thread(psutil.wait_procs, children, 20)
    assert not alive
    await assert_weighed_once(edge_pool, media_ids)


async def test_replicas_that_race_for_the_same_pictures_weigh_each_once(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    model = write_model(tmp_path, "tiny-v1")
    async with scales(edge_url, s3, model) as one, scales(edge_url, s3, model) as two:
        media_ids = await asyncio.gather(*(keep_picture(edge_pool, s3, grey(level)) for level in range(20, 50)))
        both = [one.again(media_ids=[str(media_id)]) for media_id in media_ids]
        both += [two.again(media_ids=[str(media_id)]) for media_id in media_ids]
        assert {answer.status for answer in await asyncio.gather(*both)} == {202}
        assert set(await ended(edge_pool, *media_ids)) == {"done"}
    await assert_weighed_once(edge_pool, list(media_ids))


async def test_told_to_stop_it_finishes_the_pictures_that_it_has(
    edge_pool: Pool, edge_url: str, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    environ = inference_environment(edge_url, s3, write_model(tmp_path, "tiny-v1"), INFERENCE_AT_ONCE="2")
    media_ids = [await keep_picture(edge_pool, s3, grey(level, 2000, 2000)) for level in range(60, 70)]
    async with process(environ, run_folder, tmp_path / "inference.log") as service:
        await ended(edge_pool, media_ids[0])
        assert await asyncio.to_thread(service.stop) == 0
    states = await edge_pool.fetch("SELECT state FROM inference_jobs WHERE state NOT IN ('pending', 'done')")
    assert states == []
