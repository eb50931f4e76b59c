"""A picture's way in, as documented and as it should not be."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.media_store import inspection
from farmiq.edge.media_store.picture import Picture
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.media_world import (
    STATION,
    Station,
    assert_stored_once,
    objects_of,
    register,
    replica,
    request_for,
    station,
    stored_events,
)
from support.picture_files import picture
from support.s3 import S3
from support.waiting import eventually

JPEG = picture()


@pytest_asyncio.fixture
async def scale(edge_pool: Pool, edge_url: str, s3: S3) -> AsyncIterator[Station]:
    async with station(edge_pool, edge_url, s3) as scale:
        yield scale


async def state_of(pool: Pool, media_id: UUID | str) -> str | None:
    state: str | None = await pool.fetchval("SELECT state FROM media_objects WHERE id = $1", UUID(str(media_id)))
    return state


@pytest.mark.parametrize("is_told", [True, False], ids=["into the store", "through the service"])
async def test_a_picture_ends_stored_told_once_and_on_its_way(
    edge_pool: Pool, s3: S3, scale: Station, is_told: bool
) -> None:
    session_id = uuid4()
    media_id = await scale.upload(JPEG, is_told=is_told, sessionId=str(session_id), stationId="scale-1")
    answer = await scale.complete(media_id)
    assert (answer.status, answer.body) == (
        200,
        {
            "media_id": str(media_id),
            "state": "stored",
            "size_bytes": len(JPEG),
            "sha256": hashlib.sha256(JPEG).hexdigest(),
            "width_px": 64,
            "height_px": 48,
        },
    )
    assert media_id.version == 7
    await assert_stored_once(edge_pool, [media_id])
    (event,) = await stored_events(edge_pool)
    key = f"tenants/demo/farms/farm-1/barns/barn-1/devices/scale-1/images/2026/05/04/{media_id}.jpg"
    assert event["payload"] == {
        "media_id": str(media_id),
        "mime_type": "image/jpeg",
        "size_bytes": len(JPEG),
        "bucket": s3.bucket,
        "object_key": key,
        "sha256": hashlib.sha256(JPEG).hexdigest(),
        "captured_at": "2026-05-04T10:05:00Z",
    }
    assert (event["tenant_id"], event["device_id"], event["session_id"], event["trace_id"]) == (
        "demo",
        "scale-1",
        session_id,
        "trace-1",
    )
    assert await objects_of(s3).get(s3.bucket, key, bytes_max=1 << 20) == JPEG


async def test_the_url_leads_into_the_store_only_for_a_body_known_to_the_last_byte(s3: S3, scale: Station) -> None:
    whole = await scale.presign(JPEG)
    assert whole.body["upload_url"].startswith(f"{s3.endpoint}/{s3.bucket}/tenants/demo/")
    assert whole.body["required_headers"] == {
        "content-type": "image/jpeg",
        "content-length": str(len(JPEG)),
        "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(JPEG).digest()).decode(),
        "if-none-match": "*",
    }
    for incomplete in ({}, {"contentLength": len(JPEG)}, {"sha256": hashlib.sha256(JPEG).hexdigest()}):
        answer = await scale.presign(**incomplete)
        assert answer.body["upload_url"].startswith(
            f"{scale.url}/api/v1/media/images/{answer.body['media_id']}/content"
        )
        assert answer.body["required_headers"] == {"content-type": "image/jpeg"}
        assert (await scale.put(answer, JPEG)).status == 200


async def test_a_picture_is_filed_under_its_own_devices_station_alone(edge_pool: Pool, scale: Station) -> None:
    for station_id in ("scale-2", "station-1"):
        refused = await scale.presign(JPEG, stationId=station_id)
        assert (refused.status, refused.code) == (403, "station_forbidden")
    assert (await scale.presign(JPEG, stationId="scale-1")).status == 200
    await edge_pool.execute(
        "UPDATE devices SET kind = 'weigh-station', station_id = 'scale-2' WHERE device_id = 'scale-1'"
    )
    assert (await scale.presign(JPEG, stationId="scale-1")).code == "station_forbidden"
    assert (await scale.presign(JPEG, stationId="scale-2")).status == 200


async def test_an_upload_that_nobody_announced_is_found(edge_pool: Pool, edge_url: str, s3: S3) -> None:
    async with station(edge_pool, edge_url, s3, MEDIA_SWEEP_SECONDS="0.2") as scale:
        media_id = await scale.upload(JPEG)
        await eventually(lambda: _is(edge_pool, media_id, "stored"), what="the picture to be stored")
    await assert_stored_once(edge_pool, [media_id])


async def test_a_repeated_complete_changes_nothing(edge_pool: Pool, scale: Station) -> None:
    media_id = await scale.upload(JPEG)
    answers = await asyncio.gather(*(scale.complete(media_id) for _ in range(8)))
    assert {answer.status for answer in answers} <= {200, 202}
    await eventually(lambda: _is(edge_pool, media_id, "stored"))
    assert (await scale.complete(media_id)).status == 200
    await assert_stored_once(edge_pool, [media_id])


async def test_a_picture_that_is_not_there_yet_stays_awaited_and_is_stored_when_it_comes(
    edge_pool: Pool, scale: Station
) -> None:
    presigned = await scale.presign(JPEG)
    media_id = presigned.body["media_id"]
    early = await scale.complete(media_id)
    assert (early.status, early.code) == (409, "object_missing")
    shown = await scale.ask(f"/api/v1/media/{media_id}", tenant_id="demo")
    assert shown.body["state"] == "awaited"
    assert (await scale.put(presigned, JPEG)).status == 200
    await eventually(lambda: _is(edge_pool, media_id, "stored"), what="the picture to be stored")
    await assert_stored_once(edge_pool, [UUID(media_id)])


async def test_a_body_that_says_another_identity_is_refused_and_leaves_no_row(edge_pool: Pool, scale: Station) -> None:
    for name in ("tenantId", "farmId", "barnId", "deviceId"):
        answer = await scale.presign(JPEG, **{name: "another"})
        assert (answer.status, answer.code) == (403, "identity_mismatch")
        assert name in answer.body["error"]["message"]
    assert await edge_pool.fetchval("SELECT count(*) FROM media_objects") == 0
    assert await edge_pool.fetchval("SELECT count(*) FROM media_presign_pace") == 0


async def test_a_token_speaks_for_no_other_device_and_costs_it_no_turn(edge_pool: Pool, scale: Station) -> None:
    neighbour = Origin("demo", "farm-1", "barn-1", "scale-2")
    await register(edge_pool, neighbour)
    path, body = "/api/v1/media/images/presign", request_for(neighbour, JPEG)
    for token, status in ((None, 403), ("guessed", 401)):
        assert (await scale.call("POST", path, token=token, json=body)).status == status
    assert await edge_pool.fetchval("SELECT count(*) FROM media_objects") == 0
    assert await edge_pool.fetchval("SELECT count(*) FROM media_presign_pace") == 0


async def test_a_stranger_does_not_learn_which_pictures_are_there(edge_pool: Pool, scale: Station) -> None:
    path, body = "/api/v1/media/images/presign", request_for(STATION, JPEG)
    assert (await scale.presign(JPEG)).status == 200
    answers = [
        await scale.call("POST", path, token="guessed", json={**body, **change})
        for change in ({}, {"capturedAt": "2026-05-04T10:06:00Z"})
    ]
    assert [(answer.status, answer.code) for answer in answers] == [(401, "unauthorized")] * 2


async def test_new_secrets_hold_from_the_commit_on(edge_pool: Pool, scale: Station) -> None:
    assert (await scale.presign(JPEG)).status == 200
    async with edge_pool.acquire() as connection:
        await devices.rotate(connection, STATION.device_id, devices.Credential("$7$unused", "the new token"))
    path, body = "/api/v1/media/images/presign", request_for(STATION, JPEG)
    assert (await scale.presign(JPEG)).status == 401
    assert (await scale.call("POST", path, token="the new token", json=body)).status == 200


async def test_a_stranger_and_a_revoked_device_get_nothing(edge_pool: Pool, scale: Station) -> None:
    path, body = "/api/v1/media/images/presign", request_for(STATION, JPEG)
    media_id = await scale.upload(JPEG)
    assert (await scale.call("POST", path, token="guessed", json=body)).status == 401
    await edge_pool.execute("UPDATE devices SET revoked_at = now()")
    for answer in (await scale.presign(JPEG), await scale.complete(media_id)):
        assert (answer.status, answer.code) == (401, "unauthorized")


NOT_ALLOWED: list[tuple[dict[str, object], int]] = [
    ({"contentType": "image/gif"}, 400),
    ({"contentType": "image/jpeg; charset=x"}, 400),
    ({"contentLength": 0}, 400),
    ({"contentLength": 10 * 1024 * 1024 + 1}, 413),
    ({"contentLength": "large"}, 400),
    ({"sha256": "ff"}, 400),
    ({"sessionId": "../../etc"}, 400),
    ({"capturedAt": "2026-05-04T10:05:00"}, 400),
    ({"capturedAt": "yesterday"}, 400),
    ({"stationId": "a/../../b"}, 400),
    ({"stationId": "scale\u2215one"}, 400),
    ({"stationId": "x" * 65}, 400),
    ({"stationId": "scale\n"}, 400),
    ({"traceId": "a b\r\nx: y"}, 400),
    ({"deviceId": "scale-1/.."}, 400),
    ({"deviceId": "%2e%2e"}, 400),
    ({"tenantId": "d\u0435mo"}, 400),
    ({"tenantId": "demo\u0000"}, 400),
    ({"farmId": None}, 400),
]


async def test_what_is_not_allowed_is_refused_before_anything_is_signed(edge_pool: Pool, scale: Station) -> None:
    for change, status in NOT_ALLOWED:
        answer = await scale.presign(**change)
        assert answer.status == status, (change, answer.body)
        assert answer.code
    assert await edge_pool.fetchval("SELECT count(*) FROM media_objects") == 0


async def test_a_body_that_is_too_large_or_no_json_is_refused(scale: Station) -> None:
    path = "/api/v1/media/images/presign"
    too_large = await scale.call("POST", path, json=request_for(STATION, JPEG, ignored="x" * 70_000))
    assert too_large.status == 413
    assert (await scale.call("POST", path, data=b"{" * 10_000)).status == 400


OTHER = picture(width=65)


async def test_the_object_store_takes_only_the_body_that_was_said_and_only_once(
    edge_pool: Pool, scale: Station
) -> None:
    presigned = await scale.presign(JPEG)
    same_size = JPEG[:-1] + bytes([JPEG[-1] ^ 1])
    refusals = [
        await scale.put(presigned, same_size),
        await scale.put(presigned, JPEG + b"x", **{"content-length": str(len(JPEG) + 1)}),
        await scale.put(presigned, OTHER, **{"content-length": str(len(OTHER))}),
        await scale.put(presigned, JPEG, **{"content-type": "text/html"}),
        await scale.put(presigned, JPEG, **{"if-none-match": "x"}),
    ]
    assert all(refusal.status in (400, 403) for refusal in refusals), [refusal.status for refusal in refusals]
    elsewhere = presigned.body["upload_url"].replace("/scale-1/", "/scale-2/")
    moved = await scale.put(presigned.with_url(elsewhere), JPEG)
    assert moved.status == 403
    assert (await scale.put(presigned, JPEG)).status == 200
    assert (await scale.put(presigned, JPEG)).status == 412
    assert (await scale.complete(presigned.body["media_id"])).status == 200
    await assert_stored_once(edge_pool, [UUID(presigned.body["media_id"])])


async def test_this_service_takes_only_what_was_said_and_only_once(edge_pool: Pool, edge_url: str, s3: S3) -> None:
    async with station(edge_pool, edge_url, s3, MEDIA_BYTES_MAX="20000") as scale:
        presigned = await scale.presign(contentLength=len(JPEG))
        refusals = {
            "other_content_type": await scale.put(presigned, JPEG, **{"content-type": "image/png"}),
            "size_mismatch": await scale.put(presigned, OTHER),
            "empty": await scale.put(presigned, b""),
            "picture_too_large": await scale.put(presigned, bytes(20_001)),
        }
        assert {refusal.code for refusal in refusals.values()} == set(refusals)
        wrong = presigned.body["upload_url"].replace("token=", "token=x")
        stranger = await scale.put(presigned.with_url(wrong), JPEG)
        assert (stranger.status, stranger.code) == (403, "upload_refused")
        assert (await scale.put(presigned, JPEG)).status == 200
        assert (await scale.put(presigned, JPEG)).status in (403, 412)
        hashed = await scale.presign(sha256=hashlib.sha256(JPEG).hexdigest())
        assert (await scale.put(hashed, OTHER)).code == "checksum_mismatch"


async def test_of_two_pictures_sent_at_once_to_one_url_one_is_taken_whole(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    for _ in range(5):
        presigned = await scale.presign()
        answers = await asyncio.gather(*(scale.put(presigned, data) for data in (JPEG, OTHER, JPEG, OTHER)))
        media_id = presigned.body["media_id"]
        taken = {answer.body["sha256"] for answer in answers if answer.status == 200}
        assert len(taken) == 1
        assert {answer.status for answer in answers} <= {200, 403, 412, 422}
        assert (await scale.complete(media_id)).body["sha256"] in taken


async def test_an_error_of_ours_about_one_picture_costs_no_other_its_turn(
    edge_pool: Pool, edge_url: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with station(edge_pool, edge_url, s3, MEDIA_SWEEP_SECONDS="0.1") as scale:
        presigned = await scale.presign(JPEG)
        poison = UUID(presigned.body["media_id"])
        real = inspection.examine

        async def examine(found: Picture, *others: Any) -> Any:
            if found.media_id == poison:
                raise ZeroDivisionError("a mistake of ours")
            return await real(found, *others)

        monkeypatch.setattr(inspection, "examine", examine)
        assert (await scale.put(presigned, JPEG)).status == 200
        good = await scale.upload(JPEG)
        await eventually(lambda: _is(edge_pool, good, "stored"), what="the good picture to be stored")
        assert await state_of(edge_pool, poison) == "presigned"
        assert "farmiq_media_inspections_failed_total 1.0" in await scale.text("/metrics")


class LateClock(Clock):
    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


async def test_an_expired_url_takes_nothing(edge_pool: Pool, edge_url: str, s3: S3) -> None:
    clock = LateClock()
    async with station(edge_pool, edge_url, s3, clock, MEDIA_URL_SECONDS="1") as scale:
        direct, here = await scale.presign(JPEG), await scale.presign()
        clock.ahead = timedelta(seconds=2)
        expired = await scale.put(here, JPEG)
        assert (expired.status, expired.code) == (403, "upload_expired")
        wrong = JPEG[:-1] + bytes([JPEG[-1] ^ 1])

        async def is_refused() -> bool:
            # Until it has expired, the wrong body is refused for its checksum: 400.
            return (await scale.put(direct, wrong)).status == 403

        await eventually(is_refused, what="the URL to expire")
        assert (await scale.put(direct, JPEG)).status == 403


async def test_an_upload_that_never_came_is_forgotten_and_an_announced_one_is_missing_until_it_comes(
    edge_pool: Pool, edge_url: str, s3: S3
) -> None:
    clock = LateClock()
    settings = {"MEDIA_SWEEP_SECONDS": "0.1", "MEDIA_UPLOAD_GRACE_SECONDS": "60"}
    async with station(edge_pool, edge_url, s3, clock, **settings) as scale:
        unused, announced = await scale.presign(JPEG), await scale.presign(JPEG)
        assert (await scale.complete(announced.body["media_id"])).status == 409
        clock.ahead = timedelta(seconds=300 + 61)
        await eventually(lambda: _is(edge_pool, unused.body["media_id"], None), what="the unused URL to be forgotten")
        await eventually(lambda: _is(edge_pool, announced.body["media_id"], "missing"), what="it to be missing")
        alert = (
            "SELECT count(*) FROM ops_alerts WHERE kind = 'picture_missing' AND status = 'open' AND tenant_id = 'demo'"
        )
        assert await edge_pool.fetchval(alert) == 1
        assert (await scale.put(announced, JPEG)).status == 200
        assert (await scale.complete(announced.body["media_id"])).status == 200
        assert (await scale.complete(unused.body["media_id"])).status == 404
    await assert_stored_once(edge_pool, [UUID(announced.body["media_id"])])


async def test_a_question_whether_it_came_leaves_nobody_waiting_for_one_that_was_sent_again(
    edge_pool: Pool, edge_url: str, s3: S3
) -> None:
    """A PUT was cut, its URL has expired: the station asks, and sends the picture again under another id."""
    clock = LateClock()
    settings = {"MEDIA_SWEEP_SECONDS": "0.1", "MEDIA_UPLOAD_GRACE_SECONDS": "60"}
    async with station(edge_pool, edge_url, s3, clock, **settings) as scale:
        cut, arrived = await scale.presign(JPEG), await scale.presign(JPEG)
        assert (await scale.put(arrived, JPEG)).status == 200
        clock.ahead = timedelta(seconds=301)
        asked = await scale.complete(cut.body["media_id"], awaited="false")
        assert (asked.status, asked.code) == (409, "object_missing")
        assert (await scale.complete(arrived.body["media_id"], awaited="false")).status == 200
        clock.ahead = timedelta(seconds=300 + 61)
        await eventually(lambda: _is(edge_pool, cut.body["media_id"], None), what="the cut upload to be forgotten")
    assert await edge_pool.fetchval("SELECT count(*) FROM ops_alerts") == 0
    await assert_stored_once(edge_pool, [UUID(arrived.body["media_id"])])


async def test_the_pace_of_a_device_is_the_same_on_all_replicas_and_costs_no_neighbour(
    edge_pool: Pool, edge_url: str, s3: S3
) -> None:
    other_token = await register(edge_pool, Origin("demo", "farm-1", "barn-1", "scale-2"))
    limit = {"MEDIA_PRESIGNS_PER_MINUTE": "6"}
    async with station(edge_pool, edge_url, s3, **limit) as one, replica(one, edge_url, s3, **limit) as two:
        answers = await asyncio.gather(*((one, two)[number % 2].presign(JPEG) for number in range(20)))
        refused = [answer for answer in answers if answer.status == 429]
        # One more may come round while these are asked for: it is a share of a minute.
        assert 6 <= len(answers) - len(refused) <= 7
        assert all(answer.code == "too_fast" and 1 <= int(answer.headers["retry-after"]) <= 60 for answer in refused)
        assert await edge_pool.fetchval("SELECT count(*) FROM media_objects") == len(answers) - len(refused)
        neighbour = request_for(Origin("demo", "farm-1", "barn-1", "scale-2"), JPEG)
        asked = await one.call("POST", "/api/v1/media/images/presign", token=other_token, json=neighbour)
        assert asked.status == 200


async def test_a_pace_that_a_clock_ahead_has_written_holds_no_station_back(edge_pool: Pool, scale: Station) -> None:
    """promise-device-edge 7."""
    assert (await scale.presign(JPEG)).status == 200
    for days in (1, 365):
        await edge_pool.execute("UPDATE media_presign_pace SET used_to = used_to + make_interval(days => $1)", days)
        assert (await scale.presign(JPEG)).status == 200
        assert await edge_pool.fetchval(
            "SELECT used_to <= clock_timestamp() + interval '1 minute' FROM media_presign_pace"
        )


async def test_two_stations_and_two_tenants_do_not_see_each_other(edge_pool: Pool, scale: Station) -> None:
    media_id = await scale.upload(JPEG)
    strangers = [Origin("demo", "farm-1", "barn-1", "scale-2"), Origin("rival", "farm-1", "barn-1", "scale-3")]
    for origin in strangers:
        token = await register(edge_pool, origin)
        answer = await scale.call("POST", f"/api/v1/media/images/{media_id}/complete", token=token)
        assert (answer.status, answer.code) == (404, "unknown_media")
    assert (await scale.complete(media_id)).status == 200
    assert (await scale.ask(f"/api/v1/media/{media_id}", tenant_id="rival")).status == 404
    assert (await scale.ask(f"/api/v1/media/{media_id}/url", tenant_id="rival")).status == 404
    assert (await scale.ask("/api/v1/media", tenant_id="rival")).body["pictures"] == []


async def test_urls_name_the_public_endpoint_and_the_service_keeps_its_own(
    edge_pool: Pool, edge_url: str, s3: S3
) -> None:
    public = s3.endpoint.replace("127.0.0.1", "localhost")
    here = {"S3_PUBLIC_ENDPOINT": public, "MEDIA_PUBLIC_URL": "https://edge.example/media"}
    async with station(edge_pool, edge_url, s3, **here) as scale:
        presigned = await scale.presign(JPEG)
        assert presigned.body["upload_url"].startswith(f"{public}/")
        assert (await scale.put(presigned, JPEG)).status == 200
        assert (await scale.complete(presigned.body["media_id"])).status == 200
        other = await scale.presign()
        assert other.body["upload_url"].startswith("https://edge.example/media/api/v1/media/images/")
        url = await scale.ask(f"/api/v1/media/{presigned.body['media_id']}/url", tenant_id="demo")
        assert url.body["url"].startswith(f"{public}/")


async def test_a_bucket_that_is_gone_is_nobodys_missing_picture(edge_pool: Pool, edge_url: str, s3: S3) -> None:
    clock = LateClock()
    async with station(
        edge_pool, edge_url, s3, clock, MEDIA_BUCKET="no-such-bucket", MEDIA_SWEEP_SECONDS="0.1"
    ) as scale:
        presigned = await scale.presign(JPEG)
        clock.ahead = timedelta(days=2)
        answer = await scale.complete(presigned.body["media_id"])
        assert answer.status == 503
        assert await state_of(edge_pool, presigned.body["media_id"]) == "presigned"
        assert (await scale.call("GET", "/api/ready")).status == 503


async def _is(pool: Pool, media_id: UUID | str, state: str | None) -> bool:
    return await state_of(pool, media_id) == state


async def test_a_picture_that_a_restored_edge_has_forgotten_comes_again_under_its_name(
    edge_pool: Pool, scale: Station
) -> None:
    """The cloud may have it from before, and knows it by that name."""
    media_id = await scale.upload(JPEG)
    assert (await scale.complete(media_id)).status == 200
    while_it_is_known = (await scale.presign(JPEG)).body["media_id"]
    assert while_it_is_known != str(media_id)
    await edge_pool.execute("DELETE FROM media_objects")
    presigned = await scale.presign(JPEG)
    assert presigned.body["media_id"] == str(media_id)
    assert (await scale.put(presigned, JPEG)).status == 412
    assert (await scale.complete(media_id)).status == 200
