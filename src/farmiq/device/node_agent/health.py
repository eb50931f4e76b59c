"""Which sensors fail. Each failure and each repair is logged once, however often the sensor is read in between."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass

from farmiq.device.node_agent.drivers import Channel, Fault
from farmiq.kit.logging import get_logger

RECOVERED_AFTER = 3
"""Good readings in a row. A loose contact would otherwise fill the log; its good readings become samples all the same."""

log = get_logger(__name__)


@dataclass(slots=True)
class _Trouble:
    sensor: str
    failures: int = 0
    good_in_a_row: int = 0


class Health:
    def __init__(self, news: asyncio.Event) -> None:
        self._news = news  # set whenever the set of failing sensors changes
        self._troubles: dict[int, _Trouble] = {}
        self.failures: defaultdict[str, int] = defaultdict(int)

    @property
    def faulty_sensors(self) -> list[str]:
        return sorted({trouble.sensor for trouble in self._troubles.values()})

    def note(self, index: int, channel: Channel, fault: Fault | None) -> None:
        """How reading the channel at this place of the table went."""
        if fault is not None:
            self._failed(index, channel, fault)
        elif (trouble := self._troubles.get(index)) is not None:
            trouble.good_in_a_row += 1
            if trouble.good_in_a_row >= RECOVERED_AFTER:
                del self._troubles[index]
                log.info(
                    "sensor_recovered", sensor=channel.sensor, metric=channel.metric, failed_reads=trouble.failures
                )
                self._news.set()

    def _failed(self, index: int, channel: Channel, fault: Fault) -> None:
        self.failures[channel.sensor] += 1
        trouble = self._troubles.get(index)
        if trouble is None:
            trouble = self._troubles[index] = _Trouble(channel.sensor)
            log.warning("sensor_failed", sensor=channel.sensor, metric=channel.metric, reason=fault.reason[:300])
            self._news.set()
        trouble.failures += 1
        trouble.good_in_a_row = 0
