"""What some nodes say in a while, cut and overlapped in every way, so that it can be repeated and shuffled. Seeded."""

import random
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from farmiq.contracts.status import DeviceStatus
from farmiq.kit.mqtt import Message
from farmiq.timeseries.stream import Origin
from support.telemetry import batch_message, loss_message, reading_message, status_message

SAMPLES: Final = 240
LOST: Final = 20
"""Above the samples, so that a stream is whole only with what was declared lost."""
READINGS: Final = 15


class Node:
    """One device with one stream of `SAMPLES` samples and `LOST` lost ones, and a few single readings beside it."""

    def __init__(self, rng: random.Random, device_id: str) -> None:
        self.origin = Origin("demo", "farm-1", "barn-1", device_id)
        self.stream = _id(rng)
        self.readings = [_id(rng) for _ in range(READINGS)]
        self.losses = [_id(rng), _id(rng)]
        self.messages = list(self._say(rng))

    @property
    def last_seq(self) -> int:
        return SAMPLES + LOST

    def _say(self, rng: random.Random) -> Iterator[Message]:
        for first, last in [*_cuts(rng), *_overlaps(rng)]:
            yield batch_message(self.stream, first, last, self.origin, _id(rng))
        # One range never comes; the other does, before or after it was given up.
        yield loss_message(self.stream, SAMPLES + 1, SAMPLES + LOST, self.origin, self.losses[0])
        yield loss_message(self.stream, SAMPLES - 30, SAMPLES - 21, self.origin, self.losses[1])
        for number, event_id in enumerate(self.readings):
            yield reading_message(float(number), self.origin, event_id)
        yield status_message(DeviceStatus(state="online", stream_id=self.stream), self.origin, _id(rng))


def nodes(seed: int, count: int) -> list[Node]:
    rng = random.Random(seed)
    return [Node(rng, f"node-{number}") for number in range(1, count + 1)]


def repeated(seed: int, farm: list[Node], times: int) -> list[tuple[str, bytes]]:
    """Each message of each node `times` times, in an order that has nothing to do with the one in which they were made."""
    messages = [(message.topic, message.payload) for node in farm for message in node.messages] * times
    random.Random(seed).shuffle(messages)
    return messages


def _cuts(rng: random.Random) -> Iterator[tuple[int, int]]:
    """Live: all samples, in pieces of uneven length."""
    first = 1
    while first <= SAMPLES:
        last = min(first + rng.randrange(1, 25), SAMPLES)
        yield first, last
        first = last + 1


def _overlaps(rng: random.Random) -> Iterator[tuple[int, int]]:
    """Replay: across the pieces, inside one, around several, one sample alone, and everything at once."""
    for _ in range(12):
        first = rng.randrange(1, SAMPLES)
        yield first, min(first + rng.randrange(0, 60), SAMPLES)
    yield from ((1, 1), (SAMPLES, SAMPLES), (1, SAMPLES), (2, SAMPLES - 1))


def _id(rng: random.Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)
