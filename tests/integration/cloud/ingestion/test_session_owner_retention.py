"""Which edge began a weigh session is forgotten when no edge tells of it any more, and not before."""

import pytest

from farmiq.cloud.ingestion.jobs import jobs
from farmiq.kit import sweep
from farmiq.kit.postgres import Pool
from support.stored_months import run_now

FILL = """
INSERT INTO session_owners (tenant_id, session_id, device_id, edge_cluster_id, first_seen_at)
SELECT 'demo', gen_random_uuid(), 'station-1', 'edge-1', now() - make_interval(days => $2) FROM generate_series(1, $1)
"""
AGES = "SELECT array_agg(DISTINCT extract(day FROM now() - first_seen_at)::int) FROM session_owners"


@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        ({}, [1, 399]),
        ({"SESSION_OWNER_RETENTION_DAYS": "30"}, [1]),
        ({"SESSION_OWNER_RETENTION_DAYS": "30", "INGEST_DEDUPE_RETENTION_DAYS": "500"}, [1, 399, 401]),
    ],
)
async def test_old_owners_go_in_steps_and_never_before_their_events_are_forgotten(
    cloud_pool: Pool, environ: dict[str, str], kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "STEP_PAUSE_SECONDS", 0)
    await cloud_pool.execute(FILL, sweep.STEP_ROWS + 1, 401)
    for days in (1, 399):
        await cloud_pool.execute(FILL, 1, days)
    [job] = [one for one in jobs(environ) if one.name == "cloud-session-owner-retention"]

    foretold = await run_now(cloud_pool, job, is_dry_run=True)
    report = await run_now(cloud_pool, job)

    gone = sum({399: 1, 401: sweep.STEP_ROWS + 1}[days] for days in {399, 401} - {*kept})
    assert foretold == report == {"rows": gone}
    assert await cloud_pool.fetchval(AGES) == kept
