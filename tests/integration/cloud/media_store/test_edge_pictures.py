"""Pictures from edges: presigned, uploaded, compared. Every step may be repeated, by several at once."""

import asyncio
import hashlib
from datetime import timedelta
from uuid import UUID

import aiohttp
import msgspec
import pytest

from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectMissing
from support.cloud_media import NOON, MediaCloud, environ, media_cloud, shot
from support.picture_files import picture
from support.s3 import S3


async def test_a_picture_is_stored_after_its_bytes_were_compared(cloud: MediaCloud) -> None:
    one = shot(session_id=new_id())

    await cloud.send(one)

    row = await cloud.row(one)
    assert (row["state"], row["size_bytes"], row["sha256"]) == ("stored", len(one.body), one.asked.sha256)
    assert row["object_key"] == (
        f"tenants/demo/farms/farm-1/barns/barn-1/devices/station-1/images/2026/01/01/{one.media_id}.jpg"
    )
    assert await cloud.store.get(cloud.bucket, row["object_key"], bytes_max=1_000_000) == one.body
    assert row["verified_at"] is not None
    assert row["session_id"] == one.asked.session_id


async def test_every_step_may_be_repeated(cloud: MediaCloud) -> None:
    one = shot()
    for _ in range(3):
        status, answer = await cloud.presign(one)
        assert (status, answer["state"]) == (200, "wanted")
    assert await cloud.put(answer, one.body) == 200
    assert await cloud.put(answer, one.body) == 412
    for _ in range(3):
        assert await cloud.complete(one) == (200, {"state": "stored"})
    stored_at = (await cloud.row(one))["stored_at"]

    assert await cloud.presign(one) == (200, {"state": "stored"})
    assert await cloud.complete(one) == (200, {"state": "stored"})

    assert (await cloud.row(one))["stored_at"] == stored_at
    assert await cloud.pool.fetchval("SELECT count(*) FROM media_objects") == 1


async def test_two_edges_that_send_the_same_picture_at_once_end_with_one(cloud: MediaCloud) -> None:
    one = shot(picture(width=800, height=600))
    other = await cloud.new_edge("demo")

    async def send(token: str) -> tuple[int, object]:
        status, answer = await cloud.presign(one, token)
        assert status == 200
        if answer["state"] == "wanted":
            assert await cloud.put(answer, one.body) in (200, 412)
        status, said = await cloud.complete(one, token)
        while status == 429:
            status, said = await cloud.complete(one, token)
        return status, said

    answers = await asyncio.gather(*(send(token) for token in [cloud.token, other] * 4))

    assert set(map(str, answers)) == {str((200, {"state": "stored"}))}
    assert await cloud.pool.fetchval("SELECT count(*) FROM media_objects WHERE state = 'stored'") == 1


async def test_what_was_never_uploaded_is_not_stored(cloud: MediaCloud) -> None:
    one = shot()
    await cloud.presign(one)

    status, answer = await cloud.complete(one)

    assert (status, answer["error"]["code"]) == (409, "object_missing")
    assert (await cloud.row(one))["state"] == "announced"


async def test_a_picture_that_nobody_presigned_is_unknown(cloud: MediaCloud) -> None:
    status, answer = await cloud.complete(shot())

    assert (status, answer["error"]["code"]) == (404, "media_unknown")


@pytest.mark.parametrize("stored", [b"another", b"", b"longer than it was said to be " * 500])
async def test_other_bytes_are_removed_and_the_picture_can_be_sent_again(cloud: MediaCloud, stored: bytes) -> None:
    one = shot()
    await cloud.presign(one)
    # By another way than the URL, which takes no other bytes: somebody who has the store's keys.
    await cloud.store.put(cloud.bucket, await cloud.key(one), stored, content_type="image/jpeg")

    status, answer = await cloud.complete(one)

    assert (status, answer["error"]["code"]) == (422, "checksum_mismatch")
    with pytest.raises(ObjectMissing):
        await cloud.store.get(cloud.bucket, await cloud.key(one), bytes_max=1_000_000)
    await cloud.send(one)


async def test_the_same_size_with_one_other_bit_is_seen(cloud: MediaCloud) -> None:
    one = shot()
    await cloud.presign(one)
    flipped = one.body[:-1] + bytes([one.body[-1] ^ 1])
    await cloud.store.put(cloud.bucket, await cloud.key(one), flipped, content_type="image/jpeg")

    status, _ = await cloud.complete(one)

    assert status == 422


async def test_a_url_takes_nothing_but_the_picture_it_was_made_for(cloud: MediaCloud) -> None:
    one = shot()
    _, answer = await cloud.presign(one)

    async def put(body: bytes, changes: dict[str, str]) -> int:
        headers = {**answer["required_headers"], "content-length": str(len(body)), **changes}
        async with cloud.session.put(answer["upload_url"], data=body, headers=headers) as said:
            return said.status

    other = one.body[:-1] + b"x"
    checksum = {"x-amz-checksum-sha256": "AAAA"}
    refused = [
        await put(other, {}),
        await put(one.body + b"x", {}),
        await put(one.body, {"content-type": "text/html"}),
        await put(one.body, checksum),
    ]

    assert all(400 <= status < 500 for status in refused), refused
    status, said = await cloud.complete(one)
    assert (status, said["error"]["code"]) == (409, "object_missing")


