"""A process that kills itself between two lines. Another replica, which was there all the time, finds nothing half done."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from farmiq.cloud.media_store.picture import thumbnail_key
from farmiq.contracts import bus
from farmiq.kit.object_inventory import walk
from farmiq.kit.postgres import Pool
from support.bus_queue import take_all
from support.cloud_media import SERVICE, MediaCloud, media_cloud, publish, shot
from support.rabbitmq import NewVirtualHost
from support.s3 import S3
from support.service_process import Death, ServiceProcess
from support.waiting import eventually


@dataclass(frozen=True)
class Doomed:
    process: ServiceProcess
    cloud: MediaCloud

    async def until_dead(self) -> None:
        await asyncio.to_thread(self.process.wait_for_death)


Doom = Callable[..., AbstractAsyncContextManager[Doomed]]


@pytest.fixture
def doomed(pool: Pool, variables: dict[str, str], bucket: S3, run_folder: Path, tmp_path: Path) -> Doom:
    """A replica that dies at the appointed moment, and a client of it."""

    @asynccontextmanager
    async def start(death: Death, **more: str) -> AsyncIterator[Doomed]:
        process = ServiceProcess(SERVICE, {**variables, **more}, run_folder, tmp_path / "doomed.log", death)
        await asyncio.to_thread(process.start)
        try:
            async with media_cloud(pool, variables, bucket, url=process.url) as client:
                yield Doomed(process, client)
        finally:
            process.kill()

    return start


@pytest.mark.parametrize(
    ("death", "state"),
    [
        (("farmiq.kit.s3:ObjectStore.digest", "before", 1), "announced"),
        (("farmiq.kit.s3:ObjectStore.digest", "after", 1), "announced"),
        (("farmiq.cloud.media_store.store:mark_stored", "after", 1), "announced"),
        (("farmiq.cloud.media_store.handlers:complete", "after", 1), "stored"),
    ],
    ids=["before the bytes are read", "between comparing and the row", "before the commit", "before the answer"],
)
async def test_killed_while_a_picture_is_compared_it_is_stored_by_the_next_try(
    cloud: MediaCloud, doomed: Doom, death: Death, state: str
) -> None:
    one = shot()
    async with doomed(death) as dying:
        await dying.cloud.upload(one)
        with pytest.raises(aiohttp.ClientError):
            await dying.cloud.complete(one)
        await dying.until_dead()

    assert (await cloud.row(one))["state"] == state
    assert await cloud.complete(one) == (200, {"state": "stored"})
    assert await cloud.store.get(cloud.bucket, await cloud.key(one), bytes_max=1_000_000) == one.body


async def test_killed_after_other_bytes_were_removed_the_picture_can_be_sent_again(
    cloud: MediaCloud, doomed: Doom
) -> None:
    one = shot()
    await cloud.presign(one)
    await cloud.store.put(cloud.bucket, await cloud.key(one), b"something else", content_type="image/jpeg")
    async with doomed(("farmiq.kit.s3:ObjectStore.delete", "after", 1)) as dying:
        with pytest.raises(aiohttp.ClientError):
            await dying.cloud.complete(one)
        await dying.until_dead()

    status, answer = await cloud.complete(one)
    assert (status, answer["error"]["code"]) == (409, "object_missing")
    await cloud.send(one)


async def test_killed_before_the_url_is_given_the_picture_is_known_and_wanted(cloud: MediaCloud, doomed: Doom) -> None:
    one = shot()
    async with doomed(("farmiq.cloud.media_store.handlers:want", "after", 1)) as dying:
        with pytest.raises(aiohttp.ClientError):
            await dying.cloud.presign(one)
        await dying.until_dead()

    assert (await cloud.row(one))["state"] == "announced"
    await cloud.send(one)


async def test_killed_between_the_commit_and_the_acknowledgement_the_event_comes_again_and_changes_nothing(
    pool: Pool, variables: dict[str, str], bucket: S3, doomed: Doom, new_vhost: NewVirtualHost
) -> None:
    own = new_vhost()
    one = shot()
    async with doomed(("farmiq.cloud.media_store.consumer:announce", "after", 1), AMQP_URL=own) as dying:
        await publish(own, one.event())
        await dying.until_dead()
    before = [dict(row) for row in await pool.fetch("SELECT * FROM media_objects")]
    assert len(before) == 1, "committed"

    async with media_cloud(pool, {**variables, "AMQP_URL": own}, bucket) as cloud:

        async def is_acknowledged() -> bool:
            async with cloud.session.get(f"{cloud.url}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            done = f'farmiq_bus_messages_done_total{{queue="{bus.MEDIA_STORE_QUEUE}"}}'
            return any(line == f"{done} 1.0" for line in lines)

        await eventually(is_acknowledged, what="the event to be acknowledged")
    assert await take_all(own, bus.MEDIA_STORE_QUEUE) == []
    assert [dict(row) for row in await pool.fetch("SELECT * FROM media_objects")] == before


async def test_killed_after_the_thumbnail_was_kept_it_is_shown_by_the_next_who_is_asked(
    cloud: MediaCloud, doomed: Doom
) -> None:
    one = shot()
    await cloud.send(one)
    async with doomed(("farmiq.kit.s3:ObjectStore.put", "after", 1)) as dying:
        with pytest.raises(aiohttp.ClientError):
            await dying.cloud.read(f"/{one.media_id}/thumbnail")
        await dying.until_dead()

    kept = await cloud.store.get(cloud.bucket, thumbnail_key(await cloud.key(one)), bytes_max=1_000_000)
    assert await cloud.read(f"/{one.media_id}/thumbnail") == (200, kept)


async def test_killed_between_the_bytes_and_the_row_retention_ends_what_it_began(
    cloud: MediaCloud, doomed: Doom, pool: Pool, variables: dict[str, str], bucket: S3
) -> None:
    one = shot()
    await cloud.send(one)
    key = await cloud.key(one)
    await pool.execute("UPDATE media_objects SET stored_at = now() - interval '2 days'")
    await pool.execute("DELETE FROM job_runs")
    due = {"JOB_SCHEDULER_ENABLED": "true", "MEDIA_RETENTION_DAYS": "1"}
    async with doomed(("farmiq.kit.s3:ObjectStore.delete_many", "after", 1), **due) as dying:
        await dying.until_dead()
    assert (await cloud.row(one))["state"] == "stored"
    assert key not in [found.key async for found in walk(cloud.store, cloud.bucket)]

    await pool.execute("DELETE FROM job_runs")
    async with media_cloud(pool, {**variables, **due}, bucket):

        async def is_gone() -> bool:
            return bool(await pool.fetchval("SELECT count(*) = 0 FROM media_objects"))

        await eventually(is_gone, 30.0, "the row to be gone")
