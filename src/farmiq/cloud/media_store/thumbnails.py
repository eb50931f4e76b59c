"""Small pictures for people: made when somebody first asks, kept in the bucket beside the pictures, and gone with them."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from farmiq.cloud.media_store import store
from farmiq.cloud.media_store.counters import Counters
from farmiq.cloud.media_store.picture import Picture, thumbnail_key
from farmiq.cloud.media_store.settings import MediaStoreSettings
from farmiq.kit.errors import FarmiqError, Transient
from farmiq.kit.logging import get_logger
from farmiq.kit.picture_worker import PictureWorker
from farmiq.kit.pictures import THUMBNAIL_TYPE, PictureRefused
from farmiq.kit.postgres import Pool
from farmiq.kit.s3 import ObjectMissing, ObjectStore, ObjectTooLarge
from farmiq.timeseries.asking import asking

BYTES_MAX: Final = 1024 * 1024
WAITING_MAX: Final = 64

log = get_logger(__name__)


class NoThumbnail(FarmiqError):
    """The picture cannot be made small: its bytes are no picture, or one that costs too much. The bytes are kept as they are."""

    code = "no_thumbnail"


class ThumbnailsBusy(Transient):
    """Many thumbnails are being made just now."""

    code = "thumbnails_busy"


@dataclass
class Thumbnails:
    pool: Pool
    objects: ObjectStore
    pictures: PictureWorker
    settings: MediaStoreSettings
    counters: Counters
    _asked: int = field(default=0, init=False)
    # One picture is in memory at a time; the process that makes it small takes them one by one anyway.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def of(self, picture: Picture) -> bytes:
        """`ObjectMissing` when the picture itself is not there, `NoThumbnail` when it can't be made small."""
        assert picture.bucket is not None  # noqa: S101 - asked by the caller: it is stored
        assert picture.object_key is not None  # noqa: S101 - as above
        try:
            small = await self.objects.get(picture.bucket, thumbnail_key(picture.object_key), bytes_max=BYTES_MAX)
        except ObjectMissing:
            small = await self._made_in_turn(picture, picture.bucket, picture.object_key)
            self.counters.thumbnails.labels("made").inc()
        else:
            self.counters.thumbnails.labels("kept").inc()
        return small

    async def _made_in_turn(self, picture: Picture, bucket: str, key: str) -> bytes:
        if picture.thumbnail_refused is not None:
            raise NoThumbnail(f"picture {picture.media_id} has no thumbnail: {picture.thumbnail_refused}")
        if self._asked >= WAITING_MAX:
            raise ThumbnailsBusy(f"{WAITING_MAX} thumbnails are waiting to be made")
        self._asked += 1
        try:
            async with self._turn:
                return await self._made(picture, bucket, key)
        finally:
            self._asked -= 1

    async def _made(self, picture: Picture, bucket: str, key: str) -> bytes:
        try:
            data = await self.objects.get(bucket, key, bytes_max=self.settings.media_bytes_max)
            small = await self.pictures.thumbnail(
                data,
                edge_pixels_max=self.settings.media_thumbnail_edge_pixels,
                pixels_max=self.settings.media_pixels_max,
            )
        except (PictureRefused, ObjectTooLarge) as error:
            await self._refuse(picture, error)
            raise NoThumbnail(f"picture {picture.media_id} has no thumbnail: {error.code}") from error
        await self.objects.put(bucket, thumbnail_key(key), small, content_type=THUMBNAIL_TYPE)
        return small

    async def _refuse(self, picture: Picture, error: FarmiqError) -> None:
        """Written down, so that a hostile picture costs once and not at every look."""
        self.counters.thumbnails.labels("refused").inc()
        log.warning("thumbnail_refused", media_id=str(picture.media_id), code=error.code, reason=str(error))
        async with asking(self.pool) as connection:
            await store.refuse_thumbnail(connection, picture, error.code)
