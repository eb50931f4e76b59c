"""Looking at what lies in the object store: are the bytes there, are they those, and are they a picture?"""

import asyncio
import hashlib
from dataclasses import dataclass

from farmiq.edge.media_store import store
from farmiq.edge.media_store.counters import Counters
from farmiq.edge.media_store.handlers import Settled, settle
from farmiq.edge.media_store.picture import Picture
from farmiq.edge.media_store.settings import MediaStoreSettings
from farmiq.edge.media_store.verdicts import (
    EMPTY,
    Absent,
    Again,
    Finding,
    GivenUp,
    Sound,
    Unfit,
    after_absence,
)
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Transient
from farmiq.kit.picture_notes import without_notes
from farmiq.kit.picture_worker import PictureWorker
from farmiq.kit.pictures import PictureRefused
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectMissing, ObjectStore, ObjectTooLarge, StoreAway, StoreRefused
from farmiq.outbox import Announcer
from farmiq.timeseries.asking import asking

PROBED_PREFIX = "farmiq-probe/"
AGAIN_SECONDS = 0.5


@dataclass(frozen=True)
class Inspector:
    """Looks at one picture and has the result written down. The same for whoever asks for it."""

    pool: Pool
    objects: ObjectStore
    pictures: PictureWorker
    settings: MediaStoreSettings
    announcer: Announcer
    counters: Counters
    clock: Clock

    async def inspect(self, picture: Picture) -> Settled:
        """Raises what says nothing about the picture, which is then as if nobody had looked."""
        try:
            verdict = await self._look(picture)
        except (Transient, StoreRefused) as error:
            async with asking(self.pool) as connection:
                await store.check_again(connection, picture, AGAIN_SECONDS, was_looked_for=False)
            raise StoreAway(str(error), code=error.code) from error
        settled = await settle(self.pool, picture, verdict, self.clock.now())
        if settled.is_ours:
            self.counters.settled(picture, settled)
            self.announcer.announce()
        return settled

    async def _look(self, picture: Picture) -> Sound | Unfit | Again | GivenUp:
        with self.counters.inspected():
            finding = await examine(picture, self.objects, self.pictures, self.settings)
        if not isinstance(finding, Absent):
            return finding
        verdict = after_absence(
            picture,
            self.clock.now(),
            sweep_seconds=self.settings.media_sweep_seconds,
            grace_seconds=self.settings.media_upload_grace_seconds,
        )
        if isinstance(verdict, GivenUp):
            # A bucket that is gone has no objects either, and that is not the picture's fault.
            await require_bucket(self.objects, picture.bucket)
        return verdict


async def examine(
    picture: Picture, objects: ObjectStore, pictures: PictureWorker, settings: MediaStoreSettings
) -> Finding:
    try:
        data = await objects.get(picture.bucket, picture.object_key, bytes_max=settings.media_bytes_max)
    except ObjectMissing:
        return Absent()
    except ObjectTooLarge as error:
        return Unfit(error.code, str(error))
    sha256 = hashlib.sha256(data).hexdigest()
    if not data:
        return Unfit(EMPTY, "the object has no bytes", sha256)
    try:
        look = await pictures.look_at(data, content_type=picture.mime_type, pixels_max=settings.media_pixels_max)
        bare = await asyncio.to_thread(without_notes, data)
    except PictureRefused as error:
        return Unfit(error.code, str(error), sha256)
    sent = (None, None) if bare == data else (len(bare), hashlib.sha256(bare).hexdigest())
    return Sound(len(data), sha256, look.width, look.height, *sent)


async def require_bucket(objects: ObjectStore, bucket: str) -> None:
    """Raises unless the bucket can be listed."""
    async for _ in objects.list_objects(bucket, PROBED_PREFIX, page_size=1):
        return
