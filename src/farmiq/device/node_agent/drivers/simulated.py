"""A barn that follows the sun: temperature, humidity, ammonia and carbon dioxide. The same seed measures the same barn."""

import math
import random
from datetime import datetime
from typing import Final

from farmiq.device.handover import ChannelName

CHANNELS: Final = (
    ChannelName("temperature", "C", "t1"),
    ChannelName("temperature", "C", "t2"),
    ChannelName("humidity", "%", "h1"),
    ChannelName("ammonia", "ppm", "nh3"),
    ChannelName("co2", "ppm", "co2"),
)


class SimulatedBarn:
    channels = CHANNELS

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - weather, not secrets
        self._offsets = [self._rng.gauss(0.0, 0.4) for _ in CHANNELS]

    def read(self, at: datetime) -> list[tuple[int, float]]:
        """The value of each channel: its index and what it reads now."""
        warmth = math.sin((at.hour + at.minute / 60 - 9) / 24 * 2 * math.pi)  # coldest at three, warmest at fifteen
        levels = (
            22.0 + 4.0 * warmth,
            21.5 + 4.2 * warmth,
            65.0 - 12.0 * warmth,
            9.0 + 3.0 * warmth,
            900.0 - 150.0 * warmth,
        )
        return [
            (channel, round(level + offset + self._rng.gauss(0.0, 0.01 * level), 3))
            for channel, (level, offset) in enumerate(zip(levels, self._offsets, strict=True))
        ]
