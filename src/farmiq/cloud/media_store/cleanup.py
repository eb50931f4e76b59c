"""Pictures that were kept as long as they had to be: first their bytes go, then their row, so that nothing is forgotten half.

A run that is cut leaves rows whose bytes are gone; deleting what is not there is no error, so the next run ends what it began.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from farmiq.cloud.media_store import store
from farmiq.cloud.media_store.picture import thumbnail_key
from farmiq.cloud.media_store.settings import MediaRetentionSettings
from farmiq.contracts.timestamps import EARLIEST
from farmiq.kit.jobs import Report, Work
from farmiq.kit.s3 import ObjectStore

STEP_PICTURES: Final = 400
STEP_PAUSE_SECONDS: Final = 0.05


async def expire(settings: MediaRetentionSettings, objects: ObjectStore, work: Work) -> Report:
    cutoff = work.cutoff(timedelta(days=settings.media_retention_days))
    if work.is_dry_run:
        return {"pictures": await store.count_old(work.connection, cutoff)}
    removed, floor = 0, EARLIEST
    while gone := await _expire_some(objects, work, cutoff, floor):
        removed += len(gone)
        floor = gone[-1].stored_at
        await asyncio.sleep(STEP_PAUSE_SECONDS)
    return {"pictures": removed}


async def _expire_some(
    objects: ObjectStore, work: Work, cutoff: datetime, floor: datetime
) -> Sequence[store.OldPicture]:
    """The rows are locked until they are gone: whoever wants to send such a picture again waits, and then begins anew."""
    async with work.connection.transaction():
        old = await store.lock_old(work.connection, cutoff, floor, STEP_PICTURES)
        for bucket, keys in _places(old).items():
            await objects.delete_many(bucket, keys)
        await store.forget(work.connection, old)
    return old


def _places(old: Sequence[store.OldPicture]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for one in old:
        if one.bucket is not None and one.object_key is not None:
            places.setdefault(one.bucket, []).extend((one.object_key, thumbnail_key(one.object_key)))
    return places
