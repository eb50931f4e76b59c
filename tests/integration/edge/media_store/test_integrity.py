"""Rows and objects that no longer agree: found, shown, and repaired without losing a picture."""

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from uuid import UUID

import pytest_asyncio

from farmiq.edge.media_store import cleanup
from farmiq.edge.media_store.integrity import Check, Problem
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.kit.jobs import Work
from farmiq.kit.postgres import Pool
from support.media_world import Station, assert_stored_once, objects_of, station
from support.picture_files import picture
from support.s3 import S3
from support.waiting import eventually

JPEG = picture()


@pytest_asyncio.fixture
async def scale(edge_pool: Pool, edge_url: str, s3: S3) -> AsyncIterator[Station]:
    async with station(edge_pool, edge_url, s3, JOB_SCHEDULER_ENABLED="false") as scale:
        yield scale


async def stored(scale: Station, data: bytes = JPEG) -> UUID:
    media_id = await scale.upload(data)
    assert (await scale.complete(media_id)).status == 200
    return media_id


async def check(pool: Pool, s3: S3, **options: bool) -> tuple[list[Problem], Counter[str]]:
    counts: Counter[str] = Counter()
    async with pool.acquire() as connection:
        found = Check(
            connection,
            objects_of(s3),
            s3.bucket,
            is_deep=options.get("is_deep", False),
            is_repairing=options.get("is_repairing", False),
        )
        return [problem async for problem in found.problems(counts)], counts


async def key_of(pool: Pool, media_id: UUID) -> str:
    return str(await pool.fetchval("SELECT object_key FROM media_objects WHERE id = $1", media_id))


async def states(pool: Pool) -> dict[UUID, str]:
    return {row["id"]: row["state"] for row in await pool.fetch("SELECT id, state FROM media_objects")}


async def test_nothing_is_wrong_with_pictures_in_every_ordinary_state(edge_pool: Pool, s3: S3, scale: Station) -> None:
    await stored(scale)
    await scale.presign(JPEG)
    await scale.upload(JPEG)
    await scale.complete(await scale.upload(b"no picture"))
    problems, counts = await check(edge_pool, s3, is_deep=True)
    assert (problems, counts) == ([], {"rows": 4, "objects": 3})


