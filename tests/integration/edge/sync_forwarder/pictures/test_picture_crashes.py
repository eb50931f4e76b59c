"""A real forwarder that kills itself between two steps of sending a picture; the next one finishes it, and stores it once."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from farmiq.kit.postgres import Pool
from support.edge_pictures import EdgePictures, picture_environ, transfer_row
from support.forwarder import SERVICE, forwarder_environ
from support.s3 import S3
from support.scripted_cloud import ScriptedCloud, cloud
from support.scripted_media_cloud import ScriptedMediaCloud, media_cloud
from support.service_process import Death, ServiceProcess
from support.waiting import eventually

__all__ = ["cloud", "media_cloud"]  # fixtures
PICTURES = "farmiq.edge.sync_forwarder.pictures"
STEPS: dict[str, Death] = {
    "after the claim": (f"{PICTURES}.cloud:CloudMedia.presign", "before", 1),
    "with the URL in hand": (f"{PICTURES}.cloud:CloudMedia.presign", "after", 1),
    "in the middle of the bytes": (f"{PICTURES}.flow:Flow._paced", "before", 3),
    "with the bytes stored": (f"{PICTURES}.upload:Uploader.upload", "after", 1),
    "with the cloud's word": (f"{PICTURES}.cloud:CloudMedia.complete", "after", 1),
    "with the row settled": (f"{PICTURES}.store:settle", "after", 1),
}


@pytest.fixture
def pictures(edge_pool: Pool, s3: S3) -> Iterator[EdgePictures]:
    made = EdgePictures(edge_pool, s3)
    yield made
    made.store.close()


@pytest.mark.parametrize("death", STEPS.values(), ids=STEPS.keys())
async def test_killed_between_any_two_steps_the_picture_arrives_whole_and_once(
    edge_url: str,
    edge_pool: Pool,
    cloud: ScriptedCloud,
    s3: S3,
    pictures: EdgePictures,
    media_cloud: ScriptedMediaCloud,
    run_folder: Path,
    tmp_path: Path,
    death: Death,
) -> None:
    media_id, body = await pictures.keep(300_000)
    lane = picture_environ(s3, media_cloud.url, OUTBOX_LEASE_SECONDS="60", SYNC_INTERVAL_MS="200")
    environ = forwarder_environ(edge_url, cloud.url, **lane)
    first = ServiceProcess(SERVICE, environ, run_folder, tmp_path / "first.log", dies=death)
    second = ServiceProcess(SERVICE, environ | {"INSTANCE_ID": "second"}, run_folder, tmp_path / "second.log")
    try:
        await asyncio.to_thread(partial(first.start, is_awaited=False))
        await asyncio.to_thread(first.wait_for_death)
        row = await transfer_row(edge_pool, media_id)
        assert (row["state"], row["claimed_by"]) == ("sending", "replica-1")
        await edge_pool.execute("UPDATE media_transfers SET lease_expires_at = now() - interval '1 second'")
        await asyncio.to_thread(second.start)
        await eventually(lambda: is_sent(edge_pool, media_id), 40, "the picture to be sent")
    finally:
        await asyncio.to_thread(second.stop)
    row = await transfer_row(edge_pool, media_id)
    assert (row["claimed_by"], row["claim_token"], row["attempt_count"]) == ("second", 2, 1)
    assert await media_cloud.body_of(media_id) == body
    assert media_cloud.stored[media_id] == 1
    assert await media_cloud.keys() == [media_cloud.key(media_id)]


async def is_sent(pool: Pool, media_id: object) -> bool:
    return bool(await pool.fetchval("SELECT state = 'sent' FROM media_transfers WHERE media_id = $1", media_id))
