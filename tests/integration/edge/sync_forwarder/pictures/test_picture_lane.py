"""Pictures from a real edge store to a real cloud store, presigned by a scripted cloud: what arrives, what each answer does."""

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator

import aiohttp
import pytest
from aiohttp import web

from farmiq.contracts.decoding import encode, parse
from farmiq.contracts.media import CloudPresignRequest
from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.stack.ports import free_port
from support.edge_pictures import EdgePictures, picture_environ, transfer_row, transfers_by_state
from support.forwarder import ADMIN_TOKEN, SERVICE, forwarder_environ
from support.outbox_rows import count_by_status, fill_outbox
from support.s3 import S3
from support.scripted_cloud import ScriptedCloud, cloud
from support.scripted_media_cloud import Handler, ScriptedMediaCloud, answer, media_cloud
from support.service_process import running
from support.waiting import eventually

__all__ = ["cloud", "media_cloud"]  # fixtures
ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}


@pytest.fixture
def pictures(edge_pool: Pool, s3: S3) -> Iterator[EdgePictures]:
    made = EdgePictures(edge_pool, s3)
    yield made
    made.store.close()


@pytest.fixture
def environ(edge_url: str, cloud: ScriptedCloud, s3: S3, media_cloud: ScriptedMediaCloud) -> dict[str, str]:
    lane = picture_environ(s3, media_cloud.url, OUTBOX_BACKOFF_CAP_SECONDS="1", SYNC_INTERVAL_MS="200")
    return forwarder_environ(edge_url, cloud.url, INTERNAL_ADMIN_ENABLED="true", ADMIN_TOKEN=ADMIN_TOKEN, **lane)


async def states_are(pool: Pool, expected: dict[str, int]) -> bool:
    return await transfers_by_state(pool) == expected