async def test_each_difference_is_found_and_repaired_without_losing_a_picture(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    objects = objects_of(s3)
    gone, larger, flipped, unknown = [await stored(scale) for _ in range(4)]
    keys = {media_id: await key_of(edge_pool, media_id) for media_id in (gone, larger, flipped, unknown)}
    await objects.delete(s3.bucket, keys[gone])
    await objects.put(s3.bucket, keys[larger], JPEG + b"\x00", content_type="image/jpeg")
    await objects.put(s3.bucket, keys[flipped], JPEG[:-3] + b"\x00" + JPEG[-2:], content_type="image/jpeg")
    await edge_pool.execute("DELETE FROM media_objects WHERE id = $1", unknown)
    await objects.put(s3.bucket, "tenants/notes.txt", b"somebody's", content_type="text/plain")
    stray = f"{keys[unknown].rpartition('/')[0]}/{new_id()}.gif"
    await objects.put(s3.bucket, stray, b"GIF89a", content_type="image/gif")
    expected = {
        ("no_object", keys[gone]),
        ("other_size", keys[larger]),
        ("other_checksum", keys[flipped]),
        ("no_row", keys[unknown]),
        ("foreign", "tenants/notes.txt"),
        ("foreign", stray),
    }
    before = await states(edge_pool)
    shallow, _ = await check(edge_pool, s3)
    assert {(problem.kind, problem.object_key) for problem in shallow} == expected - {("other_checksum", keys[flipped])}
    deep, _ = await check(edge_pool, s3, is_deep=True)
    assert {(problem.kind, problem.object_key) for problem in deep} == expected
    assert await states(edge_pool) == before
    repaired, _ = await check(edge_pool, s3, is_deep=True, is_repairing=True)
    assert {problem.kind for problem in repaired if not problem.is_repaired} == {"foreign"}

    async def is_settled() -> bool:
        wanted = {gone: "missing", larger: "refused", flipped: "refused", unknown: "stored"}
        return await states(edge_pool) == wanted

    await eventually(is_settled, what="the object without a row to be verified and stored")
    left, _ = await check(edge_pool, s3, is_deep=True)
    assert {problem.kind for problem in left} == {"foreign"}
    kinds = await edge_pool.fetch("SELECT kind FROM ops_alerts WHERE status = 'open' ORDER BY kind")
    assert [row["kind"] for row in kinds] == ["picture_missing", "picture_refused"]


async def test_the_session_of_a_picture_that_is_gone_or_changed_knows_it(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    session_id, objects = new_id(), objects_of(s3)
    for damage in ("delete", "change"):
        media_id = await scale.upload(JPEG, sessionId=str(session_id))
        assert (await scale.complete(media_id)).status == 200
        key = await key_of(edge_pool, media_id)
        if damage == "delete":
            await objects.delete(s3.bucket, key)
        else:
            await objects.put(s3.bucket, key, JPEG + b"\x00", content_type="image/jpeg")
    whole = "SELECT count(stored_at) FROM session_pictures WHERE session_id = $1"
    assert await edge_pool.fetchval(whole, session_id) == 2
    await check(edge_pool, s3, is_repairing=True)
    assert await edge_pool.fetchval(whole, session_id) == 0


async def test_a_missing_picture_that_is_there_again_is_stored_again_and_told_no_second_time(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    media_id = await stored(scale)
    key, objects = await key_of(edge_pool, media_id), objects_of(s3)
    await objects.delete(s3.bucket, key)
    await check(edge_pool, s3, is_repairing=True)
    assert await states(edge_pool) == {media_id: "missing"}
    await objects.put(s3.bucket, key, JPEG, content_type="image/jpeg")
    (problem,), _ = await check(edge_pool, s3, is_repairing=True)
    assert (problem.kind, problem.media_id, problem.is_repaired) == ("returned", media_id, True)

    async def is_stored() -> bool:
        return await states(edge_pool) == {media_id: "stored"}

    await eventually(is_stored, what="the picture to be stored again")
    await assert_stored_once(edge_pool, [media_id])


async def test_a_lost_database_is_filled_again_from_the_object_store(edge_pool: Pool, s3: S3, scale: Station) -> None:
    """As after a restored backup: the events are then the same ones, so the cloud takes them for what it has."""
    media_ids = [await stored(scale, picture(width=60 + number)) for number in range(3)]
    stored_events = """
        SELECT id, payload_json->>'sha256' AS sha256 FROM sync_outbox WHERE event_type = 'media.stored' ORDER BY id
    """
    events = await edge_pool.fetch(stored_events)
    await edge_pool.execute("TRUNCATE media_objects, sync_outbox, media_transfers")
    await check(edge_pool, s3, is_repairing=True)

    async def are_stored() -> bool:
        return await states(edge_pool) == dict.fromkeys(media_ids, "stored")

    await eventually(are_stored, what="all of them to be stored again")
    await assert_stored_once(edge_pool, media_ids)
    assert await edge_pool.fetch(stored_events) == events


async def test_the_daily_job_tells_and_changes_nothing(edge_pool: Pool, s3: S3, scale: Station) -> None:
    media_id = await stored(scale)
    job = partial(cleanup.check_integrity, lambda: (s3.bucket, objects_of(s3)))
    alerts = "SELECT count(*) FROM ops_alerts WHERE kind = 'media_integrity' AND status = 'open'"
    async with edge_pool.acquire() as connection:
        assert await job(Work(connection, Clock())) == {"rows": 1, "objects": 1}
        key = await key_of(edge_pool, media_id)
        await objects_of(s3).delete(s3.bucket, key)
        assert await job(Work(connection, Clock())) == {"rows": 1, "objects": 0, "no_object": 1}
        assert (await states(edge_pool), await connection.fetchval(alerts)) == ({media_id: "stored"}, 1)
        await objects_of(s3).put(s3.bucket, key, JPEG, content_type="image/jpeg")
        assert await job(Work(connection, Clock())) == {"rows": 1, "objects": 1}
        assert await connection.fetchval(alerts) == 0
