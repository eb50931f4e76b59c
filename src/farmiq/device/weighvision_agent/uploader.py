"""Pictures to the edge, one after the other, whether MQTT is there or not."""

import asyncio
import contextlib
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from farmiq.contracts.media import PICTURE_STATES_MAX, PresignRequest
from farmiq.contracts.timestamps import from_us
from farmiq.device.weighvision_agent.database import QueueFailed
from farmiq.device.weighvision_agent.media_client import EdgeAway, MediaClient, NotLetIn, PictureRefused, UrlRefused
from farmiq.device.weighvision_agent.picture_store import Picture, delay_after
from farmiq.device.weighvision_agent.recorder import Recorder
from farmiq.device.weighvision_agent.settings import StationSettings
from farmiq.kit.blame import Blame
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.retry import Backoff

LOOK_SECONDS = 5.0
EXPIRY_MARGIN = timedelta(seconds=5)
"""A URL that is about to expire is not worth beginning with."""

OTHERS_FIRST = timedelta(seconds=15)
OTHERS_ONCE = timedelta(seconds=1)
AWAY_SECONDS_MAX = 30.0

log = get_logger(__name__)


class Uploader:
    """`trouble` is what keeps all pictures back at this moment, for the status; empty when nothing does."""

    def __init__(self, life: Lifetime, settings: StationSettings, recorder: Recorder, client: MediaClient) -> None:
        self._life = life
        self._settings = settings
        self._recorder = recorder
        self._client = client
        self._away = Backoff(base_seconds=0.5, cap_seconds=AWAY_SECONDS_MAX)
        self._blame = Blame()
        self.trouble = ""

    async def upload_all(self) -> None:
        """Until cancelled. A picture that is under way then is begun again at the next start, at the same URL."""
        while True:
            self._recorder.pictures_added.clear()
            try:
                picture = await self._recorder.run(lambda queue: queue.next_to_upload())
                if picture is None:
                    await self._wait_for_work()
                else:
                    await self._upload(picture)
            except QueueFailed as error:
                log.error("picture_not_recorded", reason=str(error))  # noqa: TRY400 - it stays where it is, and is tried again
                await asyncio.sleep(self._away.next_seconds())

    async def check_all(self) -> None:
        """Until cancelled. Asks the edge what it has of the pictures that were announced to it: their files are kept until it
        says that it has verified them."""
        backoff = Backoff(base_seconds=LOOK_SECONDS, cap_seconds=AWAY_SECONDS_MAX)
        while True:
            try:
                is_more = await self._check()
                backoff.reset()
            except (EdgeAway, QueueFailed) as error:
                log.debug("pictures_not_checked", reason=str(error))
                await asyncio.sleep(backoff.next_seconds())
                continue
            if not is_more:
                await asyncio.sleep(LOOK_SECONDS)

    async def _check(self) -> bool:
        pictures = await self._recorder.run(lambda queue: queue.next_to_check())
        if pictures:
            media_ids = [picture.media_id for picture in pictures if picture.media_id is not None]
            states = await asyncio.to_thread(self._client.states, media_ids)
            await self._recorder.record(lambda queue: queue.states_reported(pictures, states))
        return len(pictures) == PICTURE_STATES_MAX

    async def _wait_for_work(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._recorder.pictures_added.wait()

    async def _upload(self, picture: Picture) -> None:
        data = await self._recorder.run(lambda queue: queue.read_picture(picture))
        if data is None:
            return
        try:
            media_id = await self._sent(picture, data)
        except EdgeAway as error:
            if error.is_suspect and self._blame.is_of_picture(picture.picture_id):
                await self._charge(picture, error)
            else:
                await self._put_off(picture, error)
        except PictureRefused as error:
            await self._charge(picture, error)
        else:
            self._away.reset()
            self._blame.went_through(picture.picture_id)
            self._note(None)
            await self._recorder.record(lambda queue: queue.uploaded(picture, media_id))
            log.info("picture_uploaded", picture_id=str(picture.picture_id), media_id=str(media_id))

    async def _sent(self, picture: Picture, data: bytes) -> UUID:
        """The media id under which the edge has it now."""
        if picture.state == "presigned" and await self._is_resumed(picture, data):
            assert picture.media_id is not None  # noqa: S101 - presigned pictures have one
            return picture.media_id
        signed = await self._presigned(picture)
        assert signed.media_id is not None  # noqa: S101 - as above
        await self._put(signed, data, is_first=True)
        return signed.media_id

    async def _is_resumed(self, picture: Picture, data: bytes) -> bool:
        """It was on its way when we were interrupted, and may have arrived: a second one in its place would be one too many."""
        assert picture.media_id is not None  # noqa: S101 - as above
        if not _has_expired(picture, self._life.clock.now()):
            with contextlib.suppress(UrlRefused):
                await self._put(picture, data, is_first=False)
                return True
        return await asyncio.to_thread(self._client.is_there, picture.media_id, picture.trace_id)

    async def _put(self, picture: Picture, data: bytes, *, is_first: bool) -> None:
        assert picture.upload_url is not None  # noqa: S101 - as above
        put = partial(self._client.put, picture.upload_url, picture.upload_headers, data, picture.trace_id)
        try:
            await asyncio.to_thread(put)
        except EdgeAway as error:
            if is_first and not error.is_sent:
                # Not a byte has left: a new URL later raises no question about this one.
                await self._recorder.run(lambda queue: queue.forget_url(picture))
            raise

    async def _presigned(self, picture: Picture) -> Picture:
        settings = self._settings
        request = PresignRequest(
            tenant_id=settings.tenant_id,
            farm_id=settings.farm_id,
            barn_id=settings.barn_id,
            device_id=settings.device_id,
            station_id=settings.station,
            session_id=picture.session_id,
            trace_id=picture.trace_id,
            captured_at=from_us(picture.captured_us),
            content_type=picture.content_type,
            content_length=picture.size_bytes,
            sha256=picture.sha256,
        )
        answer = await asyncio.to_thread(self._client.presign, request)
        return await self._recorder.run(lambda queue: queue.presigned(picture, answer))

    async def _charge(self, picture: Picture, error: EdgeAway | PictureRefused) -> None:
        """This picture's own fault. After so many of them it is given up."""
        reason = str(error)[:300]
        may_be_there = isinstance(error, EdgeAway) and error.is_sent
        log.warning("upload_refused", picture_id=str(picture.picture_id), attempts=picture.attempts + 1, reason=reason)
        await self._recorder.record(
            lambda queue: queue.upload_failed(picture, reason, delay_after(picture.attempts), keep_url=may_be_there)
        )

    async def _put_off(self, picture: Picture, error: EdgeAway) -> None:
        """The way is closed for all of them, so all of them wait. If it got as far as the edge, it may be for this one only: then
        the others come first."""
        self._note(error)
        seconds = error.retry_after_seconds or self._away.next_seconds()
        if error.is_answered or error.is_sent:
            delay = OTHERS_FIRST if error.is_answered else timedelta(seconds=seconds) + OTHERS_ONCE
            await self._recorder.run(lambda queue: queue.upload_put_off(picture, delay))
        await asyncio.sleep(seconds)

    def _note(self, error: EdgeAway | None) -> None:
        """Each change once, however often it is tried."""
        was, self.trouble = self.trouble, "" if error is None else str(error)
        if bool(was) == bool(self.trouble):
            return
        if error is None:
            log.info("edge_media_store_reached")
        elif isinstance(error, NotLetIn):
            log.error("edge_media_store_refused", reason=self.trouble)
        elif isinstance(error, UrlRefused):
            log.error("object_store_refused", reason=self.trouble)
        else:
            log.warning("edge_media_store_lost", reason=self.trouble)


def _has_expired(picture: Picture, now: datetime) -> bool:
    return picture.expires_us is None or from_us(picture.expires_us) - EXPIRY_MARGIN <= now
