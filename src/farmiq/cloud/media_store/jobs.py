from collections.abc import Mapping
from functools import partial

from farmiq.cloud.media_store.cleanup import expire
from farmiq.cloud.media_store.integrity import check
from farmiq.cloud.media_store.settings import MediaRetentionSettings
from farmiq.kit.jobs import Job, Report, Work
from farmiq.kit.s3_settings import ObjectStoreSettings, open_store
from farmiq.kit.settings import load

HOUR_SECONDS = 3600.0
DAY_SECONDS = 24 * HOUR_SECONDS


def jobs(environ: Mapping[str, str]) -> list[Job]:
    settings = load(MediaRetentionSettings, environ)
    return [
        Job(
            "cloud-media-retention",
            HOUR_SECONDS,
            "delete pictures that came before MEDIA_RETENTION_DAYS, and their thumbnails",
            partial(_retention, settings, environ),
        ),
        Job(
            "cloud-media-integrity",
            DAY_SECONDS,
            "compare the rows of pictures with the objects in the bucket; changes nothing",
            partial(_integrity, environ),
        ),
    ]


async def _retention(settings: MediaRetentionSettings, environ: Mapping[str, str], work: Work) -> Report:
    """The object store's settings are read when the job runs: whoever only lists the jobs needs none."""
    objects = open_store(load(ObjectStoreSettings, environ))
    try:
        return await expire(settings, objects, work)
    finally:
        objects.close()


async def _integrity(environ: Mapping[str, str], work: Work) -> Report:
    settings = load(ObjectStoreSettings, environ)
    objects = open_store(settings)
    try:
        report = await check(work.connection, objects, settings.media_bucket, clock=work.clock)
    finally:
        objects.close()
    return {**report.counts()}
