"""Bytes that a device may ask upload URLs for: up to a number a day, and none while the edge's disk is below its floor."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from farmiq.torture.disks import SmallDisk
from support.media_world import Station, register, replica, station
from support.picture_files import picture
from support.s3 import S3
from support.waiting import eventually

JPEG = picture()
OTHER = Origin("demo", "farm-1", "barn-1", "scale-2")
TWO_A_DAY = {"MEDIA_DEVICE_BYTES_PER_DAY": str(2 * len(JPEG)), "MEDIA_TENANT_BYTES_PER_DAY": str(3 * len(JPEG))}


@pytest_asyncio.fixture
async def scale(edge_pool: Pool, edge_url: str, s3: S3) -> AsyncIterator[Station]:
    async with station(edge_pool, edge_url, s3, **TWO_A_DAY) as scale:
        yield scale


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path / "edge")
    if not small.mount():
        pytest.skip("this user may not mount a tmpfs")
    yield small
    small.unmount()


async def bytes_of_day(pool: Pool, device_id: str = "scale-1") -> int:
    return int(
        await pool.fetchval("SELECT coalesce(sum(bytes), 0) FROM media_bytes_of_day WHERE device_id = $1", device_id)
    )


async def test_bytes_beyond_the_days_limit_wait_whoever_is_asked(
    edge_pool: Pool, edge_url: str, s3: S3, scale: Station
) -> None:
    for _ in range(2):
        await scale.upload(JPEG, is_told=True)
    refused = await scale.presign(JPEG)
    assert (refused.status, refused.code) == (429, "too_many_bytes")
    assert 1 <= int(refused.headers["retry-after"]) <= 600
    async with replica(scale, edge_url, s3, **TWO_A_DAY) as another:  # and after a restart: it is in the database
        assert (await another.presign(JPEG)).code == "too_many_bytes"
    assert await bytes_of_day(edge_pool) == 2 * len(JPEG)
    await edge_pool.execute("UPDATE media_bytes_of_day SET day = day - 1")
    await scale.upload(JPEG, is_told=True)
    assert await edge_pool.fetchval("SELECT count(*) FROM media_objects") == 3


async def test_devices_of_a_tenant_share_a_limit(edge_pool: Pool, scale: Station) -> None:
    other = scale.beside(OTHER, await register(edge_pool, OTHER))
    for _ in range(2):
        await scale.upload(JPEG, is_told=True)
    await other.upload(JPEG, is_told=True)
    assert (await other.presign(JPEG)).code == "too_many_bytes"


async def test_bytes_that_come_through_the_service_count_when_they_are_there(edge_pool: Pool, scale: Station) -> None:
    for _ in range(2):
        await scale.upload(JPEG, is_told=False)
    assert await bytes_of_day(edge_pool) == 2 * len(JPEG)
    presigned = await scale.presign()
    refused = await scale.put(presigned, JPEG)
    assert (refused.status, refused.code) == (429, "too_many_bytes")
    await edge_pool.execute("DELETE FROM media_bytes_of_day")
    assert (await scale.put(presigned, JPEG)).status == 200


async def test_garbage_counts_like_pictures(edge_pool: Pool, scale: Station) -> None:
    garbage = b"\xff" * len(JPEG)
    for _ in range(2):
        media_id = await scale.upload(garbage, is_told=True)
        assert (await scale.complete(media_id)).status == 422
    assert (await scale.presign(JPEG)).code == "too_many_bytes"


async def test_a_refused_url_costs_no_bytes(edge_pool: Pool, edge_url: str, s3: S3) -> None:
    async with station(edge_pool, edge_url, s3, MEDIA_PRESIGNS_PER_MINUTE="1") as scale:
        assert (await scale.presign(JPEG)).status == 200
        assert (await scale.presign(JPEG)).code == "too_fast"
    assert await bytes_of_day(edge_pool) == len(JPEG)


async def test_no_picture_is_taken_below_the_disks_floor_and_all_are_above_it(
    edge_pool: Pool, edge_url: str, s3: S3, disk: SmallDisk
) -> None:
    limits = {"EDGE_DATA_DIR": str(disk.path), "EDGE_DISK_FLOOR_PERCENT": "20"}
    async with station(edge_pool, edge_url, s3, **limits) as scale:

        async def is_answered(status: int) -> bool:
            return (await scale.presign(JPEG)).status == status

        early = await scale.presign()
        disk.fill()
        await eventually(partial(is_answered, 507), 10.0, "the service to see that the disk is full")
        refused = await scale.presign(JPEG)
        assert (refused.code, int(refused.headers["retry-after"]) > 0) == ("disk_full", True)
        assert (await scale.put(early, JPEG)).code == "disk_full"
        disk.free()
        await eventually(partial(is_answered, 200), 10.0, "the service to see that there is room")
        assert (await scale.put(early, JPEG)).status == 200
        await scale.upload(JPEG, is_told=True)
