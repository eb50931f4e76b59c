from collections.abc import Mapping
from functools import partial

from farmiq.edge.media_store.cleanup import check_integrity, delete_expired, remove_refused
from farmiq.edge.media_store.settings import MediaRetentionSettings
from farmiq.kit.jobs import Job
from farmiq.kit.s3 import ObjectStore
from farmiq.kit.s3_settings import ObjectStoreSettings, open_store
from farmiq.kit.settings import load

HOUR_SECONDS = 3600.0


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings = load(MediaRetentionSettings, environ)

    def objects() -> tuple[str, ObjectStore]:
        """Only for a job that runs: `farmiq jobs ls` needs no key of the object store."""
        place = load(ObjectStoreSettings, environ)
        return place.media_bucket, open_store(place)

    return [
        Job(
            "media-retention",
            HOUR_SECONDS,
            "delete pictures past MEDIA_RETENTION_DAYS whose session is over and which the cloud has",
            partial(delete_expired, settings, objects),
        ),
        Job(
            "media-refused-cleanup",
            HOUR_SECONDS / 6,
            "remove the bytes of refused pictures after MEDIA_REFUSED_KEEP_HOURS, and beyond MEDIA_REFUSED_BYTES_PER_DEVICE_MAX",
            partial(remove_refused, settings, objects),
        ),
        Job(
            "media-integrity",
            24 * HOUR_SECONDS,
            "compare the rows of pictures with the object store; changes nothing",
            partial(check_integrity, objects),
        ),
    ]
