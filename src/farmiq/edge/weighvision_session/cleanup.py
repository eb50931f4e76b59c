"""The end of old sessions."""

import asyncio
from datetime import datetime, timedelta
from typing import Final

from farmiq.edge.weighvision_session.settings import SessionRetentionSettings
from farmiq.kit.jobs import Report, Work
from farmiq.kit.sweep import STEP_PAUSE_SECONDS

STEP_ROWS: Final = 500

# Their weights, the places of their pictures and what people did to them go with them. One that nobody closed stays: it is
# incomplete, and somebody has an alert to answer. What the cloud is to know of them is in the outbox until the cloud has it.
_OLD_SESSIONS: Final = """
    SELECT tenant_id, id FROM weight_sessions
     WHERE status <> 'created' AND look_at IS NULL AND incomplete_since IS NULL AND updated_at < $1
     ORDER BY updated_at
"""
# A result that is still in a session stays as long as the session: without it, the session would seem to have changed.
_OLD_RESULTS: Final = """
    SELECT tenant_id, id FROM session_results AS result
     WHERE received_at < $1
       AND NOT EXISTS (SELECT FROM weight_sessions AS known
                        WHERE known.tenant_id = result.tenant_id AND known.id = result.session_id)
       AND NOT EXISTS (SELECT FROM session_pictures AS known
                        WHERE known.tenant_id = result.tenant_id AND known.media_id = result.media_id)
     ORDER BY received_at
"""


async def delete_expired_sessions(settings: SessionRetentionSettings, work: Work) -> Report:
    """Closed sessions to which nothing has come for so long, and inference results that are in no session."""
    before = work.cutoff(timedelta(days=settings.kept_days))
    return {
        "sessions": await _delete(work, "weight_sessions", _OLD_SESSIONS, before),
        "results": await _delete(work, "session_results", _OLD_RESULTS, before),
    }


async def _delete(work: Work, table: str, old: str, before: datetime) -> int:
    if work.is_dry_run:
        return int(await work.connection.fetchval(f"SELECT count(*) FROM ({old}) AS old", before))  # noqa: S608 - as below
    step = f"""
        WITH step AS MATERIALIZED ({old} LIMIT $2 FOR UPDATE SKIP LOCKED)
        DELETE FROM {table} WHERE (tenant_id, id) IN (SELECT tenant_id, id FROM step)
    """  # noqa: S608 - table and question are constants of this file
    removed, gone = 0, STEP_ROWS
    while gone == STEP_ROWS:
        tag = await work.connection.execute(step, before, STEP_ROWS)
        gone = int(tag.rpartition(" ")[2])
        removed += gone
        await asyncio.sleep(STEP_PAUSE_SECONDS)
    return removed
