from collections.abc import Mapping
from functools import partial

from farmiq.edge.weighvision_session.cleanup import delete_expired_sessions
from farmiq.edge.weighvision_session.settings import SessionRetentionSettings
from farmiq.kit.jobs import Job
from farmiq.kit.settings import load

HOUR_SECONDS = 3600.0


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings = load(SessionRetentionSettings, environ)
    return [
        Job(
            "session-retention",
            6 * HOUR_SECONDS,
            "delete closed weigh sessions past SESSION_RETENTION_DAYS",
            partial(delete_expired_sessions, settings),
        )
    ]
