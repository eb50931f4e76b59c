"""A small message of our own goes the way that devices' messages go, all the time, so that a way that is broken shows.

*publish at the broker → shared subscription of the gateway → commit → acknowledgement.* One message for each filter that the
gateway subscribes to: a stranger in the share group of one filter takes every second message of that filter only. A message that
is not acknowledged before the next is due counts as lost. It is nobody's data: no stream, no sample, no outbox row, no account.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from farmiq.contracts import topics
from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.limits import MQTT_MESSAGE_BYTES_MAX
from farmiq.edge.ingress_gateway import store
from farmiq.edge.ingress_gateway.acknowledgements import Verdict
from farmiq.edge.ingress_gateway.broker_logins import may_publish, may_read
from farmiq.kit.ids import new_id
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import BrokerAway, Message, MqttClient
from farmiq.kit.postgres import Pool

LOGIN: Final = "farmiq-canary"
"""Its user at the broker, and the name on its topics. No device can have it: `farmiq-` is reserved."""
_PLACE: Final = f"farmiq/edge/canary/{LOGIN}"
TOPICS: Final[Mapping[str, str]] = {
    f"iot/telemetry/{_PLACE}/canary": "telemetry",
    f"iot/event/{_PLACE}/canary": "event",
    f"iot/weighvision/{_PLACE}/session/00000000-0000-0000-0000-000000000000/canary": "weighvision",
    f"iot/status/{_PLACE}": "status",
}
ACK_TOPIC: Final = topics.AckTopic(device_id=LOGIN).path
RIGHTS: Final = (*(right for topic in TOPICS for right in may_publish(topic)), *may_read(ACK_TOPIC))
"""Its rights at the broker: nothing but these topics."""

SLOWER_MAX: Final = 4
"""While nothing at all comes back it sends less often: what nobody takes stays in the queue that the devices share."""

ROUNDS_KEPT: Final = 20

_RECEIVE: Final = """
    INSERT INTO canary_receipts (way, received_at) SELECT way, $2 FROM unnest($1::text[]) AS way ORDER BY way
    ON CONFLICT (way) DO UPDATE SET received_at = excluded.received_at
"""

log = get_logger(__name__)


class Sent(msgspec.Struct, frozen=True):
    event_id: UUID


class Receipt(NamedTuple):
    epoch: UUID
    verdicts: list[Verdict]


class Counters:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._rounds = Counter(
            "farmiq_canary_rounds",
            "Rounds of test messages from the broker through the gateway and back, by how they ended.",
            ["outcome"],
            registry=registry,
        )
        self._lost = Counter(
            "farmiq_canary_lost",
            "Test messages that were not acknowledged in time, by the kind of topic that they were sent on.",
            ["way"],
            registry=registry,
        )
        self._consecutive = Gauge(
            "farmiq_canary_consecutive_failures",
            "Rounds of test messages that failed since one succeeded.",
            registry=registry,
        )
        self._recent = Gauge(
            "farmiq_canary_recent_failures",
            f"Rounds of test messages that failed, among the last {ROUNDS_KEPT}.",
            registry=registry,
        )
        self._seconds = Gauge(
            "farmiq_canary_duration_seconds",
            "Duration of the last successful round of test messages, in seconds.",
            registry=registry,
        )
        self._succeeded_at = Gauge(
            "farmiq_canary_succeeded_timestamp_seconds",
            "When a round of test messages last succeeded; 0 where MQTT_CANARY_URL is not set.",
            registry=registry,
        )
        for outcome in ("succeeded", "failed"):
            self._rounds.labels(outcome)
        for way in TOPICS.values():
            self._lost.labels(way)
        self.failures = 0
        self._lost_lately: deque[list[str]] = deque(maxlen=ROUNDS_KEPT)

    def succeeded(self, seconds: float, at: datetime) -> None:
        self._rounds.labels("succeeded").inc()
        self.failures = 0
        self._keep([])
        self._consecutive.set(0)
        self._seconds.set(seconds)
        self._succeeded_at.set(at.timestamp())

    def failed(self, lost_ways: list[str]) -> None:
        self._rounds.labels("failed").inc()
        for way in lost_ways:
            self._lost.labels(way).inc()
        self.failures += 1
        self._keep(lost_ways)
        self._consecutive.set(self.failures)

    async def remark(self) -> str | None:
        """A single round fails when the broker or a service starts again; a stranger who takes messages shows in more."""
        failed = self._failed_lately()
        if len(failed) < 2:
            return None
        ways = ", ".join(sorted({way for lost in failed for way in lost}))
        return (
            f"{len(failed)} of the last {len(self._lost_lately)} rounds of test messages were not acknowledged ({ways})"
        )

    def _keep(self, lost_ways: list[str]) -> None:
        self._lost_lately.append(lost_ways)
        self._recent.set(len(self._failed_lately()))

    def _failed_lately(self) -> list[list[str]]:
        return [lost for lost in self._lost_lately if lost]


def split(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Those of the canary, and those of devices."""
    own = [message for message in messages if message.topic in TOPICS]
    return (own, [message for message in messages if message.topic not in TOPICS]) if own else ([], list(messages))


