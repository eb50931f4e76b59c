"""A picture whose announcement was acknowledged is stored in the end, or it is in the loss ledger of both tiers
(promise-device-edge 11, promise-cloud 17 and 18)."""

import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest_asyncio

from farmiq.contracts.weighvision import ImageCaptured
from farmiq.edge.media_store import cleanup, intake, losses
from farmiq.edge.media_store.intake import Announcement
from farmiq.edge.media_store.integrity import Check
from farmiq.edge.media_store.settings import MediaRetentionSettings
from farmiq.edge.sync_forwarder.pictures import store as transfers
from farmiq.kit.clock import Clock
from farmiq.kit.jobs import Work
from farmiq.kit.postgres import Pool
from support.media_world import CAPTURED_AT, STATION, Station, assert_stored_once, objects_of, station
from support.picture_files import picture
from support.s3 import S3
from support.waiting import eventually

JPEG = picture()
CUT = JPEG[: len(JPEG) // 2]


@pytest_asyncio.fixture
async def scale(edge_pool: Pool, edge_url: str, s3: S3) -> AsyncIterator[Station]:
    async with station(edge_pool, edge_url, s3, JOB_SCHEDULER_ENABLED="false") as scale:
        yield scale


async def announce(pool: Pool, media_id: UUID, data: bytes = JPEG, session_id: UUID | None = None) -> None:
    captured = ImageCaptured(media_id=media_id, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    async with pool.acquire() as connection, connection.transaction():
        (answer,) = await intake.announce(connection, [Announcement(STATION, captured, session_id, CAPTURED_AT)])
    assert answer.refusal is None


async def state_of(scale: Station, media_id: UUID) -> str:
    answer = await scale.call("POST", "/api/v1/media/images/states", json={"media_ids": [str(media_id)]})
    assert answer.status == 200, answer.body
    (one,) = answer.body["pictures"]
    assert one["media_id"] == str(media_id)
    return str(one["state"])


async def until(scale: Station, media_id: UUID, state: str) -> None:
    async def is_so() -> bool:
        return await state_of(scale, media_id) == state

    await eventually(is_so, what=f"the picture to be {state}")


async def key_of(pool: Pool, media_id: UUID) -> str:
    return str(await pool.fetchval("SELECT object_key FROM media_objects WHERE id = $1", media_id))


async def repair(pool: Pool, s3: S3, **options: Any) -> list[str]:
    async with pool.acquire() as connection:
        run = Check(connection, objects_of(s3), s3.bucket, is_deep=True, is_repairing=True, **options)
        return [problem.kind async for problem in run.problems(Counter())]


async def no_more_time(pool: Pool) -> None:
    await pool.execute("UPDATE media_objects SET declare_at = now() WHERE declare_at IS NOT NULL")


async def ledger(pool: Pool) -> list[dict[str, Any]]:
    """What is in the ledger and, under the same id, in the outbox."""
    rows = await pool.fetch(
        """SELECT l.event_id, l.device_id, l.reason, l.count, l.pictures, l.first_ts, o.payload_json, o.event_type, o.session_id
             FROM station_losses AS l JOIN sync_outbox AS o ON o.id = l.event_id AND o.tenant_id = l.tenant_id"""
    )
    assert await pool.fetchval("SELECT count(*) FROM station_losses") == len(rows)
    return [{**dict(row), "payload": json.loads(bytes(row["payload_json"]))} for row in rows]


async def test_a_picture_that_will_never_be_good_is_declared_at_once_with_device_time_and_cause(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    """promise-device-edge 11: the camera itself gave half a picture. Its bytes are the announced ones."""
    session_id = uuid4()
    media_id = await scale.upload(CUT, sessionId=str(session_id))
    await announce(edge_pool, media_id, CUT, session_id)
    await until(scale, media_id, "lost")
    (loss,) = await ledger(edge_pool)
    assert (loss["device_id"], loss["reason"], loss["count"], loss["pictures"]) == (
        STATION.device_id, "picture_refused", 1, 1,
    )  # fmt: skip
    assert (loss["first_ts"], loss["session_id"], loss["event_type"]) == (CAPTURED_AT, session_id, "station.loss")
    assert (loss["payload"]["media_ids"], loss["payload"]["session_ids"]) == ([str(media_id)], [str(session_id)])
    view = await scale.ask(f"/api/v1/media/{media_id}", tenant_id="demo")
    assert (view.body["state"], view.body["declared_lost_at"] is None) == ("refused", False)
    async with edge_pool.acquire() as connection:
        tally = (await intake.pictures_of(connection, "demo", [session_id]))[session_id]
    assert (tally.refused, tally.lost) == (1, 1)


async def test_an_edge_that_was_restored_declares_the_same_loss(edge_pool: Pool, scale: Station) -> None:
    media_id = await scale.upload(CUT)
    await announce(edge_pool, media_id, CUT)
    await until(scale, media_id, "lost")
    (told,) = await ledger(edge_pool)
    await edge_pool.execute("TRUNCATE station_losses, sync_outbox")
    await edge_pool.execute("UPDATE media_objects SET declared_lost_at = NULL, declare_at = now()")
    await until(scale, media_id, "lost")
    (again,) = await ledger(edge_pool)
    assert (again["event_id"], again["payload"]) == (told["event_id"], told["payload"])


async def test_a_refused_picture_that_nobody_announced_is_no_loss(edge_pool: Pool, scale: Station) -> None:
    media_id = await scale.upload(CUT)
    assert (await scale.complete(media_id, awaited="false")).status == 422
    assert await losses.declare_due(edge_pool, datetime.now(UTC)) == 0
    await announce(edge_pool, media_id, CUT)
    await until(scale, media_id, "lost")


async def lost_after_its_upload(pool: Pool, s3: S3, scale: Station, session_id: UUID) -> UUID:
    """Announced, acknowledged, and the object is gone: nobody brought it until its URL had long expired."""
    media_id = await scale.upload(JPEG, sessionId=str(session_id))
    await objects_of(s3).delete(s3.bucket, await key_of(pool, media_id))
    await pool.execute("UPDATE media_objects SET expires_at = now() - interval '2 hours' WHERE id = $1", media_id)
    await announce(pool, media_id, JPEG, session_id)
    await until(scale, media_id, "wanted")
    return media_id


async def test_a_missing_picture_is_sent_again_by_its_name_and_is_no_loss(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    """promise-device-edge 11: while the station has it."""
    session_id = uuid4()
    media_id = await lost_after_its_upload(edge_pool, s3, scale, session_id)
    assert await scale.upload(JPEG, sessionId=str(session_id)) == media_id
    await until(scale, media_id, "stored")
    await no_more_time(edge_pool)
    assert await losses.declare_due(edge_pool, datetime.now(UTC)) == 0
    await assert_stored_once(edge_pool, [media_id])
    assert await ledger(edge_pool) == []


async def test_a_missing_picture_that_no_station_brings_is_declared_lost_and_stays_lost(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    """promise-device-edge 11: a station of 0.1.0 never asks."""
    session_id = uuid4()
    media_id = await lost_after_its_upload(edge_pool, s3, scale, session_id)
    await no_more_time(edge_pool)
    await until(scale, media_id, "lost")
    (loss,) = await ledger(edge_pool)
    assert (loss["reason"], loss["payload"]["media_ids"]) == ("picture_missing", [str(media_id)])
    # Neither its word nor its bytes make it stored as well.
    await objects_of(s3).put(s3.bucket, await key_of(edge_pool, media_id), JPEG, content_type="image/jpeg")
    await announce(edge_pool, media_id, JPEG, session_id)
    assert await repair(edge_pool, s3) == []
    assert await state_of(scale, media_id) == "lost"
    assert await losses.declare_due(edge_pool, datetime.now(UTC)) == 0


async def test_a_time_written_by_a_clock_that_was_ahead_does_not_keep_a_loss_waiting(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    media_id = await lost_after_its_upload(edge_pool, s3, scale, uuid4())
    await edge_pool.execute("UPDATE media_objects SET declare_at = now() + interval '1 year'")
    await losses.declare_due(edge_pool, datetime.now(UTC))
    row = await edge_pool.fetchrow("SELECT declare_at - now() AS left FROM media_objects WHERE id = $1", media_id)
    assert row is not None
    assert row["left"] <= timedelta(hours=losses.WANTED_HOURS)


async def stored(scale: Station) -> UUID:
    media_id = await scale.upload(JPEG)
    assert (await scale.complete(media_id)).status == 200
    return media_id


async def test_a_changed_picture_that_was_never_uploaded_is_sent_again_or_declared(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    """promise-cloud 17: `farmiq media check --repair` made it a picture that never was one."""
    kept, gone = await stored(scale), await scale.upload(picture(width=90))
    assert (await scale.complete(gone)).status == 200
    for media_id in (kept, gone):
        key = await key_of(edge_pool, media_id)
        await objects_of(s3).put(s3.bucket, key, JPEG[:-3] + b"\x00" + JPEG[-2:], content_type="image/jpeg")
    assert sorted(await repair(edge_pool, s3)) == ["other_checksum", "other_size"]
    assert {await state_of(scale, one) for one in (kept, gone)} == {"wanted"}
    # The station has one of them still, and puts its own bytes in the place of the changed ones.
    assert await scale.upload(JPEG) == kept
    await until(scale, kept, "stored")
    await no_more_time(edge_pool)
    await until(scale, gone, "lost")
    (loss,) = await ledger(edge_pool)
    assert (loss["reason"], loss["payload"]["media_ids"]) == ("picture_refused", [str(gone)])
    # Nothing of it is sent any more; the other one is.
    assert [row["media_id"] for row in await edge_pool.fetch("SELECT media_id FROM media_transfers")] == [kept]


async def test_a_picture_that_the_cloud_has_is_no_loss_when_the_edge_loses_its_copy(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    media_id = await stored(scale)
    await edge_pool.execute("UPDATE media_transfers SET state = 'sent', sent_at = now()")
    await objects_of(s3).delete(s3.bucket, await key_of(edge_pool, media_id))
    assert await repair(edge_pool, s3) == ["no_object"]
    await no_more_time(edge_pool)
    await losses.declare_due(edge_pool, datetime.now(UTC))
    row = await edge_pool.fetchrow("SELECT declare_at, declared_lost_at FROM media_objects WHERE id = $1", media_id)
    assert row is not None
    assert tuple(row) == (None, None)
    assert await ledger(edge_pool) == []


async def test_a_picture_that_is_sent_again_follows_although_its_transfer_was_given_up(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    media_id = await stored(scale)
    await edge_pool.execute("UPDATE media_transfers SET state = 'failed', failed_at = now(), last_error_code = 'gone'")
    await objects_of(s3).delete(s3.bucket, await key_of(edge_pool, media_id))
    await repair(edge_pool, s3)
    assert await scale.upload(JPEG) == media_id
    await until(scale, media_id, "stored")
    async with edge_pool.acquire() as connection:
        assert list(await transfers.due_by_tenant(connection)) == ["demo"]


async def test_retention_forgets_no_picture_whose_loss_is_not_declared(edge_pool: Pool, s3: S3, scale: Station) -> None:
    media_id = await lost_after_its_upload(edge_pool, s3, scale, uuid4())
    await edge_pool.execute("UPDATE media_objects SET captured_at = captured_at - interval '1 year'")

    async def run_retention() -> None:
        settings = MediaRetentionSettings(media_delete_unfinalized=True, retention_require_sync=False)
        async with edge_pool.acquire() as connection:
            await cleanup.delete_expired(settings, lambda: (s3.bucket, objects_of(s3)), Work(connection, Clock()))

    await run_retention()
    assert await state_of(scale, media_id) == "wanted"
    await no_more_time(edge_pool)
    await until(scale, media_id, "lost")
    await run_retention()
    assert await state_of(scale, media_id) == "unknown"
    assert len(await ledger(edge_pool)) == 1


async def test_a_device_hears_nothing_of_the_pictures_of_others(edge_pool: Pool, scale: Station) -> None:
    media_id = await stored(scale)
    assert await state_of(scale, media_id) == "stored"
    assert await state_of(scale, uuid4()) == "unknown"
    await edge_pool.execute("UPDATE media_objects SET device_id = 'scale-2'")
    assert await state_of(scale, media_id) == "unknown"
    nobody = await scale.call("POST", "/api/v1/media/images/states", token="x", json={"media_ids": [str(media_id)]})
    assert nobody.status == 401


async def test_an_adopted_picture_gets_its_time_and_session_from_the_announcement(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    """promise-cloud 18: the edge's database was restored, its object store survived, and the cloud has not got it yet."""
    session_id = uuid4()
    media_id = await scale.upload(JPEG, sessionId=str(session_id))
    assert (await scale.complete(media_id)).status == 200
    await edge_pool.execute("TRUNCATE media_objects, sync_outbox, media_transfers, inference_jobs")
    assert await repair(edge_pool, s3, adopted_wait_seconds=3600.0) == ["no_row"]
    adopted = await edge_pool.fetchrow("SELECT state, session_id FROM media_objects")
    assert adopted is not None
    assert tuple(adopted) == ("presigned", None)
    await announce(edge_pool, media_id, JPEG, session_id)
    await until(scale, media_id, "stored")
    (event,) = await edge_pool.fetch(
        "SELECT session_id, payload_json FROM sync_outbox WHERE event_type = 'media.stored'"
    )
    assert event["session_id"] == session_id
    assert datetime.fromisoformat(json.loads(bytes(event["payload_json"]))["captured_at"]) == CAPTURED_AT
    followed = await edge_pool.fetchrow("SELECT session_id, captured_at FROM media_transfers")
    assert followed is not None
    assert tuple(followed) == (session_id, CAPTURED_AT)
    # A second word, of another time, changes nothing.
    async with edge_pool.acquire() as connection, connection.transaction():
        later = Announcement(STATION, ImageCaptured(media_id=media_id), session_id, CAPTURED_AT + timedelta(hours=1))
        await intake.announce(connection, [later])
    assert await edge_pool.fetchval("SELECT captured_at FROM media_objects") == CAPTURED_AT