async def test_an_id_is_not_used_twice(cloud: MediaCloud) -> None:
    one = shot()
    await cloud.send(one)
    second = shot(picture(width=10, height=10), media_id=one.media_id)

    status, answer = await cloud.presign(second)

    assert (status, answer["error"]["code"]) == (409, "media_conflict")
    assert await cloud.store.get(cloud.bucket, await cloud.key(one), bytes_max=1_000_000) == one.body


async def test_an_id_of_another_devices_picture_is_refused_before_it_is_there_too(cloud: MediaCloud) -> None:
    one = shot()
    await cloud.presign(one)

    status, answer = await cloud.presign(shot(media_id=one.media_id, device_id="station-2"))

    assert (status, answer["error"]["code"]) == (409, "media_conflict")
    assert await cloud.pool.fetchval("SELECT device_id FROM media_objects WHERE id = $1", one.media_id) == "station-1"
    await cloud.send(one)


async def test_a_wish_that_was_changed_before_the_upload_counts_as_it_was_said_last(cloud: MediaCloud) -> None:
    first = shot()
    await cloud.upload(first)
    second = shot(picture(width=10, height=10), media_id=first.media_id)

    _, answer = await cloud.presign(second)
    assert await cloud.put(answer, second.body) == 412
    status, _ = await cloud.complete(second)
    assert status == 422
    await cloud.send(second)

    assert await cloud.store.get(cloud.bucket, await cloud.key(second), bytes_max=1_000_000) == second.body


async def test_an_edge_speaks_only_for_its_tenants(cloud: MediaCloud) -> None:
    own, foreign = shot(), shot(tenant_id="other")
    await cloud.send(own)
    stranger = await cloud.new_edge("other")

    assert (await cloud.presign(foreign))[0] == 403
    assert (await cloud.complete(foreign))[0] == 403
    assert (await cloud.presign(own, stranger))[0] == 403
    assert (await cloud.complete(own, stranger))[0] == 403
    # The same id in another tenant is another picture.
    assert (await cloud.complete(own, stranger, tenant_id="other"))[0] == 404
    twin = shot(picture(width=5, height=5), tenant_id="other", media_id=own.media_id)
    assert (await cloud.presign(twin, stranger))[1]["state"] == "wanted"
    assert await cloud.pool.fetchval("SELECT count(*) FROM media_objects WHERE tenant_id = 'demo'") == 1


@pytest.mark.parametrize("token", ["", "wrong", "farmiq-edge_3f9a0c5e71d2_" + "A" * 43])
async def test_nobody_without_a_token_of_an_edge_is_let_in(cloud: MediaCloud, token: str) -> None:
    one = shot()

    assert (await cloud.presign(one, token or "-"))[0] == 401
    assert (await cloud.complete(one, token or "-"))[0] == 401
    assert (await cloud.call("GET", "/api/v1/media/wanted", token or "-"))[0] == 401
    assert (await cloud.presign(one, cloud.viewer))[0] == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant_id": "../../other"},
        {"farm_id": "a/b"},
        {"device_id": "telemetry"},
        {"device_id": "\u2170"},
        {"mime_type": "text/html"},
        {"mime_type": "image/svg+xml"},
        {"size_bytes": 0},
        {"size_bytes": -1},
        {"sha256": "00"},
        {"captured_at": "2026-01-01T12:00:00"},
        {"media_id": "../1"},
    ],
)
async def test_what_is_not_allowed_is_refused_with_its_reason(cloud: MediaCloud, changes: dict[str, object]) -> None:
    body = {**msgspec.to_builtins(shot().asked), **changes}

    status, answer = await cloud.call("POST", "/api/v1/media/presign", cloud.token, data=msgspec.json.encode(body))

    assert (status, answer["error"]["code"]) == (400, "invalid_request")
    assert next(iter(changes)) in answer["error"]["message"]
    assert await cloud.pool.fetchval("SELECT count(*) FROM media_objects") == 0


async def test_a_picture_that_is_too_large_is_refused_before_it_is_sent(cloud: MediaCloud) -> None:
    one = shot(size_bytes=10 * 1024 * 1024 + 1)

    status, answer = await cloud.presign(one)

    assert (status, answer["error"]["code"]) == (413, "too_large")


async def test_an_edge_in_a_hurry_is_told_when_to_come_back(pool: Pool, variables: dict[str, str], bucket: S3) -> None:
    slow = {**variables, "MEDIA_EDGE_PRESIGNS_PER_SECOND": "1"}
    async with media_cloud(pool, slow, bucket) as cloud:
        statuses = [(await cloud.presign(shot()))[0] for _ in range(4)]
        headers = {"authorization": f"Bearer {cloud.token}", "content-type": "application/json"}
        body = msgspec.json.encode(shot().asked)
        async with cloud.session.post(f"{cloud.url}/api/v1/media/presign", data=body, headers=headers) as answer:
            retry_after = answer.headers.get("retry-after")

    assert 429 in statuses
    assert retry_after is not None
    assert int(retry_after) >= 1


