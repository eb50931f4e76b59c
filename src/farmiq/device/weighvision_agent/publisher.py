"""Sends what the queue holds, in order, and again until the edge has acknowledged it."""

import asyncio
import contextlib
import random

from farmiq.contracts.ack import OF_DEVICE
from farmiq.device.weighvision_agent.database import QueueFailed
from farmiq.device.weighvision_agent.event_store import ToSend
from farmiq.device.weighvision_agent.queue import Queue
from farmiq.device.weighvision_agent.recorder import Recorder
from farmiq.device.weighvision_agent.replay import (
    IN_FLIGHT_MAX,
    PUT_OFF_SECONDS,
    OnTheWay,
    PutOffs,
    Settled,
    Throttle,
    jitter_seconds,
)
from farmiq.device.weighvision_agent.settings import StationSettings
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import BrokerAway, MqttClient
from farmiq.kit.retry import Backoff

LOOK_SECONDS = 0.5
HOLD_BACK_SECONDS_MAX = 120.0

log = get_logger(__name__)


class Publisher:
    """PUBACK is flow control only: what was sent stays in the queue until the edge's own acknowledgement."""

    def __init__(
        self, life: Lifetime, settings: StationSettings, mqtt: MqttClient, recorder: Recorder, rng: random.Random
    ) -> None:
        self._life = life
        self._mqtt = mqtt
        self._recorder = recorder
        self._rng = rng
        self._throttle = Throttle(settings.replay_msgs_per_sec)
        self._failing = Backoff(base_seconds=0.5, cap_seconds=10.0)
        self.on_the_way = OnTheWay(settings.weighvision_resend_seconds, life.clock.monotonic())
        self.put_offs = PutOffs()
        self.put_off_code: str | None = None
        self._not_before = 0.0
        self.monotonic = life.clock.monotonic
        mqtt.on_connect.append(self._connected)

    async def send_all(self) -> None:
        """Until cancelled."""
        while True:
            await self._mqtt.wait_connected()
            await asyncio.sleep(jitter_seconds(self._rng))
            with contextlib.suppress(BrokerAway):
                await self._send_while_connected()

    async def _send_while_connected(self) -> None:
        while self._mqtt.is_connected:
            await asyncio.sleep(self._not_before - self._life.clock.monotonic())
            self._recorder.events_added.clear()
            try:
                for event in await self._recorder.run(self._next_events):
                    await self._send(event)
                self._failing.reset()
            except QueueFailed as error:
                log.error("queue_not_read", reason=str(error))  # noqa: TRY400 - what is in it stays in it
                await asyncio.sleep(self._failing.next_seconds())
            await self._wait_for_work()

    def _next_events(self, queue: Queue) -> list[ToSend]:
        passing = self.put_offs.not_due(self._life.clock.monotonic())
        queue.tell_gathered(self.put_offs.not_for_any_of(OF_DEVICE))
        if not self.on_the_way.has_room:
            return []
        return self.on_the_way.not_sent(queue.next_to_send(IN_FLIGHT_MAX, passing))

    async def _send(self, event: ToSend) -> None:
        await asyncio.sleep(self._throttle.spend(self._life.clock.monotonic()))
        # Marked first: the edge may be quicker with its answer than the broker with its own.
        self.on_the_way.sent(event.number, self._life.clock.monotonic())
        await self._mqtt.publish(event.topic, event.body)

    def settled(self, settled: Settled) -> None:
        now = self._life.clock.monotonic()
        if settled.is_taken:
            self.put_offs.end_of(OF_DEVICE)
            self.put_off_code = None
        for code in settled.put_off.values():
            self.put_off(code)
        if OF_DEVICE.intersection(settled.put_off.values()):
            self.hold_back(PUT_OFF_SECONDS)
        self.put_offs.forget(settled.done)
        self.put_offs.add(settled.put_off, now)
        self.on_the_way.settled([*settled.done, *settled.put_off], now)
        self._recorder.events_added.set()

    def put_off(self, code: str) -> None:
        """The edge takes nothing of this station, or not this message, as things are."""
        if code != self.put_off_code:
            log.error("messages_put_off", code=code)
        self.put_off_code = code

    def hold_back(self, seconds: float) -> None:
        """The edge did not take everything: what it lacks is sent again after that time."""
        now = self._life.clock.monotonic()
        if self._not_before <= now:
            log.warning("sending_held_back", seconds=round(seconds, 1))
        self._not_before = now + min(seconds, HOLD_BACK_SECONDS_MAX)

    def start_over(self) -> None:
        self.on_the_way.start_over()
        self._recorder.events_added.set()

    def _connected(self) -> None:
        """What was on its way over the old connection may have got lost with it."""
        self.start_over()

    async def _wait_for_work(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._recorder.events_added.wait()
        now = self._life.clock.monotonic()
        if self.on_the_way.is_silent_too_long(now):
            log.warning("events_sent_again", count=len(self.on_the_way))
            self.on_the_way.ask_again(now)
