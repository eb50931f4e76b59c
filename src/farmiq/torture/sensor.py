"""A sensor without a spool: single readings and events, poison among them, and storms of what it said before."""

import asyncio
from random import Random

import msgspec

from farmiq.contracts import event_types
from farmiq.contracts.timestamps import to_us
from farmiq.contracts.topics import EventTopic, TelemetryTopic
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.torture import poison
from farmiq.torture.ledger import LedgerWriter, Said
from farmiq.torture.samples import METRIC, UNIT
from farmiq.torture.telling import Login, TellingDevice

DOOR = "door.opened"
STORM_TIMES = 10
EVENT_EVERY = 10
"""One generic event for so many readings."""
UNANSWERED_MAX = 200


class Sensor:
    def __init__(self, login: Login, rate: float, ledger: LedgerWriter, clock: Clock, rng: Random) -> None:
        self.telling = TellingDevice(login, ledger, clock)
        self._login = login
        self._rate = rate
        self._clock = clock
        self._rng = rng
        self._count = 0
        self._is_over = asyncio.Event()
        self._orders: asyncio.Queue[str] = asyncio.Queue()
        self._reading_topic = TelemetryTopic(**login.place, device_id=login.device_id, metric=METRIC).path
        self._event_topic = EventTopic(**login.place, device_id=login.device_id, event_type=DOOR).path

    def finish(self) -> None:
        self._is_over.set()

    def storm(self) -> None:
        self._orders.put_nowait("storm")

    def poison(self) -> None:
        self._orders.put_nowait("poison")

    async def run(self) -> None:
        """Until told to finish and everything is answered for."""
        speaking = asyncio.create_task(self.telling.run())
        try:
            async with asyncio.TaskGroup() as group:
                while not self._is_over.is_set():
                    if self.telling.unanswered < UNANSWERED_MAX:
                        group.create_task(self._say_next())
                    while not self._orders.empty():
                        self._follow(group, self._orders.get_nowait())
                    await asyncio.sleep(1 / self._rate)
        finally:
            speaking.cancel()

    def _follow(self, group: asyncio.TaskGroup, order: str) -> None:
        if order == "storm":
            group.create_task(self.telling.storm(STORM_TIMES, self._rng))
            return
        for wrong in poison.readable(self._now_us()):
            group.create_task(self._say_wrong(dict(wrong)))
        good = poison.envelope(
            self._login, new_id(), event_types.TELEMETRY_READING, self._now_us(), {"value": 1.0, "unit": UNIT}
        )
        group.create_task(self.telling.shout([(self._reading_topic, text) for text in poison.unreadable(good)]))

    async def _say_next(self) -> None:
        self._count += 1
        number, at_us = float(self._count), self._now_us()
        is_event = self._count % EVENT_EVERY == 0
        kind = DOOR if is_event else event_types.TELEMETRY_READING
        said = Said(self._login.device_id, new_id(), kind, at_us, value=number)
        payload = {"number": number} if is_event else {"value": number, "unit": UNIT}
        message = poison.envelope(self._login, said.event_id, kind, at_us, payload)
        topic = self._event_topic if is_event else self._reading_topic
        await self.telling.tell(said, topic, msgspec.json.encode(message))

    async def _say_wrong(self, wrong: dict[str, object]) -> None:
        kind, at_us = event_types.TELEMETRY_READING, self._now_us()
        said = Said(self._login.device_id, new_id(), kind, at_us, is_poison=True)
        good = poison.envelope(self._login, said.event_id, kind, at_us, {"value": 1.0, "unit": UNIT})
        await self.telling.tell(said, self._reading_topic, msgspec.json.encode(good | wrong))

    def _now_us(self) -> int:
        return to_us(self._clock.now())