async def test_with_the_object_store_away_nothing_changes_its_state(
    pool: Pool, shared_url: str, amqp_url: str, bucket: S3
) -> None:
    away = S3("http://127.0.0.1:9", bucket.access_key, bucket.secret_key, bucket.bucket)
    async with media_cloud(pool, environ(shared_url, amqp_url, away), bucket) as cloud:
        one = shot()
        assert (await cloud.presign(one))[0] == 200
        status, answer = await cloud.complete(one)
        assert (status, answer["error"]["code"]) == (503, "object_store_away")
        assert (await cloud.row(one))["state"] == "announced"
        async with cloud.session.get(f"{cloud.url}/api/ready") as ready:
            assert ready.status == 503


async def test_without_its_bucket_no_picture_is_called_missing(
    pool: Pool, shared_url: str, amqp_url: str, bucket: S3
) -> None:
    gone = S3(bucket.endpoint, bucket.access_key, bucket.secret_key, f"{bucket.bucket}-gone")
    async with media_cloud(pool, environ(shared_url, amqp_url, gone), bucket) as cloud:
        one = shot()
        await cloud.presign(one)

        status, answer = await cloud.complete(one)

    assert (status, answer["error"]["code"]) == (503, "bucket_missing")


async def test_urls_name_the_address_that_callers_know(pool: Pool, variables: dict[str, str], bucket: S3) -> None:
    public = {**variables, "S3_PUBLIC_ENDPOINT": "https://pictures.example"}
    async with media_cloud(pool, public, bucket) as cloud:
        _, answer = await cloud.presign(shot())

    assert answer["upload_url"].startswith(f"https://pictures.example/{bucket.bucket}/tenants/demo/")


async def test_what_was_announced_and_did_not_come_is_asked_for(cloud: MediaCloud) -> None:
    arrived, late, fresh, lost = shot(), shot(), shot(), shot()
    for one in (arrived, lost):
        await cloud.send(one)
    for one in (late, fresh):
        await cloud.presign(one)
    async with cloud.pool.acquire() as connection:
        await connection.execute(
            "UPDATE media_objects SET created_at = now() - interval '2 hours' WHERE id <> $1", fresh.media_id
        )
        await connection.execute(
            "UPDATE media_objects SET state = 'missing', missing_since = now() WHERE id = $1", lost.media_id
        )
    stranger = await cloud.new_edge("other")

    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        status, page = await cloud.call("GET", "/api/v1/media/wanted", cloud.token, params={"limit": 1, **after})
        assert status == 200
        found.extend(one["media_id"] for one in page["pictures"])
        if page["next"] is None:
            break
        after = {"after": page["next"]}

    assert sorted(map(UUID, found)) == sorted((late.media_id, lost.media_id))
    _, nothing = await cloud.call("GET", "/api/v1/media/wanted", stranger)
    assert nothing == {"pictures": [], "next": None}
    # The lost one comes again, and is as old as it was.
    stored_at = (await cloud.row(lost))["stored_at"]
    assert (await cloud.presign(lost))[1]["state"] == "wanted"
    assert await cloud.complete(lost) == (200, {"state": "stored"})
    row = await cloud.row(lost)
    assert (row["state"], row["stored_at"], row["missing_since"]) == ("stored", stored_at, None)


async def test_the_bytes_are_compared_a_few_at_a_time(pool: Pool, variables: dict[str, str], bucket: S3) -> None:
    async with media_cloud(pool, {**variables, "MEDIA_CHECKS_AT_ONCE": "1"}, bucket) as cloud:
        shots = [shot(picture(width=900, height=700 + n)) for n in range(6)]
        for one in shots:
            await cloud.upload(one)

        async def insist(one: object) -> int:
            refused = 0
            while (answer := await cloud.complete(one))[0] == 429:  # type: ignore[arg-type]  # a shot
                refused += 1
            assert answer == (200, {"state": "stored"})
            return refused

        refused = await asyncio.gather(*map(insist, shots))

    assert sum(refused) > 0


async def test_the_pages_describe_the_api(cloud: MediaCloud) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{cloud.url}/api-docs/openapi.json") as answer:
        paths = (await answer.json())["paths"]

    assert {"/api/v1/media/presign", "/api/v1/media/{media_id}/complete", "/api/v1/media"} <= set(paths)


async def test_a_captured_day_is_the_day_in_utc(cloud: MediaCloud) -> None:
    body = {
        **msgspec.to_builtins(shot().asked),
        "captured_at": (NOON + timedelta(hours=11, minutes=30)).isoformat().replace("+00:00", "-02:00"),
    }

    status, answer = await cloud.call("POST", "/api/v1/media/presign", cloud.token, data=msgspec.json.encode(body))

    assert status == 200
    assert "/images/2026/01/02/" in answer["upload_url"]
    assert hashlib.sha256(picture()).hexdigest() == body["sha256"]
