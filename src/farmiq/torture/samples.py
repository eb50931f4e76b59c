"""The samples of one node: which there are, what each of them is, and which are still to be handed over. Pure.

Sample n, counted from one, has the value n wherever it ends up. The node reads all of its channels at once, every `TICK_US` of
its own monotonic clock; its wall clock is as wrong as it is told to be."""

from collections import deque
from dataclasses import dataclass
from uuid import UUID

from farmiq.device.handover import ChannelName, Hello, Position, Row
from farmiq.torture.ledger import TICK_US, Offered

CHANNELS = 8
METRIC, UNIT = "torture", "n"
TIME_QUALITY = 2
ROWS_MAX = 4000
"""In one message: a whole number of ticks, and well below what the socket takes."""
WAITING_MAX = 40_000
"""A node that can't hand over measures no more than this: the generator is a load, not a flood."""


def channel_names() -> list[ChannelName]:
    return [ChannelName(METRIC, UNIT, f"s{number}") for number in range(CHANNELS)]


def sensor_of(number: int) -> str:
    return f"s{(number - 1) % CHANNELS}"


@dataclass(frozen=True)
class Boot:
    """`before`: how many samples were taken before it."""

    boot_id: UUID
    before: int

    def hello(self) -> Hello:
        return Hello(self.boot_id, channel_names())

    def number_at(self, held: Position | None) -> int:
        """The last sample that the forwarder has, from its own word."""
        if held is None:
            return self.before
        return self.before + (held.monotonic_us // TICK_US - 1) * CHANNELS + held.channel + 1

    def row(self, number: int, wall_us: int) -> Row:
        tick, channel = divmod(number - 1 - self.before, CHANNELS)
        return wall_us, (tick + 1) * TICK_US, channel, TIME_QUALITY, float(number)


def wall_us_of(offer: Offered, number: int) -> int:
    return offer.wall_us + (number - offer.first) // CHANNELS * TICK_US


class Samples:
    def __init__(self, device: str, boot_id: UUID) -> None:
        self._device = device
        self._boot = Boot(boot_id, 0)
        self._next_boot: UUID | None = None
        self._waiting: deque[Offered] = deque()
        self.taken = 0
        self.stored = 0

    @property
    def boot(self) -> Boot:
        """A node that was told to boot again does so once nothing of the old boot is left to hand over."""
        if self._next_boot is not None and not self._waiting:
            self._boot = Boot(self._next_boot, self.taken)
            self._next_boot = None
        return self._boot

    @property
    def waiting(self) -> int:
        return self.taken - self.stored

    @property
    def is_rebooting(self) -> bool:
        return self._next_boot is not None

    def reboot(self, boot_id: UUID) -> None:
        self._next_boot = boot_id

    def measure(self, count: int, wall_us: int, at_us: int = 0) -> Offered | None:
        """The next `count` samples, or as many as make whole ticks. None: the node has no room for more."""
        whole = min(count, ROWS_MAX) // CHANNELS * CHANNELS
        if not whole or self.is_rebooting or self.waiting + whole > WAITING_MAX:
            return None
        offer = Offered(self._device, self.taken + 1, self.taken + whole, wall_us, at_us)
        self._waiting.append(offer)
        self.taken += whole
        return offer

    def next_rows(self) -> list[Row]:
        """What is to be handed over first, without what the forwarder has already."""
        if not self._waiting:
            return []
        offer, boot = self._waiting[0], self._boot
        first = max(offer.first, self.stored + 1)
        return [boot.row(number, wall_us_of(offer, number)) for number in range(first, offer.last + 1)]

    def is_stored(self, last: int) -> bool:
        """The system says that it has everything up to there. True when that is news."""
        if last <= self.stored:
            return False
        self.stored = last
        while self._waiting and self._waiting[0].last <= last:
            self._waiting.popleft()
        return True

    def next_last(self) -> int:
        return self._waiting[0].last
