"""The rows and the bucket say the same, or the check says where not, and repairs it when it is asked to."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from farmiq.cloud.media_store import handlers, integrity
from farmiq.cloud.media_store.announcements import announced
from farmiq.cloud.media_store.integrity import IntegrityReport
from farmiq.cloud.media_store.picture import thumbnail_key
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.kit.object_inventory import walk
from farmiq.kit.s3 import ObjectMissing
from support.cloud_media import MediaCloud, shot
from support.picture_files import picture


class Tomorrow(Clock):
    """So that what a test has just uploaded is older than the grace."""

    def now(self) -> datetime:
        return super().now() + timedelta(days=2)


@pytest_asyncio.fixture(autouse=True)
async def empty_bucket(cloud: MediaCloud) -> AsyncIterator[None]:
    await cloud.store.delete_many(cloud.bucket, await keys(cloud))
    yield


@pytest.fixture
def check(cloud: MediaCloud) -> Any:
    async def run(clock: Clock | None = None, **options: Any) -> IntegrityReport:
        async with cloud.pool.acquire() as connection:
            return await integrity.check(connection, cloud.store, cloud.bucket, clock=clock or Tomorrow(), **options)

    return run


async def keys(cloud: MediaCloud) -> list[str]:
    return [one.key async for one in walk(cloud.store, cloud.bucket)]


async def test_a_sound_store_is_called_sound(cloud: MediaCloud, check: Any) -> None:
    shots = [shot(picture(width=20 + n, height=20), device_id=f"station{'-' * (n % 2)}{n}") for n in range(7)]
    for one in shots:
        await cloud.send(one)
    await cloud.read(f"/{shots[0].media_id}/thumbnail")
    before = await keys(cloud)

    report = await check(repair=True, sample=1.0)

    assert report.is_sound
    assert (report.pictures, report.compared) == (7, 7)
    assert report.bytes == sum(len(one.body) for one in shots)
    assert await keys(cloud) == before


async def test_a_lost_object_is_found_and_asked_for(cloud: MediaCloud, check: Any) -> None:
    lost, kept = shot(), shot()
    for one in (lost, kept):
        await cloud.send(one)
    await cloud.store.delete(cloud.bucket, await cloud.key(lost))

    first = await check()
    assert first.found["no_object"] == 1
    assert first.examples["no_object"] == [await cloud.key(lost)]
    assert (await cloud.row(lost))["state"] == "stored", "only looked at"

    repaired = await check(repair=True)
    assert repaired.repaired["no_object"] == 1
    row = await cloud.row(lost)
    assert (row["state"], row["missing_reason"]) == ("missing", "no_object")
    _, wanted = await cloud.call("GET", "/api/v1/media/wanted", cloud.token)
    assert [one["media_id"] for one in wanted["pictures"]] == [str(lost.media_id)]

    await cloud.send(lost)
    assert (await check()).is_sound


@pytest.mark.parametrize(
    ("damage", "kind", "sample"),
    [(b"short", "other_size", 0.0), (None, "other_checksum", 1.0)],
    ids=["another size", "one other bit"],
)
async def test_an_object_that_is_another_is_removed_and_asked_for(
    cloud: MediaCloud, check: Any, damage: bytes | None, kind: str, sample: float
) -> None:
    one, other = shot(), shot(picture(width=30, height=30))
    for each in (one, other):
        await cloud.send(each)
    body = one.body[:-1] + bytes([one.body[-1] ^ 1]) if damage is None else damage
    await cloud.store.put(cloud.bucket, await cloud.key(one), body, content_type="image/jpeg")

    found = await check(sample=sample)
    assert {name: count for name, count in found.found.items() if count} == {kind: 1}

    await check(repair=True, sample=sample)

    assert (await cloud.row(one))["state"] == "missing"
    assert await keys(cloud) == [await cloud.key(other)]
    await cloud.send(one)
    assert (await check(sample=1.0)).is_sound


async def test_rows_that_a_restored_backup_has_forgotten_come_back(cloud: MediaCloud, check: Any) -> None:
    one = shot(picture("PNG"), mime_type="image/png")
    await cloud.send(one)
    before = await cloud.row(one)
    await cloud.pool.execute("DELETE FROM media_objects")

    report = await check(repair=True)

    assert report.repaired["no_row"] == 1
    after = await cloud.row(one)
    for name in ("tenant_id", "farm_id", "device_id", "object_key", "mime_type", "size_bytes", "sha256", "state"):
        assert after[name] == before[name]
    assert after["captured_at"].date() == before["captured_at"].date()
    assert await cloud.presign(one) == (200, {"state": "stored"})
    assert (await check(sample=1.0)).is_sound


async def test_what_has_no_key_of_ours_is_told_and_left_alone(cloud: MediaCloud, check: Any) -> None:
    foreign = "tenants/demo/notes.txt"
    await cloud.store.put(cloud.bucket, foreign, b"who put this here", content_type="text/plain")

    report = await check(repair=True)

    assert (report.found["foreign"], report.repaired["foreign"]) == (1, 0)
    assert report.examples["foreign"] == [foreign]
    assert await keys(cloud) == [foreign]


async def test_what_is_younger_than_the_grace_is_left_alone(cloud: MediaCloud, check: Any) -> None:
    uploading, announced = shot(), shot()
    await cloud.upload(uploading)
    await cloud.presign(announced)
    await cloud.store.put(cloud.bucket, "tenants/demo/notes.txt", b"x", content_type="text/plain")
    await cloud.store.put(cloud.bucket, "thumbnails/x.jpg", b"x", content_type="image/jpeg")
    before = await keys(cloud)

    report = await check(Clock(), repair=True)

    assert report.is_sound
    assert await keys(cloud) == before


@pytest.mark.parametrize("is_right", [True, False])
async def test_an_upload_that_nobody_had_compared_is_compared(cloud: MediaCloud, check: Any, is_right: bool) -> None:
    one = shot()
    await cloud.presign(one)
    body = one.body if is_right else b"something else"
    await cloud.store.put(cloud.bucket, await cloud.key(one), body, content_type="image/jpeg")

    looked = await check()
    assert looked.found["not_compared"] == 1
    assert (await cloud.row(one))["state"] == "announced"

    await check(repair=True)

    assert (await cloud.row(one))["state"] == ("stored" if is_right else "announced")
    assert (await keys(cloud) == []) is not is_right
    assert (await check(sample=1.0)).is_sound


async def test_thumbnails_without_their_picture_are_removed(cloud: MediaCloud, check: Any) -> None:
    kept, gone = shot(), shot()
    for one in (kept, gone):
        await cloud.send(one)
        assert (await cloud.read(f"/{one.media_id}/thumbnail"))[0] == 200
    gone_key = await cloud.key(gone)
    await cloud.store.delete(cloud.bucket, gone_key)
    await cloud.pool.execute("DELETE FROM media_objects WHERE id = $1", gone.media_id)

    report = await check(repair=True)

    assert report.repaired["stray_thumbnail"] == 1
    kept_key = await cloud.key(kept)
    assert await keys(cloud) == sorted([kept_key, thumbnail_key(kept_key)])


async def test_pictures_of_other_buckets_are_not_our_business(cloud: MediaCloud, check: Any) -> None:
    one = shot()
    await cloud.send(one)
    await cloud.pool.execute("UPDATE media_objects SET bucket = 'elsewhere'")
    await cloud.store.delete(cloud.bucket, await cloud.key(one))

    assert (await check(repair=True)).is_sound
    assert (await cloud.row(one))["state"] == "stored"


async def test_a_store_that_says_for_an_instant_that_it_has_no_object_costs_none(
    cloud: MediaCloud, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """promise-cloud 16: the object was deleted on the word of one 404."""
    one = shot()
    await cloud.send(one)

    async def is_not_found(*_: object) -> None:
        raise ObjectMissing("a proxy says 404")

    with monkeypatch.context() as patched:
        patched.setattr(handlers, "read_back", is_not_found)
        report = await check(repair=True, sample=1.0)
    assert report.repaired["no_object"] == 1
    assert (await cloud.row(one))["state"] == "missing"
    assert await keys(cloud) == [await cloud.key(one)]
    assert (await check(repair=True)).repaired["not_compared"] == 1
    assert (await cloud.row(one))["state"] == "stored"


async def test_an_adopted_picture_gets_its_time_and_session_from_the_event_that_is_sent_again(
    cloud: MediaCloud, check: Any
) -> None:
    """promise-cloud 8: the database was restored, the object store survived. Its key has the day only."""
    one = shot(session_id=new_id())
    event = announced(msgspec.json.encode(one.event()))
    await cloud.send(one)
    await handlers.announce(cloud.pool, [event])
    before = await cloud.row(one)
    await cloud.pool.execute("DELETE FROM media_objects")
    await check(repair=True)
    adopted = await cloud.row(one)
    assert (adopted["captured_at"] == before["captured_at"], adopted["session_id"]) == (False, None)

    await handlers.announce(cloud.pool, [event])

    after = await cloud.row(one)
    assert (after["captured_at"], after["session_id"]) == (before["captured_at"], before["session_id"])
    assert (after["state"], after["object_key"]) == ("stored", before["object_key"])
