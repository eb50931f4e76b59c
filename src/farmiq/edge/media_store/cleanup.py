"""What the jobs of this service do. First the object, then the row: cut between the two, the next run goes on with the row."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Final

from farmiq.edge.alerts import close_alert, raise_alert
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.media_store import store
from farmiq.edge.media_store.handlers import MISSING_ALERT, REFUSED_ALERT
from farmiq.edge.media_store.integrity import Check
from farmiq.edge.media_store.retention import Judgement, OldPicture, judge
from farmiq.edge.media_store.settings import MediaRetentionSettings
from farmiq.edge.sync_forwarder.intake import follow_again, not_in_cloud
from farmiq.edge.weighvision_session.intake import unfinished
from farmiq.kit.jobs import Report, Work
from farmiq.kit.logging import get_logger
from farmiq.kit.s3 import ObjectStore

PAGE_ROWS: Final = 500
PAGE_PAUSE_SECONDS: Final = 0.05
HELD_ALERT: Final = "media-retention:held"
FORCED_ALERT: Final = "media-retention:forced"
DIFFERENT_ALERT: Final = "media-integrity"

OpenStore = Callable[[], tuple[str, ObjectStore]]
"""The bucket that pictures go to now, and the store that has it and those of before."""

log = get_logger(__name__)


async def delete_expired(settings: MediaRetentionSettings, open_store: OpenStore, work: Work) -> Report:
    """Delete pictures past their retention, except those of sessions that are not over and those that the cloud does not have."""
    cutoff = work.cutoff(timedelta(days=settings.media_retention_days))
    counts: Counter[str] = Counter(deleted=0, forced=0, held_for_session=0, held_for_sync=0)
    after: OldPicture | None = None
    _, objects = open_store()
    with closing(objects):
        while old := await store.old_pictures(work.connection, cutoff, after, PAGE_ROWS):
            judgement = await _judge(settings, work, old)
            if not work.is_dry_run:
                await _delete(work, objects, [*judgement.deleted, *judgement.forced])
                held = judgement.held_for_sync
                await follow_again(work.connection, [one.tenant_id for one in held], [one.media_id for one in held])
            for kind in counts:
                counts[kind] += len(getattr(judgement, kind))
            after = old[-1]
            await asyncio.sleep(PAGE_PAUSE_SECONDS)
    if not work.is_dry_run:
        await _tell(work, counts)
    return dict(counts)


async def remove_refused(settings: MediaRetentionSettings, open_store: OpenStore, work: Work) -> Report:
    """Remove the bytes of pictures that were refused long enough ago, or are too many. Their rows stay, and say why."""
    before = work.cutoff(timedelta(hours=settings.media_refused_keep_hours))
    removed = 0
    _, objects = open_store()
    with closing(objects):
        while old := await store.old_refused(
            work.connection, before, PAGE_ROWS, settings.media_refused_bytes_per_device_max
        ):
            removed += len(old)
            if work.is_dry_run:
                break
            await _remove_objects(objects, old)
            await store.note_removed(work.connection, [picture.media_id for picture in old])
    if not work.is_dry_run:
        await store.forget_days(work.connection)
        await _close_alerts(work)
    return {"objects": removed}


async def check_integrity(open_store: OpenStore, work: Work) -> Report:
    """Compare rows and objects, and have a person look at what differs. Changing it is for `farmiq media check --repair`."""
    counts: Counter[str] = Counter(rows=0, objects=0)
    bucket, objects = open_store()
    with closing(objects):
        problems = [problem async for problem in Check(work.connection, objects, bucket).problems(counts)]
    if work.is_dry_run:
        return dict(counts)
    if not problems:
        await close_alert(work.connection, DIFFERENT_ALERT)
        return dict(counts)
    log.error("pictures_differed", **counts)
    subject = f"{len(problems)} pictures differ between the database and the object store"
    evidence = {**counts, "first": problems[0].object_key}
    await raise_alert(work.connection, "media_integrity", subject, DIFFERENT_ALERT, evidence)
    return dict(counts)


async def _judge(settings: MediaRetentionSettings, work: Work, old: Sequence[OldPicture]) -> Judgement:
    sessions = list({(picture.tenant_id, picture.session_id) for picture in old if picture.session_id is not None})
    return judge(
        old,
        await unfinished(work.connection, sessions),
        await not_in_cloud(work.connection, [picture.media_id for picture in old]),
        may_delete_unfinalized=settings.media_delete_unfinalized,
        must_be_synced=settings.retention_require_sync,
    )


async def _delete(work: Work, objects: ObjectStore, old: Sequence[OldPicture]) -> None:
    await _remove_objects(objects, old)
    await store.delete_rows(work.connection, [picture.media_id for picture in old])


async def _remove_objects(objects: ObjectStore, old: Sequence[OldPicture]) -> None:
    for bucket in {picture.bucket for picture in old}:
        await objects.delete_many(bucket, [picture.object_key for picture in old if picture.bucket == bucket])


async def _tell(work: Work, counts: Counter[str]) -> None:
    if counts["forced"]:
        log.error("unsent_pictures_deleted", pictures=counts["forced"], setting="RETENTION_REQUIRE_SYNC=false")
        subject = f"{counts['forced']} pictures were deleted before the cloud had them"
        await raise_alert(work.connection, "retention_forced", subject, FORCED_ALERT, counts)
    held = counts["held_for_session"] + counts["held_for_sync"]
    if not held:
        await close_alert(work.connection, HELD_ALERT)
        return
    log.warning("pictures_held", for_session=counts["held_for_session"], for_sync=counts["held_for_sync"])
    subject = f"{held} pictures are past their retention and are kept"
    await raise_alert(work.connection, "retention_held", subject, HELD_ALERT, counts)


async def _close_alerts(work: Work) -> None:
    """Nothing refused can be looked at any more; nothing announced is missing any more."""
    for tenant_id in sorted({device.tenant_id for device in await devices.everyone(work.connection)}):
        left = await store.troubles(work.connection, tenant_id)
        for alert, count in ((REFUSED_ALERT, left["refused"]), (MISSING_ALERT, left["missing"])):
            if not count:
                await close_alert(work.connection, alert, tenant_id)
