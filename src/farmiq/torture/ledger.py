"""What the generators offered, and what the system told them that it has. One JSON object a line, appended and synced.

`Offered` and `Said` are written before anything leaves the generator, `Stored` and `Heard` after the system's own word came
back. So whatever the system holds was written down before, and whatever it promised is written down as promised."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import UUID

import msgspec
from msgspec import Struct

TICK_US = 1000
"""Between two moments of one node: all of its channels are read at each."""


class Offered(Struct, frozen=True, tag="offered"):
    """Samples `first` to `last` of a node, counted from one. Sample n has the value n; `wall_us` is the time of the first by the
    node's own clock, which may be wrong, and `at_us` the time at which they were taken."""

    device: str
    first: int
    last: int
    wall_us: int
    at_us: int = 0


class Stored(Struct, frozen=True, tag="stored"):
    """The forwarder has everything up to `last` on its disk."""

    device: str
    last: int


class Said(Struct, frozen=True, tag="said", omit_defaults=True):
    """One event over MQTT, as far as it can be compared. `is_poison`: the edge must refuse it."""

    device: str
    event_id: UUID
    event_type: str
    at_us: int
    value: float | None = None
    session: UUID | None = None
    media: UUID | None = None
    is_poison: bool = False


class Heard(Struct, frozen=True, tag="heard"):
    """The edge's word on the device's acknowledgement topic."""

    event_id: UUID
    result: str


class Picture(Struct, frozen=True, tag="picture"):
    """The object store took these bytes."""

    media: UUID
    session: UUID
    sha256: str
    size_bytes: int
    captured_us: int


class Weighed(Struct, frozen=True, tag="weighed"):
    """Every event of the session is acknowledged: so it has to look in the cloud."""

    session: UUID
    device: str
    weight_kg: float
    media: list[UUID]


class BusPoison(Struct, frozen=True, tag="bus_poison"):
    """Written before and after it is published. What RabbitMQ confirmed has to end among the dead letters of each service whose
    queue it reaches, and nowhere else."""

    poison: UUID
    services: list[str]
    is_confirmed: bool


class Filled(Struct, frozen=True, tag="filled"):
    """The disk under a node's spool was full for this time: what it gave up then for lack of space is explained."""

    device: str
    began_us: int
    ended_us: int


class SetBack(Struct, frozen=True, tag="set_back"):
    """A node's disk was set back. Samples `first` to `last` were on that disk alone, and are gone with it."""

    device: str
    first: int
    last: int


class BusLost(Struct, frozen=True, tag="bus_lost"):
    """RabbitMQ lost its disk: poison that was published before may be there or not."""

    at_us: int


Line = Offered | Stored | Said | Heard | Picture | Weighed | BusPoison | Filled | SetBack | BusLost

_LINES = msgspec.json.Decoder[Line](Line)


class LedgerWriter:
    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def note(self, *lines: Line) -> None:
        """On disk when it returns."""
        self._file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_ledger(paths: Iterable[Path]) -> Iterator[Line]:
    for path in paths:
        if path.exists():
            with path.open("rb") as file:
                for line in file:
                    yield _LINES.decode(line)
