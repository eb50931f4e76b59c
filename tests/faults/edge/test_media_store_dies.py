"""Killed between any two lines, run twice at once, its object store away: each picture is stored and told exactly once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import aiohttp
import pytest

from farmiq.contracts.weighvision import ImageCaptured
from farmiq.edge.media_store import intake
from farmiq.kit.postgres import Pool
from farmiq.stack.object_store import create_bucket
from farmiq.stack.seaweedfs import SeaweedFs
from support.media_world import (
    SERVICE,
    STATION,
    Answer,
    Station,
    assert_stored_once,
    environment,
    register,
    replica,
    station,
)
from support.picture_files import picture
from support.s3 import S3, start_seaweedfs
from support.service_process import Death, ServiceProcess
from support.waiting import eventually

JPEG = picture()
IN_MEDIA_STORE = "farmiq.edge.media_store"
QUIET = {"MEDIA_SWEEP_SECONDS": "3600"}

LOOKING: list[Death] = [
    (f"{IN_MEDIA_STORE}.inspection:examine", "before", 1),
    (f"{IN_MEDIA_STORE}.inspection:examine", "after", 1),
    (f"{IN_MEDIA_STORE}.store:mark_stored", "before", 1),
    (f"{IN_MEDIA_STORE}.store:mark_stored", "after", 1),
    ("farmiq.outbox:add", "after", 1),
    (f"{IN_MEDIA_STORE}.handlers:follow_picture", "after", 1),
    (f"{IN_MEDIA_STORE}.inspection:settle", "after", 1),
]
TAKING: list[tuple[Death, int]] = [
    (("farmiq.kit.s3:ObjectStore.put", "before", 1), 200),
    (("farmiq.kit.s3:ObjectStore.put", "after", 1), 412),
    ((f"{IN_MEDIA_STORE}.store:announce", "before", 1), 412),
    ((f"{IN_MEDIA_STORE}.store:announce", "after", 1), 412),
]


@contextlib.asynccontextmanager
async def process(
    environ: dict[str, str], run_folder: Path, tmp_path: Path, dies: Death | None = None
) -> AsyncIterator[ServiceProcess]:
    service = ServiceProcess(SERVICE, environ, run_folder, tmp_path / "media.log", dies)
    await asyncio.to_thread(service.start)
    try:
        yield service
    finally:
        await asyncio.to_thread(service.kill)


async def is_stored(pool: Pool, media_id: UUID) -> bool:
    return bool(await pool.fetchval("SELECT state = 'stored' FROM media_objects WHERE id = $1", media_id))


async def are_stored(pool: Pool) -> bool:
    return bool(await pool.fetchval("SELECT bool_and(state = 'stored') FROM media_objects"))


async def announce(pool: Pool, media_ids: list[UUID]) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await intake.announce(
            connection, [intake.Announcement(STATION, ImageCaptured(media_id=media_id)) for media_id in media_ids]
        )


async def test_killed_anywhere_while_it_looks_each_picture_is_stored_and_told_exactly_once(
    edge_pool: Pool, edge_url: str, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    """One picture for each of those that will die: all of them together, and each takes one."""
    async with station(edge_pool, edge_url, s3, **QUIET) as scale:
        uploads = [await scale.upload(JPEG) for _ in LOOKING]
    environ = environment(edge_url, s3, **QUIET, MEDIA_CHECKS_AT_ONCE="1")
    async with contextlib.AsyncExitStack() as doomed:
        services = await asyncio.gather(
            *(doomed.enter_async_context(process(environ, run_folder, tmp_path, death)) for death in LOOKING)
        )
        await announce(edge_pool, uploads)
        await asyncio.gather(*(asyncio.to_thread(service.wait_for_death) for service in services))
    # One was killed after its commit, all others before.
    states = await edge_pool.fetch("SELECT state FROM media_objects ORDER BY state")
    assert [row["state"] for row in states] == ["presigned"] * (len(LOOKING) - 1) + ["stored"]
    # Their leases would be over in half a minute.
    await edge_pool.execute("UPDATE media_objects SET next_check_at = now() WHERE state = 'presigned'")
    async with process(environ, run_folder, tmp_path):
        await eventually(lambda: are_stored(edge_pool), what="all of them to be stored")
    await assert_stored_once(edge_pool, uploads)


async def test_killed_anywhere_while_it_takes_a_picture_the_device_tries_again_and_it_is_stored_once(
    edge_pool: Pool, edge_url: str, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    token, environ = await register(edge_pool), environment(edge_url, s3, **QUIET)

    async def cut(session: aiohttp.ClientSession, death: Death) -> Answer:
        async with process(environ, run_folder, tmp_path, death) as service:
            scale = Station(session, service.url, token)
            presigned = await scale.presign()
            with pytest.raises(aiohttp.ClientError):
                await scale.put(presigned, JPEG)
            await asyncio.to_thread(service.wait_for_death)
        return presigned

    async with aiohttp.ClientSession() as session:
        cuts = await asyncio.gather(*(cut(session, death) for death, _ in TAKING))
        media_ids = [UUID(presigned.body["media_id"]) for presigned in cuts]
        async with process(environ, run_folder, tmp_path) as service:
            scale = Station(session, service.url, token)
            for media_id, presigned, (_, status) in zip(media_ids, cuts, TAKING, strict=True):
                path = presigned.body["upload_url"].partition("/api/")[2]
                again = await scale.put(presigned.with_url(f"{service.url}/api/{path}"), JPEG)
                # One that was announced before the end may be stored by now: then its URL is spent.
                assert again.status == status or await is_stored(edge_pool, media_id), again.body
                assert (await scale.complete(media_id)).status == 200
    await assert_stored_once(edge_pool, media_ids)


async def test_killed_after_the_commit_of_a_presign_the_device_asks_again_and_nothing_stays_behind(
    edge_pool: Pool, edge_url: str, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    token, environ = await register(edge_pool), environment(edge_url, s3, **QUIET)
    death = (f"{IN_MEDIA_STORE}.api:admit", "after", 1)
    async with aiohttp.ClientSession() as session, process(environ, run_folder, tmp_path, death) as service:
        with pytest.raises(aiohttp.ClientError):
            await Station(session, service.url, token).presign(JPEG)
        await asyncio.to_thread(service.wait_for_death)
    assert await edge_pool.fetchval("SELECT count(*) FROM media_objects") == 1
    await edge_pool.execute("UPDATE media_objects SET expires_at = now() - interval '1 day', next_check_at = now()")
    await edge_pool.execute("UPDATE devices SET revoked_at = now()")  # so that it can be added once more
    async with station(edge_pool, edge_url, s3, **QUIET) as scale:
        media_id = await scale.upload(JPEG)
        assert (await scale.complete(media_id)).status == 200

        async def is_alone() -> bool:
            return bool(await edge_pool.fetchval("SELECT count(*) = 1 FROM media_objects"))

        await eventually(is_alone, what="the URL that nobody got to be forgotten")
    await assert_stored_once(edge_pool, [media_id])


async def test_replicas_that_race_for_the_same_pictures_store_each_once(edge_pool: Pool, edge_url: str, s3: S3) -> None:
    eager = {"MEDIA_SWEEP_SECONDS": "0.05"}
    async with station(edge_pool, edge_url, s3, **eager) as one, replica(one, edge_url, s3, **eager) as two:
        uploads = [await one.upload(JPEG) for _ in range(20)]
        await asyncio.gather(*(at.complete(media_id) for media_id in uploads for at in (one, two)))
        await eventually(lambda: are_stored(edge_pool), what="all of them to be stored")
    await assert_stored_once(edge_pool, uploads)


async def test_with_the_object_store_away_nothing_changes_its_state_and_it_goes_on_by_itself(
    edge_pool: Pool, edge_url: str, run_folder: Path, tmp_path: Path
) -> None:
    server = await asyncio.to_thread(start_seaweedfs, tmp_path / "seaweedfs", run_folder)
    try:
        assert isinstance(server.server, SeaweedFs)
        key = server.server.identities[0]
        s3 = S3(server.server.endpoint, key.access_key, key.secret_key, "pictures")
        await asyncio.to_thread(create_bucket, s3.endpoint, s3.access_key, s3.secret_key, s3.bucket)
        async with station(edge_pool, edge_url, s3, MEDIA_SWEEP_SECONDS="0.1") as scale:
            media_id = await scale.upload(JPEG)
            await asyncio.to_thread(server.kill)
            for answer in (await scale.complete(media_id), await scale.put(await scale.presign(), JPEG)):
                assert answer.status == 503, answer.body
                assert int(answer.headers["retry-after"]) > 0
            assert (await scale.presign(JPEG)).status == 200
            assert (await scale.call("GET", "/api/ready")).status == 503
            states = await edge_pool.fetch("SELECT state FROM media_objects")
            assert {row["state"] for row in states} == {"presigned"}
            await asyncio.to_thread(server.start)
            await eventually(lambda: is_stored(edge_pool, media_id), 60, what="the picture to be stored")
        await assert_stored_once(edge_pool, [media_id])
    finally:
        server.stop()


DECLARING: list[Death] = [
    (f"{IN_MEDIA_STORE}.losses:append_own", "after", 1),
    (f"{IN_MEDIA_STORE}.losses:record_station_loss", "before", 1),
    (f"{IN_MEDIA_STORE}.losses:record_station_loss", "after", 2),
    (f"{IN_MEDIA_STORE}.losses:give_up_transfers", "after", 1),
    (f"{IN_MEDIA_STORE}.losses:declare_due", "after", 1),
]


async def test_killed_anywhere_while_it_declares_each_lost_picture_is_declared_exactly_once(
    edge_pool: Pool, edge_url: str, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    """promise-device-edge 11."""
    cut = [JPEG[: len(JPEG) // 2 + number] for number in range(3)]
    environ = environment(edge_url, s3, **QUIET)
    async with station(edge_pool, edge_url, s3, **QUIET) as scale:
        media_ids = [await scale.upload(data) for data in cut]
        for media_id in media_ids:
            assert (await scale.complete(media_id, awaited="false")).status == 422
    await edge_pool.execute(
        "UPDATE media_objects SET announced_at = now()"
    )  # that it is announced is nobody's news here
    for death in DECLARING:
        async with process(environ, run_folder, tmp_path, death) as service:
            await asyncio.to_thread(service.wait_for_death)

    async def are_declared() -> bool:
        return bool(await edge_pool.fetchval("SELECT bool_and(declared_lost_at IS NOT NULL) FROM media_objects"))

    async with process(environ, run_folder, tmp_path):
        await eventually(are_declared, what="all of them to be declared")
    for table in ("station_losses", "sync_outbox WHERE event_type = 'station.loss'"):
        assert await edge_pool.fetchval(f"SELECT count(*) FROM {table}") == len(cut), table  # noqa: S608 - our own


async def test_killed_between_removing_damaged_bytes_and_signing_their_upload_the_picture_comes_again(
    edge_pool: Pool, edge_url: str, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    token, environ = await register(edge_pool), environment(edge_url, s3, **QUIET)
    async with process(environ, run_folder, tmp_path) as service, aiohttp.ClientSession() as session:
        scale = Station(session, service.url, token)
        media_id = await scale.upload(JPEG)
        assert (await scale.complete(media_id)).status == 200
    refused = """UPDATE media_objects SET state = 'refused', refused_reason = 'changed', refused_at = now(),
                 declare_at = now() + interval '1 hour'"""
    await edge_pool.execute(refused)
    async with aiohttp.ClientSession() as session:
        async with process(environ, run_folder, tmp_path, ("farmiq.kit.s3:ObjectStore.delete", "after", 1)) as service:
            with pytest.raises(aiohttp.ClientError):
                await Station(session, service.url, token).presign(JPEG)
            await asyncio.to_thread(service.wait_for_death)
        assert await edge_pool.fetchval("SELECT state FROM media_objects") == "refused"
        async with process(environ, run_folder, tmp_path) as service:
            assert await Station(session, service.url, token).upload(JPEG) == media_id
            await eventually(lambda: is_stored(edge_pool, media_id), what="the picture to be stored again")
    await assert_stored_once(edge_pool, [media_id])
