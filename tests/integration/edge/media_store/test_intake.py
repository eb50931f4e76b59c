"""What the gateway and the session service call, inside their own transactions."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from farmiq.contracts.weighvision import ImageCaptured
from farmiq.edge.media_store import intake, worker
from farmiq.edge.media_store.intake import Announcement, SessionPictures
from farmiq.kit.postgres import Pool
from farmiq.outbox import Announcer
from farmiq.timeseries.stream import Origin
from support.media_world import STATION, Station, assert_stored_once, station, stored_events
from support.picture_files import picture
from support.s3 import S3
from support.waiting import eventually

JPEG = picture()
SHA256 = hashlib.sha256(JPEG).hexdigest()


@pytest_asyncio.fixture
async def scale(edge_pool: Pool, edge_url: str, s3: S3) -> AsyncIterator[Station]:
    async with station(edge_pool, edge_url, s3) as scale:
        yield scale


async def announce(
    pool: Pool, media_id: UUID, session_id: UUID | None = None, origin: Origin = STATION, **said: object
) -> intake.Announced:
    captured = ImageCaptured(media_id=media_id, **said)  # type: ignore[arg-type]  # what the test says
    async with pool.acquire() as connection, connection.transaction():
        (answer,) = await intake.announce(connection, [Announcement(origin, captured, session_id)])
    return answer


async def until_stored(pool: Pool, *media_ids: UUID) -> None:
    async def are_stored() -> bool:
        count = "SELECT count(*) FROM media_objects WHERE state = 'stored' AND id = ANY ($1)"
        return bool(await pool.fetchval(count, list(media_ids)) == len(media_ids))

    await eventually(are_stored, what="the pictures to be stored")


async def test_the_mqtt_event_brings_the_look_and_binds_the_session(edge_pool: Pool, scale: Station) -> None:
    media_id, session_id = await scale.upload(JPEG), uuid4()
    told = await announce(
        edge_pool, media_id, session_id, content_type="image/jpeg", size_bytes=len(JPEG), sha256=SHA256
    )
    assert (told.refusal, told.state) == (None, "awaited")
    await until_stored(edge_pool, media_id)
    (event,) = await stored_events(edge_pool)
    assert event["session_id"] == session_id
    again = await announce(edge_pool, media_id, session_id)
    assert (again.refusal, again.state) == (None, "stored")
    await assert_stored_once(edge_pool, [media_id])


async def test_the_word_of_the_gateways_commit_wakes_the_worker(
    edge_pool: Pool, edge_url: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LOOK_SECONDS", 3600.0)
    announcer = Announcer(edge_pool)
    async with station(edge_pool, edge_url, s3) as scale:
        for _ in range(2):
            media_id = await scale.upload(JPEG, sessionId=str(uuid4()))
            await announce(edge_pool, media_id)
            announcer.announce()
            await until_stored(edge_pool, media_id)
    await announcer.close()


async def test_an_announcement_that_is_rolled_back_was_never_made(edge_pool: Pool, scale: Station) -> None:
    media_id = UUID((await scale.presign(JPEG)).body["media_id"])
    async with edge_pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await intake.announce(connection, [Announcement(STATION, ImageCaptured(media_id=media_id))])
        await transaction.rollback()
    assert await edge_pool.fetchval("SELECT announced_at FROM media_objects WHERE id = $1", media_id) is None


async def test_an_announcement_that_does_not_fit_its_picture_is_refused(edge_pool: Pool, scale: Station) -> None:
    session_id = uuid4()
    media_id = await scale.upload(JPEG, sessionId=str(session_id))
    same_tenant = Origin("demo", "farm-1", "barn-1", "scale-2")
    other_tenant = Origin("rival", "farm-1", "barn-1", "scale-1")
    refusals = {
        "unknown": await announce(edge_pool, uuid4()),
        "another device": await announce(edge_pool, media_id, origin=same_tenant),
        "another tenant": await announce(edge_pool, media_id, origin=other_tenant),
        "another session": await announce(edge_pool, media_id, uuid4()),
        "another size": await announce(edge_pool, media_id, size_bytes=1),
        "another checksum": await announce(edge_pool, media_id, sha256="0" * 64),
        "another type": await announce(edge_pool, media_id, content_type="image/png"),
    }
    assert {name: answer.refusal for name, answer in refusals.items()} == {
        "unknown": "unknown_media",
        "another device": "unknown_media",
        "another tenant": "unknown_media",
        "another session": "other_session",
        "another size": "other_picture",
        "another checksum": "other_picture",
        "another type": "other_picture",
    }
    assert await edge_pool.fetchval("SELECT announced_at FROM media_objects WHERE id = $1", media_id) is None
    # A device that was carried to another barn is still the device that asked for the URL.
    moved = Origin("demo", "farm-1", "barn-2", "scale-1")
    assert (await announce(edge_pool, media_id, session_id, origin=moved, sha256=SHA256.upper())).refusal is None


async def test_a_session_knows_its_pictures_in_every_state(edge_pool: Pool, scale: Station) -> None:
    session_id, empty = uuid4(), uuid4()
    in_session: dict[str, Any] = {"sessionId": str(session_id)}
    stored = [await scale.upload(JPEG, **in_session) for _ in range(2)]
    refused = await scale.upload(b"no picture", **in_session)
    presigned = await scale.presign(JPEG, **in_session)
    awaited = UUID((await scale.presign(JPEG, **in_session)).body["media_id"])
    for media_id in (*stored, refused, awaited):
        await announce(edge_pool, media_id, session_id)
    await until_stored(edge_pool, *stored)

    async def tally() -> SessionPictures:
        async with edge_pool.acquire() as connection:
            found = await intake.pictures_of(connection, "demo", [session_id, empty])
            others = await intake.pictures_of(connection, "rival", [session_id])
        assert found[empty] == others[session_id] == SessionPictures()
        return found[session_id]

    async def is_refused() -> bool:
        return (await tally()).refused == 1

    await eventually(is_refused, what="the bad picture to be refused")
    assert await tally() == SessionPictures(stored=2, awaited=1, presigned=1, refused=1, missing=0)
    assert presigned.status == 200


async def test_a_picture_is_bound_to_one_session_and_stays_there(edge_pool: Pool, scale: Station) -> None:
    media_id, session_id = await scale.upload(JPEG), uuid4()
    assert (await scale.complete(media_id)).status == 200
    async with edge_pool.acquire() as connection, connection.transaction():
        bound = await intake.bind(connection, tenant_id="demo", media_id=media_id, session_id=session_id)
        elsewhere = await intake.bind(connection, tenant_id="demo", media_id=media_id, session_id=uuid4())
        stranger = await intake.bind(connection, tenant_id="rival", media_id=media_id, session_id=session_id)
    assert (bound.refusal, bound.state) == (None, "stored")
    assert bound.picture is not None
    assert bound.picture.session_id == session_id
    assert (elsewhere.refusal, stranger.refusal) == ("other_session", "unknown_media")
    listed = await scale.ask("/api/v1/media", tenant_id="demo", session_id=str(session_id))
    assert [shown["media_id"] for shown in listed.body["pictures"]] == [str(media_id)]
