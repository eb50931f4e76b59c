"""What a driver is: the keys it adds to the sensors file, how it is opened, and what it answers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Protocol, TypeVar

from msgspec import Meta, Struct

from farmiq.contracts.ids import InvalidId, check_id, check_metric
from farmiq.device.handover import CHANNELS_MAX
from farmiq.kit.clock import Clock

_NAMES = "a letter or digit, then up to 63 letters, digits, dots, underscores or hyphens"


class Channel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One quantity of one sensor. A driver's own struct adds where to find the value."""

    metric: str
    unit: Annotated[str, Meta(max_length=32)]
    sensor: str
    # A sample is what the driver read, times `scale`, plus `offset`.
    scale: float = 1.0
    offset: float = 0.0
    # What lies outside is a fault of the sensor and no sample.
    min: float | None = None
    max: float | None = None

    def __post_init__(self) -> None:
        try:
            check_metric(self.metric)
            check_id("sensor", self.sensor)
        except InvalidId as error:
            raise ValueError(f"{error}: {_NAMES}") from error
        if not self.unit.isprintable():
            raise ValueError(f"unit {self.unit!r} is not allowed: printable characters only")
        limits = [limit for limit in (self.min, self.max) if limit is not None]
        if not all(math.isfinite(number) for number in (self.scale, self.offset, *limits)):
            raise ValueError("scale, offset, min and max have to be finite numbers")
        if limits != sorted(limits):
            raise ValueError(f"min {self.min} is above max {self.max}")


class Device(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is read together: one task, one grid of time, one driver. A driver's own struct adds how to reach it."""

    driver: str
    name: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    interval_ms: Annotated[int, Meta(ge=10, le=86_400_000)] | None = None
    timeout_ms: Annotated[int, Meta(ge=1)] | None = None
    channel: Annotated[tuple[Channel, ...], Meta(min_length=1, max_length=CHANNELS_MAX)]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a device is read, and how long one read may take: a driver that answers by then can say which of its
    sensors is the slow one. Later than that the agent gives up on the whole device, well before its next turn."""

    interval_seconds: float
    timeout_seconds: float

    @property
    def guard_seconds(self) -> float:
        return self.timeout_seconds + self.interval_seconds / 20


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a channel has no value this time. The text is what the operator reads."""

    reason: str


Reading = float | Fault | None
"""A value, what is wrong, or None: nothing new since the last time, and nothing wrong with that."""


class Driver(Protocol):
    async def read(self) -> Sequence[Reading]:
        """One reading for each channel, in the order of the device's channels. Whatever it raises is a fault of them all.
        May be cancelled at any await."""

    async def close(self) -> None:
        """Called once, also in the middle of things."""


D = TypeVar("D", bound=Device)


@dataclass(frozen=True, slots=True)
class Plugin(Generic[D]):
    """What an entry point of the group `farmiq.drivers` names. `open` does no I/O: a device may be away when we start."""

    device: type[D]
    open: Callable[[D, Pace, Clock], Driver]
