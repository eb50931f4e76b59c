from collections.abc import Mapping
from functools import partial

from farmiq.cloud.ingestion.cleanup import forget_discarded, forget_events, forget_session_owners, prepare_months
from farmiq.cloud.ingestion.epochs import mark_answers
from farmiq.cloud.ingestion.settings import (
    DedupeRetentionSettings,
    DiscardRetentionSettings,
    SessionOwnerRetentionSettings,
)
from farmiq.kit.jobs import Job
from farmiq.kit.settings import load

HOUR_SECONDS = 3600.0


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings, discards = load(DedupeRetentionSettings, environ), load(DiscardRetentionSettings, environ)
    owners = load(SessionOwnerRetentionSettings, environ)
    return [
        Job("cloud-answer-marks", HOUR_SECONDS, "note how far the answers to each edge have come", mark_answers),
        Job("cloud-dedupe-partitions", HOUR_SECONDS, "make the months of ingest_dedupe ahead", prepare_months),
        Job(
            "cloud-dedupe-retention",
            HOUR_SECONDS,
            "forget events that came before INGEST_DEDUPE_RETENTION_DAYS",
            partial(forget_events, settings),
        ),
        Job(
            "cloud-discarded-letters-retention",
            HOUR_SECONDS,
            "forget discarded messages after DISCARDED_LETTERS_RETENTION_DAYS",
            partial(forget_discarded, discards),
        ),
        Job(
            "cloud-session-owner-retention",
            HOUR_SECONDS,
            "forget which edge began a weigh session after SESSION_OWNER_RETENTION_DAYS",
            partial(forget_session_owners, owners, settings),
        ),
    ]
