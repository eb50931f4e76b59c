"""What the integrity check asks the store that we ship: listings, sizes, checksums, and many deletions at once."""

import asyncio
import hashlib
from collections.abc import Iterator

import aiohttp
import pytest

from farmiq.kit.object_inventory import walk
from farmiq.kit.s3 import BucketMissing, ObjectMissing, ObjectStore, ObjectTooLarge, StoreAway
from farmiq.stack.ports import free_port
from support.s3 import S3

BODY = bytes(range(256)) * 5000


@pytest.fixture
def store(s3: S3) -> Iterator[ObjectStore]:
    store = ObjectStore(s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
    yield store
    store.close()


@pytest.mark.parametrize("page_size", [2, 1000])
async def test_objects_are_walked_in_byte_order(store: ObjectStore, s3: S3, page_size: int) -> None:
    keys = [f"tenants/{name}/images/{number}.jpg" for name in ("a", "a-b", "a.b", "ab", "A") for number in range(5)]
    keys += ["tenants/a", "tenants/a.jpg", "top"]
    await asyncio.gather(*(store.put(s3.bucket, key, b"x", content_type="image/jpeg") for key in keys))

    found = [one.key async for one in walk(store, s3.bucket, page_size=page_size)]
    below = [one.key async for one in walk(store, s3.bucket, "tenants/a/", page_size=page_size)]

    assert found == sorted(keys, key=str.encode)
    assert below == [f"tenants/a/images/{number}.jpg" for number in range(5)]


async def test_bytes_are_hashed_as_the_store_gives_them_back(store: ObjectStore, s3: S3) -> None:
    await store.put(s3.bucket, "a", BODY, content_type="image/jpeg")

    digest = await store.digest(s3.bucket, "a", bytes_max=len(BODY))

    assert (digest.size_bytes, digest.sha256) == (len(BODY), hashlib.sha256(BODY).digest())
    with pytest.raises(ObjectTooLarge):
        await store.digest(s3.bucket, "a", bytes_max=len(BODY) - 1)
    with pytest.raises(ObjectMissing):
        await store.digest(s3.bucket, "b", bytes_max=1)


async def test_a_bucket_that_is_gone_says_nothing_about_its_objects(store: ObjectStore, s3: S3) -> None:
    gone = f"{s3.bucket}-gone"

    with pytest.raises(BucketMissing):
        await store.get(gone, "a", bytes_max=1)
    with pytest.raises(BucketMissing):
        await store.digest(gone, "a", bytes_max=1)
    with pytest.raises(BucketMissing):
        await store.require_bucket(gone)
    await store.ensure_bucket(gone)
    await store.require_bucket(gone)
    with pytest.raises(ObjectMissing):
        await store.get(gone, "a", bytes_max=1)


async def test_many_objects_are_deleted_at_once_and_those_that_are_not_there_count_as_deleted(
    store: ObjectStore, s3: S3
) -> None:
    keys = [f"folder/{number}" for number in range(7)]
    await asyncio.gather(*(store.put(s3.bucket, key, b"x", content_type="image/jpeg") for key in keys))

    await store.delete_many(s3.bucket, [*keys[:5], "folder/never", "other/never"])
    await store.delete_many(s3.bucket, [])

    assert [one.key async for one in walk(store, s3.bucket)] == keys[5:]


async def test_a_read_url_fixes_what_a_browser_takes_the_body_for(store: ObjectStore, s3: S3) -> None:
    await store.put(s3.bucket, "a", b"<script>", content_type="text/html")
    url = store.presign_get(s3.bucket, "a", expires_seconds=60, content_type="image/jpeg", filename="a-1.jpg")

    async with aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert answer.headers["content-type"] == "image/jpeg"
            assert answer.headers["content-disposition"] == 'attachment; filename="a-1.jpg"'
        async with session.get(url.replace("attachment", "inline")) as forged:
            assert forged.status == 403
    with pytest.raises(ValueError, match="file name"):
        store.presign_get(s3.bucket, "a", expires_seconds=60, filename='a"; x="')


async def test_a_body_that_is_cut_short_is_not_taken_for_the_object() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\netag: x\r\n\r\n" + b"x" * 10)
        await writer.drain()
        writer.close()

    port = free_port()
    server = await asyncio.start_server(cut, "127.0.0.1", port)
    store = ObjectStore(f"http://127.0.0.1:{port}", access_key="a", secret_key="b")
    try:
        with pytest.raises(StoreAway):
            await store.digest("bucket", "key", bytes_max=1000)
        with pytest.raises(StoreAway):
            await store.get("bucket", "key", bytes_max=1000)
    finally:
        store.close()
        server.close()
        await server.wait_closed()
