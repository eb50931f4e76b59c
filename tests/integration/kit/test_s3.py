"""What a presigned URL allows on the store that we ship, and the calls that services make themselves."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping

import aiohttp
import pytest

from farmiq.kit.s3 import (
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    ObjectTooLarge,
    PresignedPut,
    StoreAway,
    StoreRefused,
)
from support.s3 import S3
from support.waiting import eventually

BODY = b"a picture of a pig, or so they say"
KEY = "tenant/farm/barn/node-1/picture.jpg"


@pytest.fixture
def store(s3: S3) -> Iterator[ObjectStore]:
    store = ObjectStore(s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
    yield store
    store.close()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def presign(store: ObjectStore, s3: S3, expires_seconds: int = 60) -> PresignedPut:
    return store.presign_put(
        s3.bucket,
        KEY,
        content_type="image/jpeg",
        size_bytes=len(BODY),
        sha256=hashlib.sha256(BODY).digest(),
        expires_seconds=expires_seconds,
    )


async def put(
    session: aiohttp.ClientSession,
    upload: PresignedPut,
    body: bytes = BODY,
    changes: Mapping[str, str | None] | None = None,
) -> int:
    """`changes` replaces headers that the URL asks for, or leaves them out (None)."""
    merged = {**upload.headers, "content-length": str(len(body)), **(changes or {})}
    sent = {name: value for name, value in merged.items() if value is not None}
    skipped = () if "content-type" in sent else ("content-type",)
    async with session.put(upload.url, data=body, headers=sent, skip_auto_headers=skipped) as answer:
        return answer.status


async def test_a_presigned_url_stores_the_very_body_it_was_made_for(
    store: ObjectStore, s3: S3, session: aiohttp.ClientSession
) -> None:
    assert await put(session, presign(store, s3)) == 200

    assert await store.get(s3.bucket, KEY, bytes_max=1000) == BODY
    assert (await store.head(s3.bucket, KEY)).size_bytes == len(BODY)


async def test_another_body_of_the_same_size_is_refused(
    store: ObjectStore, s3: S3, session: aiohttp.ClientSession
) -> None:
    assert await put(session, presign(store, s3), body=BODY[::-1]) == 400
    await assert_nothing_is_stored(store, s3)


async def test_another_size_is_refused(store: ObjectStore, s3: S3, session: aiohttp.ClientSession) -> None:
    assert await put(session, presign(store, s3), body=BODY * 1000) == 403
    await assert_nothing_is_stored(store, s3)


@pytest.mark.parametrize(
    "changes",
    [
        {"content-type": "text/html"},
        {"content-type": None},
        {"x-amz-checksum-sha256": None},
        {"if-none-match": None},
    ],
)
async def test_another_type_or_a_missing_header_is_refused(
    store: ObjectStore, s3: S3, session: aiohttp.ClientSession, changes: dict[str, str | None]
) -> None:
    assert await put(session, presign(store, s3), changes=changes) == 403
    await assert_nothing_is_stored(store, s3)


async def test_a_second_upload_is_refused_and_the_first_stays(
    store: ObjectStore, s3: S3, session: aiohttp.ClientSession
) -> None:
    upload = presign(store, s3)

    assert [await put(session, upload), await put(session, upload)] == [200, 412]
    assert await store.get(s3.bucket, KEY, bytes_max=1000) == BODY


async def test_another_key_is_refused(store: ObjectStore, s3: S3, session: aiohttp.ClientSession) -> None:
    upload = presign(store, s3)
    elsewhere = PresignedPut(upload.url.replace("node-1", "node-2"), upload.headers)

    assert await put(session, elsewhere) == 403


async def test_an_expired_url_is_refused(store: ObjectStore, s3: S3, session: aiohttp.ClientSession) -> None:
    upload = presign(store, s3, expires_seconds=1)

    async def is_refused() -> bool:
        return await put(session, upload, body=BODY[::-1]) == 403  # 400, the wrong body, for as long as the URL is good

    await eventually(is_refused)


async def test_a_presigned_get_reads_one_object_for_a_short_time(
    store: ObjectStore, s3: S3, session: aiohttp.ClientSession
) -> None:
    await store.put(s3.bucket, KEY, BODY, content_type="image/jpeg")
    good, soon_over = (store.presign_get(s3.bucket, KEY, expires_seconds=seconds) for seconds in (60, 1))

    async def read(url: str) -> tuple[int, bytes]:
        async with session.get(url) as answer:
            return answer.status, await answer.read()

    async def is_over() -> bool:
        return (await read(soon_over))[0] == 403

    assert await read(good) == (200, BODY)
    await eventually(is_over)


async def test_an_object_is_put_once_when_it_must_be_new_and_overwritten_otherwise(store: ObjectStore, s3: S3) -> None:
    await store.put(s3.bucket, KEY, b"one", content_type="text/plain", must_be_new=True)
    with pytest.raises(ObjectExists):
        await store.put(s3.bucket, KEY, b"two", content_type="text/plain", must_be_new=True)
    assert await store.get(s3.bucket, KEY, bytes_max=10) == b"one"

    await store.put(s3.bucket, KEY, b"two", content_type="text/plain")
    assert await store.get(s3.bucket, KEY, bytes_max=10) == b"two"


async def test_an_object_larger_than_the_reader_wants_is_not_read(store: ObjectStore, s3: S3) -> None:
    await store.put(s3.bucket, KEY, b"x" * 11, content_type="text/plain")

    with pytest.raises(ObjectTooLarge, match="11 bytes, more than 10"):
        await store.get(s3.bucket, KEY, bytes_max=10)
    assert await store.get(s3.bucket, KEY, bytes_max=11) == b"x" * 11


async def test_a_missing_object_is_named_and_deleting_it_is_no_error(store: ObjectStore, s3: S3) -> None:
    await store.put(s3.bucket, KEY, BODY, content_type="image/jpeg")
    await store.delete(s3.bucket, KEY)
    await store.delete(s3.bucket, KEY)

    with pytest.raises(ObjectMissing):
        await store.head(s3.bucket, KEY)
    with pytest.raises(ObjectMissing):
        await store.get(s3.bucket, KEY, bytes_max=10)


async def test_objects_are_listed_by_prefix_over_pages(store: ObjectStore, s3: S3) -> None:
    names = [f"barn-1/{number:03}" for number in range(25)]
    await asyncio.gather(
        *(store.put(s3.bucket, name, b"x", content_type="text/plain") for name in [*names, "barn-2/x"])
    )

    found = [item.key async for item in store.list_objects(s3.bucket, "barn-1/", page_size=10)]

    assert found == names


async def test_a_bucket_is_made_once_by_however_many_replicas(store: ObjectStore) -> None:
    name = f"t{secrets.token_hex(6)}"

    await asyncio.gather(*(store.ensure_bucket(name) for _ in range(5)))
    await store.put(name, KEY, BODY, content_type="image/jpeg")
    await store.ensure_bucket(name)

    assert await store.get(name, KEY, bytes_max=1000) == BODY


async def test_a_wrong_key_is_refused_with_what_to_check(s3: S3) -> None:
    stranger = ObjectStore(s3.endpoint, access_key=s3.access_key, secret_key="not-the-secret")
    try:
        with pytest.raises(StoreRefused, match="S3_SECRET_KEY") as refusal:
            await stranger.put(s3.bucket, KEY, BODY, content_type="image/jpeg")
    finally:
        stranger.close()
    assert "not-the-secret" not in str(refusal.value)


async def test_a_store_that_is_away_is_transient() -> None:
    away = ObjectStore("http://127.0.0.1:1", access_key="key", secret_key="secret")
    try:
        with pytest.raises(StoreAway, match="does not answer"):
            await away.head("bucket", KEY)
    finally:
        away.close()


async def assert_nothing_is_stored(store: ObjectStore, s3: S3) -> None:
    with pytest.raises(ObjectMissing):
        await store.head(s3.bucket, KEY)
