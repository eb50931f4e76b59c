"""Weigh stations with pictures to upload: as the agent does it, and as bare PUTs of the same bytes."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

import aiohttp

from farmiq.contracts import event_types, topics
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import mqtt_envelope
from farmiq.contracts.weighvision import ImageCaptured
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id, new_trace_id
from farmiq.kit.mqtt import MqttClient
from farmiq.kit.s3 import PUT_SECONDS_MAX, ObjectStore
from farmiq.sim.pictures import jpeg
from farmiq.sim.samples import weighed
from farmiq.sim.scenes import UNSEEN
from media_edge import BUCKET, MediaEdge
from node import BARN, FARM, TENANT

DIFFERENT_PICTURES = 24

Work = TypeVar("Work")


class NotTaken(Exception):
    """The edge did not take a picture. The message has its answer."""


@dataclass(frozen=True, slots=True)
class Shot:
    data: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Ready:
    """One PUT, signed beforehand."""

    url: str
    headers: dict[str, str]
    data: bytes


def shots(count: int) -> list[Shot]:
    """Pictures as the simulated station takes them, over and over: the store keeps each under a key of its own."""
    drawn = [jpeg(weighed(UNSEEN, seed).image) for seed in range(min(count, DIFFERENT_PICTURES))]
    return [Shot(data, hashlib.sha256(data).hexdigest()) for data in (drawn[n % len(drawn)] for n in range(count))]


class Stations:
    """Each uploads one picture after the other; all of them at once. One connection pool and one MQTT connection play them."""

    def __init__(self, edge: MediaEdge, session: aiohttp.ClientSession, mqtt: MqttClient) -> None:
        self._edge = edge
        self._session = session
        self._mqtt = mqtt
        self.begun_at: dict[UUID, float] = {}

    async def upload(self, pictures: Sequence[Shot], *, is_announced: bool) -> list[tuple[str, UUID, Shot]]:
        """Presign and PUT. Announced one by one, or to be announced later."""
        sent: list[tuple[str, UUID, Shot]] = []

        async def one(station: str, shot: Shot) -> None:
            media_id = await self.send(station, shot)
            sent.append((station, media_id, shot))
            if is_announced:
                await self.announce(station, media_id, shot)

        await self._shared(pictures, one)
        return sent

    async def put_bare(self, prepared: Sequence[Ready]) -> None:
        async def one(_: str, ready: Ready) -> None:
            await self._put(ready)

        await self._shared(prepared, one)

    async def send(self, station: str, shot: Shot) -> UUID:
        """As `weighvision-agent` asks for a URL. Its answer says where to PUT, and with which headers."""
        begun_at = time.time()
        asked = {
            "tenantId": TENANT, "farmId": FARM, "barnId": BARN, "deviceId": station, "stationId": station,
            "traceId": new_trace_id(), "capturedAt": datetime.now(UTC).isoformat(), "contentType": "image/jpeg",
            "contentLength": len(shot.data), "sha256": shot.sha256,
        }  # fmt: skip
        headers = {"authorization": f"Bearer {self._edge.tokens[station]}"}
        url = f"{self._edge.media_url}/api/v1/media/images/presign"
        async with self._session.post(url, json=asked, headers=headers) as answer:
            said = await answer.read()
            if answer.status != 200:
                raise NotTaken(f"presign answered {answer.status}: {said[:300]!r}")
        signed = json.loads(said)
        media_id = UUID(signed["media_id"])
        self.begun_at[media_id] = begun_at
        await self._put(Ready(signed["upload_url"], signed["required_headers"], shot.data))
        return media_id

    async def announce(self, station: str, media_id: UUID, shot: Shot) -> None:
        captured = ImageCaptured(
            media_id=media_id, content_type="image/jpeg", size_bytes=len(shot.data), sha256=shot.sha256
        )
        envelope = mqtt_envelope(
            captured, event_id=new_id(), event_type=event_types.IMAGE_CAPTURED, tenant_id=TENANT,
            device_id=station, ts=Clock().now(), trace_id=new_trace_id(),
        )  # fmt: skip
        topic = topics.EventTopic(
            tenant_id=TENANT, farm_id=FARM, barn_id=BARN, device_id=station, event_type=envelope.event_type
        )
        await self._mqtt.publish(topic.path, encode(envelope))

    async def _put(self, ready: Ready) -> None:
        async with self._session.put(ready.url, data=ready.data, headers=ready.headers) as answer:
            said = await answer.read()
            if answer.status != 200:
                raise NotTaken(f"PUT answered {answer.status}: {said[:300]!r}")

    async def _shared(self, work: Sequence[Work], do: Callable[[str, Work], Awaitable[None]]) -> None:
        names = list(self._edge.tokens)

        async def station(place: int) -> None:
            for item in work[place :: len(names)]:
                await do(names[place], item)

        async with asyncio.TaskGroup() as group:
            for place in range(len(names)):
                group.create_task(station(place))


@asynccontextmanager
async def stations_of(edge: MediaEdge) -> AsyncIterator[Stations]:
    mqtt = MqttClient(edge.nodes_url, client_id="stations", subscriptions=[], clean_session=True)
    await mqtt.start()
    await mqtt.wait_connected()
    try:
        async with aiohttp.ClientSession() as session:
            yield Stations(edge, session, mqtt)
    finally:
        await mqtt.stop()


def prepared(edge: MediaEdge, pictures: Sequence[Shot], prefix: str) -> list[Ready]:
    """The same PUTs with nobody to ask first: same store, same bucket, same headers, same checks."""
    key = edge.key
    with closing(ObjectStore(edge.objects.endpoint, access_key=key.access_key, secret_key=key.secret_key)) as store:
        signed = [
            store.presign_put(
                BUCKET, f"{prefix}/{place}.jpg", content_type="image/jpeg", size_bytes=len(shot.data),
                sha256=bytes.fromhex(shot.sha256), expires_seconds=PUT_SECONDS_MAX,
            )
            for place, shot in enumerate(pictures)
        ]  # fmt: skip
    return [Ready(one.url, one.headers, shot.data) for one, shot in zip(signed, pictures, strict=True)]
