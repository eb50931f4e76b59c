"""What a driver is: the keys it adds to the station file, how it is opened, and what it answers.

A driver is called on a thread of its own, one call at a time, and may block there. A call that takes too long, or raises, is a
fault that is shown; the agent goes on, and calls again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from farmiq.kit.clock import Clock


class DriverFault(Exception):
    """The camera or the scale cannot be used at this moment. The text is what the operator reads."""


class CameraTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[camera]` of the station file. A driver's own struct adds how to reach it."""

    driver: str
    timeout_seconds: float = 10.0


class ScaleTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[scale]` of the station file. `timeout_seconds` is how long the scale may say nothing."""

    driver: str
    timeout_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Weight:
    """`at` is `Clock.monotonic`, taken when the scale said it."""

    at: float
    weight_kg: float
    is_moving: bool = False


class Camera(Protocol):
    def capture(self) -> bytes:
        """One picture of this moment: a JPEG, PNG or WebP file."""

    def close(self) -> None: ...


class Scale(Protocol):
    def read(self) -> Sequence[Weight]:
        """What the scale has said since the last call. Returns within a second or so, empty when it said nothing."""

    def close(self) -> None: ...


C = TypeVar("C", bound=CameraTable)
S = TypeVar("S", bound=ScaleTable)


@dataclass(frozen=True, slots=True)
class CameraPlugin(Generic[C]):
    """What an entry point of the group `farmiq.cameras` names. `open` does no I/O: the camera may be away when we start."""

    table: type[C]
    open: Callable[[C, Clock], Camera]


@dataclass(frozen=True, slots=True)
class ScalePlugin(Generic[S]):
    """What an entry point of the group `farmiq.scales` names. `open` does no I/O."""

    table: type[S]
    open: Callable[[S, Clock], Scale]
