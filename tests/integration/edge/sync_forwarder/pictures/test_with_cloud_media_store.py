"""Edge store → forwarder → the real cloud-media-store and its object store."""

import asyncio
import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest

from farmiq.cloud.ingestion import edges
from farmiq.cloud.media_store.store import DIGESTED as CLOUD_PICTURES
from farmiq.edge.media_store.store import DIGESTED as EDGE_PICTURES
from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.picture_notes import without_notes
from farmiq.kit.postgres import Pool
from farmiq.stack.object_store import create_bucket
from support import cloud_media, media_world
from support.edge_pictures import EdgePictures, picture_environ, transfers_by_state
from support.forwarder import SERVICE, forwarder_environ
from support.picture_files import COMMENT, picture, with_place
from support.rabbitmq import NewVirtualHost
from support.s3 import S3
from support.scripted_cloud import ScriptedCloud, cloud
from support.service_process import StartService, running, start_service
from support.waiting import eventually

__all__ = ["cloud", "start_service"]  # fixtures
PICTURES = 30


@pytest.fixture
def cloud_s3(s3: S3) -> S3:
    bucket = f"{s3.bucket}c"
    create_bucket(s3.endpoint, s3.access_key, s3.secret_key, bucket)
    return replace(s3, bucket=bucket)


@pytest.fixture
def pictures(edge_pool: Pool, s3: S3) -> Iterator[EdgePictures]:
    made = EdgePictures(edge_pool, s3)
    yield made
    made.store.close()


async def sent_at_least(pool: Pool, count: int) -> bool:
    return (await transfers_by_state(pool)).get("sent", 0) >= count


async def test_every_picture_is_in_the_cloud_though_the_media_store_is_killed_on_the_way(
    edge_url: str,
    edge_pool: Pool,
    cloud_url: str,
    cloud_pool: Pool,
    cloud: ScriptedCloud,
    new_vhost: NewVirtualHost,
    start_service: StartService,
    s3: S3,
    cloud_s3: S3,
    pictures: EdgePictures,
) -> None:
    token = secrets.token_urlsafe(24)
    async with cloud_pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo"], token=token)
    kept = dict([await pictures.keep(20_000 + 1000 * number) for number in range(PICTURES)])
    media_store = await asyncio.to_thread(
        start_service, cloud_media.SERVICE, cloud_media.environ(cloud_url, new_vhost(), cloud_s3)
    )
    lane = picture_environ(
        s3, media_store.url, OUTBOX_BACKOFF_CAP_SECONDS="1", OUTBOX_MAX_ATTEMPTS="3", MEDIA_SYNC_WANTED_SECONDS="1"
    )
    environ = forwarder_environ(edge_url, cloud.url, **lane) | {"CLOUD_INGESTION_TOKEN": token}
    async with running(serve, SERVICE, environ):
        for share in (0.2, 0.5):
            await eventually(partial(sent_at_least, edge_pool, int(share * PICTURES)))
            media_store.kill()
            await asyncio.to_thread(media_store.start)
        await eventually(lambda: sent_at_least(edge_pool, PICTURES), 60)
        rows = await cloud_pool.fetch("SELECT id, object_key FROM media_objects WHERE state = 'stored'")
        assert {row["id"] for row in rows} == set(kept)
        for row in rows:
            assert await pictures.store.get(cloud_s3.bucket, row["object_key"], bytes_max=1 << 20) == kept[row["id"]]

        # What the cloud finds missing in its store, it asks for, and gets.
        lost = rows[0]
        await pictures.store.delete(cloud_s3.bucket, lost["object_key"])
        await cloud_pool.execute("UPDATE media_objects SET state = 'missing' WHERE id = $1", lost["id"])
        await eventually(partial(is_stored, cloud_pool, lost["id"]), 30, "the lost picture to be sent again")
        assert await pictures.store.get(cloud_s3.bucket, lost["object_key"], bytes_max=1 << 20) == kept[lost["id"]]


async def is_stored(pool: Pool, media_id: UUID) -> bool:
    return bool(await pool.fetchval("SELECT state = 'stored' FROM media_objects WHERE id = $1", media_id))


async def test_what_a_camera_wrote_beside_a_picture_stays_at_the_edge_and_the_tiers_agree(
    edge_url: str,
    edge_pool: Pool,
    cloud_url: str,
    cloud_pool: Pool,
    cloud: ScriptedCloud,
    new_vhost: NewVirtualHost,
    start_service: StartService,
    s3: S3,
    cloud_s3: S3,
    pictures: EdgePictures,
) -> None:
    token = secrets.token_urlsafe(24)
    async with cloud_pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo"], token=token)
    taken = {}
    async with media_world.station(edge_pool, edge_url, s3) as scale:
        for data in (with_place("JPEG"), with_place("PNG"), picture("JPEG")):
            kind = "image/png" if data.startswith(b"\x89PNG") else "image/jpeg"
            media_id = await scale.upload(data, contentType=kind)
            assert (await scale.complete(media_id)).body["sha256"] == hashlib.sha256(data).hexdigest()
            taken[media_id] = data
    media_store = await asyncio.to_thread(
        start_service, cloud_media.SERVICE, cloud_media.environ(cloud_url, new_vhost(), cloud_s3)
    )
    lane = picture_environ(s3, media_store.url, OUTBOX_BACKOFF_CAP_SECONDS="1", OUTBOX_MAX_ATTEMPTS="3")
    environ = forwarder_environ(edge_url, cloud.url, **lane) | {"CLOUD_INGESTION_TOKEN": token}
    async with running(serve, SERVICE, environ):
        await eventually(lambda: sent_at_least(edge_pool, len(taken)), 30)
    arrived = {
        row["id"]: (row["sha256"], await pictures.store.get(cloud_s3.bucket, row["object_key"], bytes_max=1 << 20))
        for row in await cloud_pool.fetch("SELECT id, object_key, sha256 FROM media_objects WHERE state = 'stored'")
    }
    assert {media_id: body for media_id, (_, body) in arrived.items()} == {
        media_id: without_notes(data) for media_id, data in taken.items()
    }
    assert not any(COMMENT in body for _, body in arrived.values())
    said = {
        UUID(event["payload"]["media_id"]): event["payload"] for event in await media_world.stored_events(edge_pool)
    }
    assert {media_id: payload["sha256"] for media_id, payload in said.items()} == {
        media_id: sha256 for media_id, (sha256, _) in arrived.items()
    }
    kept = await edge_pool.fetch("SELECT id, bucket, object_key FROM media_objects")
    for row in kept:
        assert await pictures.store.get(row["bucket"], row["object_key"], bytes_max=1 << 20) == taken[row["id"]]
    since, until = media_world.CAPTURED_AT - timedelta(days=1), media_world.CAPTURED_AT + timedelta(days=1)
    digests = []
    for pool, digested in ((edge_pool, EDGE_PICTURES), (cloud_pool, CLOUD_PICTURES)):
        async with pool.acquire() as connection:
            digests.append((await digested.days(connection, "demo", None, since, until)).days)
    assert digests[0] == digests[1] != []
