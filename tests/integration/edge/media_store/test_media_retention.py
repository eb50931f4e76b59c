"""Old pictures go, object first, and never one that somebody still needs."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

from farmiq.edge.media_store import cleanup, store
from farmiq.edge.media_store.settings import MediaRetentionSettings
from farmiq.edge.sync_forwarder.intake import follow_all_again
from farmiq.edge.sync_forwarder.pictures import store as transfers
from farmiq.kit.clock import Clock
from farmiq.kit.jobs import Report, Work
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectMissing, ObjectStore, StoreAway
from support.media_world import STATION, Station, objects_of, station
from support.picture_files import picture
from support.s3 import S3

JPEG = picture()
LONG_AGO = datetime.now(UTC) - timedelta(days=91)
FOLLOWING = """media_id, tenant_id, farm_id, barn_id, device_id, session_id, bucket, object_key, mime_type, size_bytes, sha256,
               captured_at, trace_id, stored_size_bytes"""


@pytest_asyncio.fixture
async def scale(edge_pool: Pool, edge_url: str, s3: S3) -> AsyncIterator[Station]:
    async with station(edge_pool, edge_url, s3, JOB_SCHEDULER_ENABLED="false") as scale:
        yield scale


async def stored(scale: Station, pool: Pool, captured_at: datetime, session_id: UUID | None = None) -> UUID:
    """In the cloud already, unless a test says otherwise."""
    said: dict[str, Any] = {} if session_id is None else {"sessionId": str(session_id)}
    media_id = await scale.upload(JPEG, capturedAt=captured_at.isoformat(), **said)
    assert (await scale.complete(media_id)).status == 200
    await pool.execute("UPDATE media_transfers SET state = 'sent', sent_at = now() WHERE media_id = $1", media_id)
    return media_id


async def session(pool: Pool, status: str) -> UUID:
    session_id = uuid4()
    await pool.execute(
        "INSERT INTO weight_sessions (id, tenant_id, farm_id, barn_id, device_id, status) VALUES ($1, $2, $3, $4, $5, $6)",
        session_id,
        *msgspec.structs.astuple(STATION),
        status,
    )
    return session_id


async def run(
    pool: Pool, s3: S3, *, is_dry_run: bool = False, job: str = "delete_expired", **settings: object
) -> Report:
    chosen = MediaRetentionSettings(**settings)  # type: ignore[arg-type]  # what the test says
    work = partial(getattr(cleanup, job), chosen, lambda: (s3.bucket, objects_of(s3)))
    async with pool.acquire() as connection:
        report: Report = await work(Work(connection, Clock(), is_dry_run))
    return report


async def left(pool: Pool, s3: S3) -> set[UUID]:
    """The pictures that have both a row and an object; and none has only one of the two."""
    rows = await pool.fetch("SELECT id, object_key FROM media_objects")
    keys = {found.key async for found in objects_of(s3).list_objects(s3.bucket, "tenants/")}
    assert keys == {row["object_key"] for row in rows}
    return {row["id"] for row in rows}


async def test_a_picture_of_which_nobody_knows_that_the_cloud_has_it_follows_again(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    """promise-cloud 1: releases before this one forgot after 30 days that a picture was sent, and the last copy went with it."""
    media_id = await stored(scale, edge_pool, LONG_AGO)
    [before] = await edge_pool.fetch(f"DELETE FROM media_transfers RETURNING {FOLLOWING}")  # noqa: S608 - our own constant
    assert (await run(edge_pool, s3))["held_for_sync"] == 1
    assert await left(edge_pool, s3) == {media_id}
    # It is offered to the cloud as it was the first time; the cloud says whether it has it.
    rows = await edge_pool.fetch(f"SELECT {FOLLOWING} FROM media_transfers WHERE state = 'pending'")  # noqa: S608 - as above
    assert rows == [before]
    await edge_pool.execute("UPDATE media_transfers SET state = 'sent', sent_at = now() - interval '60 days'")
    async with edge_pool.acquire() as connection:
        assert await transfers.retire(connection, retention_days=30) == 0
        await edge_pool.execute("DELETE FROM media_transfers")
        assert await transfers.send_again(connection, [("demo", media_id), ("other", media_id)]) == 1
        await edge_pool.execute("DELETE FROM media_transfers")
        assert (await follow_all_again(connection, "other"), await follow_all_again(connection, "demo")) == (0, 1)
    await edge_pool.execute("UPDATE media_transfers SET state = 'sent', sent_at = now() - interval '60 days'")
    assert (await run(edge_pool, s3))["deleted"] == 1
    async with edge_pool.acquire() as connection:
        assert await transfers.retire(connection, retention_days=30) == 1


async def test_no_picture_goes_while_the_cloud_may_have_lost_it(edge_pool: Pool, s3: S3, scale: Station) -> None:
    """promise-cloud 3: it was sent, and the cloud has not been heard for a day, or gets again what it lost."""
    media_id = await stored(scale, edge_pool, LONG_AGO)
    tenant_id = await edge_pool.fetchval("SELECT tenant_id FROM media_objects")
    await edge_pool.execute("INSERT INTO sync_state (tenant_id, cloud_epoch) VALUES ($1, gen_random_uuid())", tenant_id)
    for state in ("cloud_heard_at = now() - interval '25 hours'", "cloud_heard_at = now(), resend_to = 9"):
        await edge_pool.execute(f"UPDATE sync_state SET {state}")  # noqa: S608 - the two above
        assert (await run(edge_pool, s3))["held_for_sync"] == 1
    assert await left(edge_pool, s3) == {media_id}
    await edge_pool.execute("UPDATE sync_state SET resend_to = NULL")
    assert (await run(edge_pool, s3))["deleted"] == 1


async def test_what_is_old_goes_and_what_is_needed_stays(edge_pool: Pool, s3: S3, scale: Station) -> None:
    is_over, is_open = await session(edge_pool, "finalized"), await session(edge_pool, "created")
    young = await stored(scale, edge_pool, datetime.now(UTC) - timedelta(days=89))
    old = await stored(scale, edge_pool, LONG_AGO)
    of_session = await stored(scale, edge_pool, LONG_AGO, is_over)
    of_open = await stored(scale, edge_pool, LONG_AGO, is_open)
    of_nobody = await stored(scale, edge_pool, LONG_AGO, uuid4())
    unsent = await stored(scale, edge_pool, LONG_AGO)
    await edge_pool.execute("UPDATE media_transfers SET state = 'pending' WHERE media_id = $1", unsent)
    unset_clock = await stored(scale, edge_pool, datetime(1970, 1, 1, tzinfo=UTC))
    expected = {"deleted": 2, "forced": 0, "held_for_session": 2, "held_for_sync": 1}
    assert await run(edge_pool, s3, is_dry_run=True) == expected
    assert len(await left(edge_pool, s3)) == 7
    assert await run(edge_pool, s3) == expected
    kept = {young, of_open, of_nobody, unsent, unset_clock}
    assert await left(edge_pool, s3) == kept
    assert {old, of_session}.isdisjoint(kept)
    held = "SELECT count(*) FROM ops_alerts WHERE kind = 'retention_held' AND status = 'open'"
    assert await edge_pool.fetchval(held) == 1
    assert await run(edge_pool, s3, media_delete_unfinalized=True) == {
        "deleted": 2, "forced": 0, "held_for_session": 0, "held_for_sync": 1,
    }  # fmt: skip
    assert await run(edge_pool, s3, retention_require_sync=False) == {
        "deleted": 0, "forced": 1, "held_for_session": 0, "held_for_sync": 0,
    }  # fmt: skip
    assert await edge_pool.fetchval(held) == 0
    assert await left(edge_pool, s3) == {young, unset_clock}


async def test_cut_between_the_object_and_the_row_the_next_run_ends_it(
    edge_pool: Pool, s3: S3, scale: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    media_id = await stored(scale, edge_pool, LONG_AGO)
    with monkeypatch.context() as cut:

        async def die(*_: object) -> None:
            raise ConnectionResetError("cut")

        cut.setattr(store, "delete_rows", die)
        with pytest.raises(ConnectionResetError):
            await run(edge_pool, s3)
    assert await edge_pool.fetchval("SELECT count(*) FROM media_objects WHERE id = $1", media_id) == 1
    assert (await run(edge_pool, s3))["deleted"] == 1
    assert await left(edge_pool, s3) == set()


async def test_with_the_object_store_away_no_row_goes(edge_pool: Pool, s3: S3, scale: Station) -> None:
    await stored(scale, edge_pool, LONG_AGO)
    nowhere = ObjectStore("http://127.0.0.1:9", access_key=s3.access_key, secret_key=s3.secret_key)
    async with edge_pool.acquire() as connection:
        with pytest.raises(StoreAway):
            await cleanup.delete_expired(
                MediaRetentionSettings(), lambda: (s3.bucket, nowhere), Work(connection, Clock())
            )
    assert len(await left(edge_pool, s3)) == 1


async def test_a_device_keeps_the_bytes_of_its_newest_refused_pictures_only(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    refused = []
    for number in range(4):
        refused.append(await scale.upload(b"no picture %d" % number))
        assert (await scale.complete(refused[-1])).status == 422
    limit = 2 * len(b"no picture 0")
    assert await run(edge_pool, s3, job="remove_refused", media_refused_bytes_per_device_max=limit) == {"objects": 2}
    rows = await edge_pool.fetch("SELECT id, object_key FROM media_objects WHERE object_removed_at IS NULL")
    assert {row["id"] for row in rows} == set(refused[2:])
    for row in rows:
        assert (await objects_of(s3).head(s3.bucket, row["object_key"])).size_bytes == len(b"no picture 0")
    assert await edge_pool.fetchval("SELECT count(*) FROM media_objects WHERE state = 'refused'") == 4


async def test_the_bytes_of_a_refused_picture_go_after_a_while_and_its_reason_stays(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    media_id = await scale.upload(b"no picture")
    assert (await scale.complete(media_id)).status == 422
    key = await edge_pool.fetchval("SELECT object_key FROM media_objects WHERE id = $1", media_id)
    assert await run(edge_pool, s3, job="remove_refused") == {"objects": 0}
    assert (await run(edge_pool, s3, media_retention_days=1))["deleted"] == 0  # captured in May, refused just now
    alerts = "SELECT count(*) FROM ops_alerts WHERE kind = 'picture_refused' AND status = 'open'"
    assert (await objects_of(s3).head(s3.bucket, key)).size_bytes == 10
    assert await edge_pool.fetchval(alerts) == 1
    assert await run(edge_pool, s3, job="remove_refused", media_refused_keep_hours=0) == {"objects": 1}
    with pytest.raises(ObjectMissing):
        await objects_of(s3).head(s3.bucket, key)
    assert await edge_pool.fetchval(alerts) == 0
    assert (
        await edge_pool.fetchval("SELECT refused_reason FROM media_objects WHERE id = $1", media_id) == "not_a_picture"
    )
    assert await run(edge_pool, s3, job="remove_refused", media_refused_keep_hours=0) == {"objects": 0}
