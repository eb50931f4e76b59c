"""A weigh station of another make: weighs as docs/guides/weigh-stations.md says, with pictures straight into the object store."""

import asyncio
import hashlib
import io
from collections.abc import Mapping
from random import Random
from typing import Final
from uuid import UUID

import msgspec
from PIL import Image, ImageDraw

from farmiq.contracts import event_types
from farmiq.contracts.media import PresignRequest
from farmiq.contracts.timestamps import to_us
from farmiq.contracts.topics import WeighvisionTopic
from farmiq.device.weighvision_agent.media_client import EdgeAway, MediaClient, PictureRefused, UrlRefused
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id, new_trace_id
from farmiq.torture.ledger import LedgerWriter, Picture, Said, Weighed
from farmiq.torture.poison import envelope
from farmiq.torture.telling import Login, TellingDevice

PICTURES = 2
BATCH = "torture"
JPEG: Final = "image/jpeg"
AT_ONCE_MAX = 4
HTTP_SECONDS_MAX = 15.0
AGAIN_SECONDS = 1.0
SIZE = (320, 240)


class Station:
    def __init__(
        self, login: Login, media_url: str, every_seconds: float, ledger: LedgerWriter, clock: Clock, rng: Random
    ) -> None:
        self.telling = TellingDevice(login, ledger, clock)
        self.sessions = 0
        self.pictures = 0
        self._login = login
        self._media = MediaClient(media_url, login.http_token, HTTP_SECONDS_MAX)
        self._every_seconds = every_seconds
        self._ledger = ledger
        self._clock = clock
        self._rng = rng
        self._at_work = 0
        self._is_over = asyncio.Event()

    def finish(self) -> None:
        self._is_over.set()

    async def run(self) -> None:
        """Until told to finish and every session that was begun is at its end."""
        speaking = asyncio.create_task(self.telling.run())
        try:
            async with asyncio.TaskGroup() as group:
                while not self._is_over.is_set():
                    if self._at_work < AT_ONCE_MAX:
                        group.create_task(self._weigh())
                    await asyncio.sleep(self._every_seconds)
        finally:
            speaking.cancel()

    async def _weigh(self) -> None:
        self._at_work += 1
        try:
            session, weight_kg = new_id(), round(self._rng.uniform(25, 110), 2)
            await self._tell(session, event_types.SESSION_CREATED, {"batch_id": BATCH})
            await self._tell(session, event_types.WEIGHT_RECORDED, {"weight_kg": weight_kg}, value=weight_kg)
            media = [await self._picture(session) for _ in range(PICTURES)]
            finalized = {"image_count": PICTURES, "final_weight_kg": weight_kg}
            await self._tell(session, event_types.SESSION_FINALIZED, finalized, value=weight_kg)
            self._ledger.note(Weighed(session, self._login.device_id, weight_kg, media))
            self.sessions += 1
        finally:
            self._at_work -= 1

    async def _picture(self, session: UUID) -> UUID:
        body = await asyncio.to_thread(_jpeg, self._rng.randrange(1 << 30))
        sha256 = hashlib.sha256(body).hexdigest()
        media, captured_us = await self._upload(session, body, sha256)
        self._ledger.note(Picture(media, session, sha256, len(body), captured_us))
        captured = {"media_id": str(media), "content_type": JPEG, "size_bytes": len(body), "sha256": sha256}
        await self._tell(session, event_types.IMAGE_CAPTURED, captured, media=media)
        self.pictures += 1
        return media

    async def _upload(self, session: UUID, body: bytes, sha256: str) -> tuple[UUID, int]:
        """A URL whose PUT was not answered is tried again: the store takes the bytes once, and then says that it has them.
        Returns the picture's id and the time under which it was announced."""
        while True:
            request = self._request(session, len(body), sha256)
            try:
                answer = await asyncio.to_thread(self._media.presign, request)
                await self._put(answer.upload_url, answer.required_headers, body)
            except (EdgeAway, UrlRefused, PictureRefused):
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return answer.media_id, to_us(request.captured_at)

    async def _put(self, url: str, headers: dict[str, str], body: bytes) -> None:
        while True:
            try:
                return await asyncio.to_thread(self._media.put, url, headers, body, new_trace_id())
            except EdgeAway:
                await asyncio.sleep(AGAIN_SECONDS)

    def _request(self, session: UUID, size: int, sha256: str) -> PresignRequest:
        return PresignRequest(
            **self._login.place,
            device_id=self._login.device_id,
            station_id=self._login.device_id,
            session_id=session,
            captured_at=self._clock.now(),
            content_type=JPEG,
            content_length=size,
            sha256=sha256,
        )

    async def _tell(
        self,
        session: UUID,
        kind: str,
        payload: Mapping[str, object],
        *,
        value: float | None = None,
        media: UUID | None = None,
    ) -> None:
        at_us = to_us(self._clock.now())
        said = Said(self._login.device_id, new_id(), kind, at_us, value=value, session=session, media=media)
        topic = WeighvisionTopic(
            **self._login.place, station_id=self._login.device_id, session_id=session, event_type=kind
        )
        message = envelope(self._login, said.event_id, kind, at_us, payload)
        await self.telling.tell(said, topic.path, msgspec.json.encode(message))


def _jpeg(seed: int) -> bytes:
    """A picture that no other campaign and no other session has."""
    rng = Random(seed)  # noqa: S311 - blots of colour
    image = Image.new("RGB", SIZE, (rng.randrange(256), rng.randrange(256), rng.randrange(256)))
    draw = ImageDraw.Draw(image)
    for _ in range(40):
        x, y = rng.randrange(SIZE[0]), rng.randrange(SIZE[1])
        draw.ellipse((x, y, x + 40, y + 30), fill=(rng.randrange(256), rng.randrange(256), rng.randrange(256)))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
