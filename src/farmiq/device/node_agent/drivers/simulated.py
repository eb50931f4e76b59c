"""A barn that follows the sun. The same seed measures the same barn."""

import math
import random
from typing import Annotated

from msgspec import Meta

from farmiq.device.node_agent.drivers.plugin import Channel, Device, Pace, Plugin
from farmiq.kit.clock import Clock


class SimulatedChannel(Channel, frozen=True, kw_only=True):
    mean: float
    # Added at three in the afternoon and taken away at three at night.
    swing: float = 0.0
    noise_percent: Annotated[float, Meta(ge=0, le=100)] = 1.0


class SimulatedDevice(Device, frozen=True, kw_only=True):
    seed: str = "barn"
    channel: Annotated[tuple[SimulatedChannel, ...], Meta(min_length=1)]


def barn(seed: str) -> SimulatedDevice:
    """What a node without a sensors file measures."""
    return SimulatedDevice(
        driver="simulated",
        name="barn",
        seed=seed,
        channel=(
            SimulatedChannel(metric="temperature", unit="C", sensor="t1", mean=22.0, swing=4.0),
            SimulatedChannel(metric="temperature", unit="C", sensor="t2", mean=21.5, swing=4.2),
            SimulatedChannel(metric="humidity", unit="%", sensor="h1", mean=65.0, swing=-12.0),
            SimulatedChannel(metric="ammonia", unit="ppm", sensor="nh3", mean=9.0, swing=3.0),
            SimulatedChannel(metric="co2", unit="ppm", sensor="co2", mean=900.0, swing=-150.0),
        ),
    )


class SimulatedBarn:
    def __init__(self, device: SimulatedDevice, _pace: Pace, clock: Clock) -> None:
        self._clock = clock
        self._rng = random.Random(device.seed)  # noqa: S311 - weather, not secrets
        self._channels = [(channel, self._rng.gauss(0.0, 0.4)) for channel in device.channel]

    async def read(self) -> list[float]:
        at = self._clock.now()
        warmth = math.sin((at.hour + at.minute / 60 - 9) / 24 * 2 * math.pi)
        return [self._value(channel, offset, warmth) for channel, offset in self._channels]

    def _value(self, channel: SimulatedChannel, offset: float, warmth: float) -> float:
        level = channel.mean + channel.swing * warmth
        noise = self._rng.gauss(0.0, abs(level) * channel.noise_percent / 100)
        return round(level + offset + noise, 3)

    async def close(self) -> None:
        pass


PLUGIN = Plugin(SimulatedDevice, SimulatedBarn)
