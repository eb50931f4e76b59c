from collections.abc import Mapping
from functools import partial

from farmiq.edge.sync_forwarder.janitor import retire_acknowledged, retire_sent_pictures
from farmiq.edge.sync_forwarder.settings import OutboxRetentionSettings
from farmiq.kit.jobs import Job
from farmiq.kit.settings import load

HOUR_SECONDS = 3600.0


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings = load(OutboxRetentionSettings, environ)
    return [
        Job(
            "outbox-retention",
            6 * HOUR_SECONDS,
            "delete acknowledged sync_outbox rows past OUTBOX_RETENTION_DAYS",
            partial(retire_acknowledged, settings),
        ),
        Job(
            "media-transfer-retention",
            6 * HOUR_SECONDS,
            "delete media_transfers rows of pictures that are not here any more and went to the cloud OUTBOX_RETENTION_DAYS ago",
            partial(retire_sent_pictures, settings),
        ),
    ]