async def test_a_picture_arrives_as_it_was_stored_and_is_marked_after_the_cloud_has_compared_it(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    session_id = new_id()
    media_id, body = await pictures.keep(300_000, session_id=session_id)
    async with running(serve, SERVICE, environ) as url:
        await eventually(lambda: states_are(edge_pool, {"sent": 1}))
        async with aiohttp.ClientSession(url) as session, session.get("/metrics") as metrics:
            assert "farmiq_media_sync_sent_bytes_total" in await metrics.text()
    assert await media_cloud.body_of(media_id) == body
    asked = media_cloud.asked[media_id]
    assert (asked.session_id, asked.size_bytes, asked.sha256) == (
        session_id,
        len(body),
        hashlib.sha256(body).hexdigest(),
    )
    assert (media_cloud.presigned[media_id], media_cloud.stored[media_id]) == (1, 1)
    row = await transfer_row(edge_pool, media_id)
    assert (row["attempt_count"], row["claimed_by"], row["last_error_code"]) == (0, "replica-1", None)
    assert row["sent_at"] is not None


async def test_many_pictures_of_several_tenants_all_arrive_once(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    kept = [await pictures.keep(1 + 20_000 * number, tenant_id=f"t{number % 3}") for number in range(12)]
    small_budget = {"MEDIA_SYNC_PARALLEL": "4", "MEDIA_SYNC_BYTES_IN_FLIGHT": str(1024 * 1024)}
    async with running(serve, SERVICE, environ | small_budget):
        await eventually(lambda: states_are(edge_pool, {"sent": 12}))
    for media_id, body in kept:
        assert await media_cloud.body_of(media_id) == body
    assert set(media_cloud.presigned.values()) == {1}


async def test_following_a_picture_twice_sends_it_once(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    media_id, body = await pictures.keep()
    await pictures.follow(pictures.picture(body, media_id=media_id))
    async with running(serve, SERVICE, environ):
        await eventually(lambda: states_are(edge_pool, {"sent": 1}))
        await pictures.follow(pictures.picture(body, media_id=media_id))
        assert await transfers_by_state(edge_pool) == {"sent": 1}
    assert media_cloud.presigned[media_id] == 1


async def test_without_a_cloud_media_url_pictures_wait_and_events_flow(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, pictures: EdgePictures
) -> None:
    await pictures.keep()
    await fill_outbox(edge_pool, 3)
    async with running(serve, SERVICE, forwarder_environ(edge_url, cloud.url)):
        await eventually(lambda: all_acked(edge_pool))
    assert await transfers_by_state(edge_pool) == {"pending": 1}


async def all_acked(pool: Pool) -> bool:
    return set(await count_by_status(pool)) == {"acked"}


@pytest.mark.parametrize("code", [503, 403, 500])
async def test_a_media_store_that_is_away_costs_no_attempt_and_it_goes_on_when_it_is_back(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud, code: int
) -> None:
    media_id, _ = await pictures.keep()
    media_cloud.otherwise = answer(code)
    async with running(serve, SERVICE, environ | {"OUTBOX_MAX_ATTEMPTS": "1"}):
        await eventually(lambda: has_code(edge_pool, f"HTTP_{code}"))
        assert (await transfer_row(edge_pool, media_id))["attempt_count"] == 0
        media_cloud.otherwise = None
        await eventually(lambda: states_are(edge_pool, {"sent": 1}))
    assert (await transfer_row(edge_pool, media_id))["attempt_count"] == 0


async def has_code(pool: Pool, code: str) -> bool:
    return bool(await pool.fetchval("SELECT count(*) FROM media_transfers WHERE last_error_code = $1", code))


async def test_a_picture_at_which_the_cloud_fails_while_others_pass_is_given_up_and_a_person_is_called(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    poison, _ = await pictures.keep()

    async def choke(request: web.Request) -> web.StreamResponse:
        asked = parse(CloudPresignRequest, await request.read())
        if asked.media_id == poison:
            return web.Response(status=500)
        return web.Response(body=encode(await media_cloud.answer_to(asked)))

    async def is_given_up() -> bool:
        await pictures.keep()
        return bool((await transfer_row(edge_pool, poison))["state"] == "failed")

    media_cloud.otherwise = choke
    async with running(serve, SERVICE, environ | {"OUTBOX_MAX_ATTEMPTS": "2"}):
        await eventually(is_given_up)
        assert await open_alerts(edge_pool) == ["media_transfer_failed:HTTP_500"]


async def test_nobody_there_and_a_captive_portal_cost_nothing_either(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    media_id, _ = await pictures.keep()
    nobody = {"CLOUD_MEDIA_URL": f"http://127.0.0.1:{free_port()}", "OUTBOX_MAX_ATTEMPTS": "1"}
    async with running(serve, SERVICE, environ | nobody):
        await eventually(lambda: has_code(edge_pool, "NETWORK_ERROR"))
    media_cloud.presign_script.append(answer(200, "<html>please log in"))
    async with running(serve, SERVICE, environ | {"OUTBOX_MAX_ATTEMPTS": "1"}):
        await eventually(lambda: has_code(edge_pool, "NOT_THE_CLOUD"))
        await eventually(lambda: states_are(edge_pool, {"sent": 1}))
    assert (await transfer_row(edge_pool, media_id))["attempt_count"] == 0


async def test_what_the_cloud_says_about_the_picture_costs_attempts_then_a_person_is_called_and_can_send_it_again(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    media_id, body = await pictures.keep()
    media_cloud.otherwise = answer(422, '{"error": {"code": "bad_type", "message": "no"}}')
    async with running(serve, SERVICE, environ | {"OUTBOX_MAX_ATTEMPTS": "3"}) as url:
        await eventually(lambda: states_are(edge_pool, {"failed": 1}))
        assert media_cloud.presigned[media_id] == 3
        assert await open_alerts(edge_pool) == ["media_transfer_failed:HTTP_422"]
        async with aiohttp.ClientSession(url, headers={"authorization": f"Bearer {ADMIN_TOKEN}"}) as session:
            async with session.get("/api/v1/sync/media?status=failed") as listed:
                told = await listed.json()
            assert (told["failed_count"], told["entries"][0]["media_id"]) == (1, str(media_id))
            assert (told["entries"][0]["last_error_code"], told["entries"][0]["attempt_count"]) == ("HTTP_422", 3)
            async with session.get(f"/api/v1/sync/media?media_id={media_id}&media_id={new_id()}") as named:
                assert (await named.json())["entries"] == told["entries"]
            async with session.get(f"/api/v1/sync/media?media_id={media_id}&status=failed") as both:
                assert both.status == 400
            media_cloud.otherwise = None
            assert await redrive(session, {"allFailed": True}, token="") == (401, None)
            assert await redrive(session, {"errorCode": "HTTP_422", "dryRun": True}) == (
                200,
                {"redriven": 0, "wouldRedrive": 1},
            )
            assert await redrive(session, {"ids": [str(media_id)], "allFailed": True}) == (400, None)
            assert await redrive(session, {"ids": [str(media_id)]}) == (200, {"redriven": 1})
        await eventually(lambda: states_are(edge_pool, {"sent": 1}))
    assert await media_cloud.body_of(media_id) == body
    assert await open_alerts(edge_pool) == []


async def redrive(session: aiohttp.ClientSession, body: object, token: str = ADMIN_TOKEN) -> tuple[int, object]:
    headers = {"authorization": f"Bearer {token}"}
    async with session.post("/api/v1/sync/media/redrive", json=body, headers=headers) as said:
        return said.status, await said.json() if said.status == 200 else None


async def open_alerts(pool: Pool) -> list[str]:
    rows = await pool.fetch("SELECT dedupe_key FROM ops_alerts WHERE status = 'open' AND tenant_id = 'demo'")
    return [row["dedupe_key"] for row in rows]


async def test_a_picture_that_is_not_in_the_edge_store_is_given_up_at_once_and_said_so(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    gone = pictures.picture(b"there was a picture")
    await pictures.follow(gone)
    kept, _ = await pictures.keep()
    async with running(serve, SERVICE, environ):
        await eventually(lambda: states_are(edge_pool, {"failed": 1, "sent": 1}))
    row = await transfer_row(edge_pool, gone.media_id)
    assert (row["last_error_code"], row["attempt_count"]) == ("EDGE_OBJECT_MISSING", 1)
    assert await open_alerts(edge_pool) == ["media_transfer_failed:EDGE_OBJECT_MISSING"]
    assert media_cloud.stored[kept] == 1


@pytest.mark.parametrize("damaged", [b"x" * 100_000, b"short"], ids=["same size", "other size"])
async def test_a_picture_that_was_damaged_in_the_edge_store_never_reaches_the_cloud(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud, damaged: bytes
) -> None:
    media_id, _ = await pictures.keep(100_000)
    row = await transfer_row(edge_pool, media_id)
    await pictures.store.put(row["bucket"], row["object_key"], damaged, content_type="image/jpeg")
    async with running(serve, SERVICE, environ | {"OUTBOX_MAX_ATTEMPTS": "2"}):
        await eventually(lambda: states_are(edge_pool, {"failed": 1}))
    assert (await transfer_row(edge_pool, media_id))["last_error_code"] == "EDGE_CHECKSUM_MISMATCH"
    assert await media_cloud.keys() == []
    assert media_cloud.stored[media_id] == 0


async def test_an_upload_that_stops_moving_is_begun_again(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    media_id, body = await pictures.keep(8_000_000)
    never = asyncio.Event()

    async def take_a_little(request: web.Request) -> web.Response:
        await request.content.read(1000)
        media_cloud.put = None
        await never.wait()
        return web.Response()

    media_cloud.put = take_a_little
    async with running(serve, SERVICE, environ | {"MEDIA_SYNC_STALL_SECONDS": "1"}):
        await eventually(lambda: states_are(edge_pool, {"sent": 1}))
        never.set()
    assert (media_cloud.presigned[media_id], await media_cloud.body_of(media_id)) == (2, body)
    assert (await transfer_row(edge_pool, media_id))["attempt_count"] == 0


@pytest.mark.parametrize(
    ("refusal", "code", "attempts"),
    [
        (answer(400, "<Error><Code>BadDigest</Code></Error>"), "STORE_400", 1),
        (answer(403, "<Error><Code>AccessDenied</Code></Error>"), "STORE_403", 0),
        (answer(503, "<Error><Code>SlowDown</Code></Error>"), "STORE_503", 0),
    ],
    ids=["400", "403", "503"],
)
async def test_what_the_cloud_store_says_about_an_upload(
    environ: dict[str, str],
    edge_pool: Pool,
    pictures: EdgePictures,
    media_cloud: ScriptedMediaCloud,
    refusal: Handler,
    code: str,
    attempts: int,
) -> None:
    media_id, _ = await pictures.keep()

    async def read_and_refuse(request: web.Request) -> web.StreamResponse:
        await request.read()
        return await refusal(request)

    media_cloud.put = read_and_refuse
    async with running(serve, SERVICE, environ):
        await eventually(lambda: has_code(edge_pool, code))
        assert (await transfer_row(edge_pool, media_id))["attempt_count"] >= attempts
        media_cloud.put = None
        await eventually(lambda: states_are(edge_pool, {"sent": 1}))
    assert bool((await transfer_row(edge_pool, media_id))["attempt_count"]) == bool(attempts)


async def test_one_tenants_pause_is_not_anothers(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    for _ in range(3):
        await pictures.keep(tenant_id="bad")
        await pictures.keep(tenant_id="good")
    bad_cloud = answer(403, retry_after="600")

    async def only_for_good(request: web.Request) -> web.StreamResponse:
        is_bad = b'"bad"' in await request.read()
        return await bad_cloud(request) if is_bad else web.Response(body=b'{"state":"stored"}')

    media_cloud.otherwise = only_for_good
    async with running(serve, SERVICE, environ | {"MEDIA_SYNC_PARALLEL": "1"}):
        await eventually(lambda: states_are(edge_pool, {"pending": 3, "sent": 3}))
    bad = [media_id for media_id, asked in media_cloud.asked.items() if asked.tenant_id == "bad"]
    assert len(bad) == 1


async def test_a_stop_gives_the_picture_back_and_the_next_forwarder_sends_it(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    media_id, body = await pictures.keep()
    asked, never = asyncio.Event(), asyncio.Event()

    async def hang(_request: web.Request) -> web.Response:
        asked.set()
        await never.wait()
        return web.Response()

    media_cloud.presign_script.append(hang)
    async with running(serve, SERVICE, environ):
        await asyncio.wait_for(asked.wait(), 20)
    row = await transfer_row(edge_pool, media_id)
    assert (row["state"], row["attempt_count"], row["lease_expires_at"]) == ("pending", 0, None)
    never.set()
    async with running(serve, SERVICE, environ):
        await eventually(lambda: states_are(edge_pool, {"sent": 1}))
    assert await media_cloud.body_of(media_id) == body


async def test_a_forwarder_that_lost_its_lease_stops_sending_and_changes_nothing(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures, media_cloud: ScriptedMediaCloud
) -> None:
    media_id, _ = await pictures.keep()
    asked, cut = asyncio.Event(), asyncio.Event()

    async def hang(request: web.Request) -> web.Response:
        asked.set()
        await eventually(lambda: is_cut(request), what="the forwarder to hang up")
        cut.set()
        return web.Response()

    media_cloud.presign_script.append(hang)
    async with running(serve, SERVICE, environ | {"OUTBOX_LEASE_SECONDS": "1", "SYNC_INTERVAL_MS": "3600000"}):
        await asyncio.wait_for(asked.wait(), 20)
        await edge_pool.execute(
            "UPDATE media_transfers SET claim_token = claim_token + 1, claimed_by = 'another',"
            " lease_expires_at = now() + interval '1 hour'"
        )
        await asyncio.wait_for(cut.wait(), 20)
        row = await transfer_row(edge_pool, media_id)
        assert (row["state"], row["claimed_by"], row["claim_token"]) == ("sending", "another", 2)
    assert (await transfer_row(edge_pool, media_id))["state"] == "sending"


async def is_cut(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def test_events_flow_while_a_picture_crawls(
    environ: dict[str, str],
    edge_pool: Pool,
    cloud: ScriptedCloud,
    pictures: EdgePictures,
    media_cloud: ScriptedMediaCloud,
) -> None:
    """The upload takes a byte now and then: it is under way as long as events are acknowledged, and not a moment longer."""
    media_id, _ = await pictures.keep(4_000_000)
    crawling, enough = asyncio.Event(), asyncio.Event()

    async def crawl(request: web.Request) -> web.Response:
        crawling.set()
        while not enough.is_set():
            await request.content.read(1)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(enough.wait(), 0.01)
        media_cloud.put = None
        return web.Response(status=503)

    media_cloud.put = crawl
    async with running(serve, SERVICE, environ | {"MEDIA_SYNC_PARALLEL": "1"}):
        await asyncio.wait_for(crawling.wait(), 20)
        for _ in range(20):
            ids = await fill_outbox(edge_pool, 5)
            await edge_pool.execute("SELECT pg_notify('sync_outbox', '')")
            await eventually(lambda: all_acked(edge_pool), what="the events, which a picture must not hold up")
            assert set(ids) <= set(cloud.times_received())
            assert (await transfer_row(edge_pool, media_id))["state"] == "sending"
        enough.set()
        await eventually(lambda: states_are(edge_pool, {"sent": 1}))


async def test_pictures_keep_to_their_share_of_the_uplink(
    environ: dict[str, str], edge_pool: Pool, pictures: EdgePictures
) -> None:
    """Three seconds' worth of bytes beyond the burst are not there after one: at 200,000 bytes/s, 800,000 bytes in all."""
    for _ in range(8):
        await pictures.keep(100_000)
    loop = asyncio.get_running_loop()
    async with running(serve, SERVICE, environ | {"MEDIA_SYNC_BYTES_PER_SECOND": "200000", "MEDIA_SYNC_PARALLEL": "4"}):
        begun = loop.time()
        await eventually(lambda: states_are(edge_pool, {"sent": 8}))
        assert loop.time() - begun > 2.0
