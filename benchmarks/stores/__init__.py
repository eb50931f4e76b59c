"""The stores that are measured beside each other: the spool, the bare loop that no Python store can beat, and its peers.

Each stands behind the same few moves, so that one loop drives them all with the same samples, in the same groups, synced
at the same moments, on the same disk:

    opening      makes the folder usable again, whatever state a killed process left it in
    append       takes a group of samples
    sync         everything appended so far survives a power cut when this returns
    check        looks for damage, where that is a step of its own
    pieces       reads every sample from the start, as many at a time as a forwarder would send
    readings     the same, sample by sample, for whoever asks what came back and not how fast

`catalogue.py` lists them. `run.py` makes the moves of one store in a process of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

Sample = tuple[int, int, int, int, float]
"""Wall time and monotonic time in microseconds, channel, quality of the wall time, value."""

Reading = tuple[int, int, float]
"""Wall time in milliseconds, channel, value: what every store gives back."""

CHANNELS = 10
PIECE_SAMPLES = 500  # what the node-forwarder puts into one message


class StoreFailed(Exception):
    """A store did not do what it was asked to, so its figures mean nothing."""


class Store(ABC):
    @abstractmethod
    def append(self, group: list[Sample]) -> None: ...

    @abstractmethod
    def sync(self) -> None: ...

    @abstractmethod
    def pieces(self) -> Iterator[int]:
        """Reads everything from the start, piece by piece; answers how many samples were in each."""

    @abstractmethod
    def readings(self) -> Iterator[Reading]: ...

    def check(self) -> None:  # noqa: B027 - most stores have nothing to do here, or did it while opening
        """Nothing, unless the store has a step for it."""


def poll(number: int) -> list[Sample]:
    """One reading of every channel, as a node takes it every second."""
    wall_us = 1_735_732_800_000_000 + number * 1_000_000
    return [(wall_us, number * 1_000_000 + 12, channel, 2, 20.0 + number % 97 / 7) for channel in range(CHANNELS)]
