"""Digests of sessions and pictures are the same at both tiers when their rows are, and otherwise when one of them is."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from farmiq.audit.weighings import uneven_days
from farmiq.cloud.media_store.store import DIGESTED as CLOUD_PICTURES
from farmiq.cloud.telemetry_service.session_queries import DIGESTED as CLOUD_SESSIONS
from farmiq.edge.media_store.store import DIGESTED as EDGE_PICTURES
from farmiq.edge.weighvision_session.questions import DIGESTED as EDGE_SESSIONS
from farmiq.kit.day_digests import DayDigest, Digested
from farmiq.kit.postgres import Pool

DAY = datetime(2026, 11, 3, tzinfo=UTC)
PICTURE = """
    INSERT INTO media_objects (id, tenant_id, farm_id, barn_id, device_id, bucket, object_key, mime_type, size_bytes, sha256,
                               captured_at, state, stored_at, verified_at)
    VALUES ($1::uuid, 'demo', 'farm-1', 'barn-1', 'station-1', 'pictures', $1::uuid::text, 'image/jpeg', 9, $2, $3, 'stored',
            $3, $3)
"""
EDGE_SESSION = """
    INSERT INTO weight_sessions (id, tenant_id, farm_id, barn_id, device_id, status, start_at)
    VALUES ($1, 'demo', 'farm-1', 'barn-1', 'station-1', 'finalized', $2)
"""
CLOUD_SESSION = EDGE_SESSION.replace("start_at)", "start_at, first_event_at)").replace("$2)", "$2, $2)")


async def days(pool: Pool, digested: Digested, tenant_id: str = "demo") -> list[DayDigest]:
    async with pool.acquire() as connection:
        found = await digested.days(connection, tenant_id, None, DAY - timedelta(days=1), DAY + timedelta(days=9))
    return found.days


async def test_pictures_of_both_tiers_have_one_digest_until_one_differs(edge_pool: Pool, cloud_pool: Pool) -> None:
    taken: Sequence[tuple[UUID, str, datetime]] = [
        (uuid4(), f"{number:064x}", DAY + timedelta(hours=9 * number)) for number in range(8)
    ]
    for pool in (edge_pool, cloud_pool):
        await pool.executemany(PICTURE, taken)
    edge, cloud = await days(edge_pool, EDGE_PICTURES), await days(cloud_pool, CLOUD_PICTURES)
    assert edge == cloud
    assert [(day.day_at, day.rows, day.state) for day in edge] == [
        (DAY, 3, "stored"),
        (DAY + timedelta(days=1), 3, "stored"),
        (DAY + timedelta(days=2), 2, "stored"),
    ]
    assert await days(edge_pool, EDGE_PICTURES, "other") == []
    await cloud_pool.execute("UPDATE media_objects SET sha256 = $2 WHERE id = $1", taken[4][0], "f" * 64)
    assert uneven_days(edge, await days(cloud_pool, CLOUD_PICTURES)) == {DAY + timedelta(days=1)}


async def test_sessions_of_both_tiers_have_one_digest_until_one_ends_otherwise(
    edge_pool: Pool, cloud_pool: Pool
) -> None:
    weighed = [(uuid4(), DAY + timedelta(hours=9 * number)) for number in range(4)]
    await edge_pool.executemany(EDGE_SESSION, weighed)
    await cloud_pool.executemany(CLOUD_SESSION, weighed)
    edge = await days(edge_pool, EDGE_SESSIONS)
    assert edge == await days(cloud_pool, CLOUD_SESSIONS)
    assert sum(day.rows for day in edge) == 4
    await cloud_pool.execute("UPDATE weight_sessions SET status = 'cancelled' WHERE id = $1", weighed[0][0])
    assert uneven_days(edge, await days(cloud_pool, CLOUD_SESSIONS)) == {DAY}
    await cloud_pool.execute("DELETE FROM weight_sessions WHERE id = $1", weighed[3][0])
    assert uneven_days(edge, await days(cloud_pool, CLOUD_SESSIONS)) == {DAY, DAY + timedelta(days=1)}


@pytest.mark.parametrize("column", ["final_weight_kg", "image_count"])
async def test_sessions_of_both_tiers_have_one_digest_until_a_weight_or_a_number_of_pictures_differs(
    edge_pool: Pool, cloud_pool: Pool, column: str
) -> None:
    weighed = [(uuid4(), DAY + timedelta(hours=number)) for number in range(3)]
    await edge_pool.executemany(EDGE_SESSION, weighed)
    await cloud_pool.executemany(CLOUD_SESSION, weighed)
    for pool in (edge_pool, cloud_pool):
        ended = "UPDATE weight_sessions SET final_weight_kg = 0.1::float8 + 0.2, image_count = 2 WHERE id = $1"
        await pool.execute(ended, weighed[0][0])
    edge = await days(edge_pool, EDGE_SESSIONS)
    assert edge == await days(cloud_pool, CLOUD_SESSIONS)
    for value in ("40", "NULL"):
        await cloud_pool.execute(f"UPDATE weight_sessions SET {column} = {value} WHERE id = $1", weighed[0][0])  # noqa: S608 - ours
        assert uneven_days(edge, await days(cloud_pool, CLOUD_SESSIONS)) == {DAY}