async def receive(pool: Pool, messages: Sequence[Message], received_at: datetime) -> Receipt:
    """What a device's message gets too: a commit, and only then the words for its acknowledgement."""
    ways = sorted({TOPICS[message.topic] for message in messages})
    async with pool.acquire() as connection, connection.transaction():
        epoch, _, _ = await store.door(connection, [])
        await connection.execute(_RECEIVE, ways, received_at)
    ids = [event_id for message in messages if (event_id := _id_of(message)) is not None]
    return Receipt(epoch, [Verdict(LOGIN, event_id, "stored") for event_id in ids])


class Canary:
    """A client of its own at the broker. Several replicas have one each: they tell their messages apart by id."""

    def __init__(self, url: str, client_id: str, counters: Counters, interval_seconds: float) -> None:
        self._mqtt = MqttClient(url, client_id=client_id, subscriptions=(ACK_TOPIC,), clean_session=True)
        self._counters = counters
        self._interval_seconds = interval_seconds
        self._waiting: dict[UUID, str] = {}
        self._all_back = asyncio.Event()

    async def run(self, life: Lifetime) -> None:
        """Until cancelled."""
        await self._mqtt.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read_acknowledgements())
                tasks.create_task(self._send_for_ever(life))
        finally:
            await self._mqtt.stop()

    async def _send_for_ever(self, life: Lifetime) -> None:
        pause_seconds = self._interval_seconds
        while True:
            began = life.clock.monotonic()
            lost = await self._send_round()
            seconds = life.clock.monotonic() - began
            if lost:
                self._counters.failed(lost)
                log.warning("canary_lost", ways=lost, consecutive_failures=self._counters.failures)
            else:
                self._counters.succeeded(seconds, life.clock.now())
            is_silent = len(lost) == len(TOPICS)
            slowest = SLOWER_MAX * self._interval_seconds
            pause_seconds = min(2 * pause_seconds, slowest) if is_silent else self._interval_seconds
            await asyncio.sleep(max(0.0, pause_seconds - seconds))

    async def _send_round(self) -> list[str]:
        """The ways on which nothing came back."""
        self._waiting = {new_id(): way for way in TOPICS.values()}
        self._all_back.clear()
        topic_of = {way: topic for topic, way in TOPICS.items()}
        try:
            async with asyncio.timeout(self._interval_seconds):
                await self._mqtt.wait_connected()
                for event_id, way in list(self._waiting.items()):
                    await self._mqtt.publish(topic_of[way], msgspec.json.encode(Sent(event_id)))
                await self._all_back.wait()
        except (TimeoutError, BrokerAway) as error:
            log.info("canary_round_ended", reason=str(error) or "not acknowledged in time")
        return sorted(self._waiting.values())

    async def _read_acknowledgements(self) -> None:
        while messages := await self._mqtt.next_batch(100, 0.0):
            for message in messages:
                self._note(message)
            self._mqtt.acknowledge(messages)

    def _note(self, message: Message) -> None:
        try:
            ack = decode(DeviceAck, message.payload, max_bytes=MQTT_MESSAGE_BYTES_MAX)
        except MalformedMessage as reason:
            log.warning("canary_acknowledgement_malformed", reason=reason.detail)
            return
        for event in ack.events:
            if event.result == "stored":
                self._waiting.pop(event.event_id, None)
        if not self._waiting:
            self._all_back.set()


def _id_of(message: Message) -> UUID | None:
    """None for a message under the canary's name that is none of ours: a broker without rules lets anybody send one."""
    try:
        return decode(Sent, message.payload, max_bytes=1024).event_id
    except MalformedMessage:
        return None
