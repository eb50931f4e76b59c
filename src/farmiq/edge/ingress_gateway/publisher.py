"""Tells devices what is safe: after the commit, gathered, and as soon as the broker is there."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import encode
from farmiq.contracts.telemetry import TIME_QUALITY_UNKNOWN
from farmiq.contracts.topics import AckTopic
from farmiq.edge.ingress_gateway.acknowledgements import Pending
from farmiq.edge.ingress_gateway.canary import LOGIN as CANARY_LOGIN
from farmiq.edge.ingress_gateway.canary import Receipt
from farmiq.edge.ingress_gateway.counters import Counters
from farmiq.edge.ingress_gateway.handlers import Outcome
from farmiq.edge.ingress_gateway.quotas import Throttled
from farmiq.kit.clock import Clock
from farmiq.kit.mqtt import BrokerAway, MqttClient

LAST_WORDS_SECONDS = 2.0


class AckPublisher:
    """A device that misses an acknowledgement sends again and gets the next one: losing one here costs time, not data."""

    def __init__(
        self,
        mqtt: MqttClient,
        counters: Counters,
        clock: Clock,
        interval_seconds: float,
        clock_quality: Callable[[], int] = lambda: TIME_QUALITY_UNKNOWN,
    ) -> None:
        self._mqtt = mqtt
        self._counters = counters
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._clock_quality = clock_quality
        self._pending = Pending()
        self._telling: list[tuple[str, DeviceAck]] = []
        self._due = asyncio.Event()

    def note(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._pending.note(
                outcome.epoch, outcome.marks, outcome.verdicts, outcome.contradicted, outcome.reported, outcome.commits
            )
            self._pending.note_time_requests(outcome.time_requests)
        self._due.set()

    def note_throttled(self, passed_over: Sequence[Throttled]) -> None:
        for one in passed_over:
            self._pending.note_throttled(one.sender[1], one.retry_after_seconds)
        if passed_over:
            self._due.set()

    def note_receipt(self, receipt: Receipt) -> None:
        self._pending.note(receipt.epoch, [], receipt.verdicts)
        self._due.set()

    async def run(self) -> None:
        while True:
            await self._due.wait()
            await self._mqtt.wait_connected()
            self._due.clear()
            self._telling = self._pending.take(self._clock.now(), self._clock_quality())
            await self._publish_all()
            await asyncio.sleep(self._interval_seconds)

    async def tell_the_rest(self) -> None:
        """For a service that stops in order: devices need not wait for their next silence. Told twice does no harm."""
        self._telling += self._pending.take(self._clock.now())
        if not self._mqtt.is_connected:
            return
        with suppress(TimeoutError):  # a broker that hangs does not keep us; the devices send again after a silence
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._publish_all()

    async def _publish_all(self) -> None:
        await asyncio.gather(*(self._publish(device_id, encode(ack)) for device_id, ack in self._telling))
        self._telling = []

    async def _publish(self, device_id: str, payload: bytes) -> None:
        try:
            await self._mqtt.publish(AckTopic(device_id=device_id).path, payload)
        except BrokerAway:
            return  # the device reconnects too, replays what it was not told of, and is told then
        if device_id != CANARY_LOGIN:
            self._counters.acknowledged()
