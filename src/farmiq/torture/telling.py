"""A device that speaks MQTT itself: says each event until the edge has answered for it, and writes both down."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

import msgspec

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.topics import AckTopic
from farmiq.kit.clock import Clock
from farmiq.kit.mqtt import BrokerAway, MqttClient
from farmiq.torture.ledger import Heard, LedgerWriter, Said

ACK_BYTES_MAX = 1 << 20
AGAIN_SECONDS = 5.0
PUBLISH_SECONDS_MAX = 10.0
REMEMBERED = 300
"""Of what was said last, for a storm."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What `farmiq device add --json` printed, as far as it is needed."""

    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    mqtt_url: str
    http_token: str

    @property
    def place(self) -> dict[str, str]:
        return {"tenant_id": self.tenant_id, "farm_id": self.farm_id, "barn_id": self.barn_id}


@dataclass
class Waiting:
    topic: str
    payload: bytes
    said_at: float
    answered: "asyncio.Future[str]"
    is_pubacked: bool = False


class TellingDevice:
    def __init__(self, login: Login, ledger: LedgerWriter, clock: Clock) -> None:
        self.login = login
        self.said = 0
        self.heard = 0
        self.repeated = 0
        self.pubacked_only = 0
        """Events with a PUBACK that the edge had not acknowledged when they were due to be sent again."""
        self._ledger = ledger
        self._clock = clock
        self._waiting: dict[UUID, Waiting] = {}
        self._lately: deque[tuple[str, bytes]] = deque(maxlen=REMEMBERED)
        self._mqtt = MqttClient(
            login.mqtt_url,
            client_id=login.device_id,
            subscriptions=[AckTopic(device_id=login.device_id).path],
            clean_session=True,
        )

    async def run(self) -> None:
        """Until cancelled."""
        await self._mqtt.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._say_again())
        finally:
            await self._mqtt.stop()

    @property
    def unanswered(self) -> int:
        return len(self._waiting)

    async def tell(self, said: Said, topic: str, payload: bytes) -> str:
        """The edge's result, however long that takes."""
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ledger.note(said)
        self.said += 1
        waiting = Waiting(topic, payload, self._clock.monotonic(), answered)
        self._waiting[said.event_id] = waiting
        waiting.is_pubacked = await self._publish(topic, payload)
        if not said.is_poison:
            self._lately.append((topic, payload))
        return await answered

    async def shout(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """What nobody answers for, because it has no id that could be read."""
        for topic, payload in messages:
            await self._publish(topic, payload)

    async def storm(self, times: int, rng: Random) -> None:
        """Everything said lately, so many times over, in another order, as fast as the broker takes it."""
        messages = list(self._lately) * times
        rng.shuffle(messages)
        for start in range(0, len(messages), 100):
            async with asyncio.TaskGroup() as group:
                for topic, payload in messages[start : start + 100]:
                    group.create_task(self._publish(topic, payload))
        self.repeated += len(messages)

    async def _publish(self, topic: str, payload: bytes) -> bool:
        """Whether the broker answered with a PUBACK. What is not acknowledged by the edge is sent again in either case."""
        try:
            async with asyncio.timeout(PUBLISH_SECONDS_MAX):
                await self._mqtt.publish(topic, payload)
        except (BrokerAway, TimeoutError):
            return False
        return True

    async def _say_again(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            now = self._clock.monotonic()
            for waiting in [one for one in self._waiting.values() if now - one.said_at > AGAIN_SECONDS]:
                waiting.said_at = self._clock.monotonic()
                self.repeated += 1
                self.pubacked_only += waiting.is_pubacked
                waiting.is_pubacked = await self._publish(waiting.topic, waiting.payload)

    async def _listen(self) -> None:
        while messages := await self._mqtt.next_batch(100, 0.0):
            for message in messages:
                with contextlib.suppress(MalformedMessage):  # not a word that can be believed: the same is said again
                    self._hear(decode(DeviceAck, message.payload, max_bytes=ACK_BYTES_MAX))
            self._mqtt.acknowledge(messages)

    def _hear(self, ack: DeviceAck) -> None:
        news = [event for event in ack.events if event.event_id in self._waiting]
        if not news:
            return
        self._ledger.note(*(Heard(event.event_id, event.result) for event in news))
        for event in news:
            self.heard += 1
            self._waiting.pop(event.event_id).answered.set_result(event.result)
