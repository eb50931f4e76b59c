"""What came back, compared with what was given and what was acknowledged."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from stores import Reading, poll


@dataclass(frozen=True, slots=True)
class Verdict:
    """In samples, except the last three, which count cuts. `readable` counts a sample once, `twice` the copies beyond that."""

    written: int = 0
    acknowledged: int = 0
    readable: int = 0
    acknowledged_and_readable: int = 0
    twice: int = 0
    wrong: int = 0  # never written, or with another value
    cuts: int = 0
    cuts_unreadable: int = 0  # the store could not be opened, or failed while it was read
    cuts_that_end_it: int = 0  # it does not take a sample and give it back any more

    @property
    def lost(self) -> int:
        return self.acknowledged - self.acknowledged_and_readable

    def plus(self, other: "Verdict") -> "Verdict":
        return Verdict(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Verdict)))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "lost": self.lost}


def judged(given: int, acknowledged: Iterable[int], found: dict[str, Any]) -> Verdict:
    """`given` polls were handed over, from 0; `found` is what power_cut.read has to say about one cut."""
    came_back = Counter((wall_ms, channel, value) for wall_ms, channel, value in found["readings"])
    written = [reading for number in range(given) for reading in readings_of(number)]
    promised = [reading for number in acknowledged for reading in readings_of(number)]
    readable = sum(reading in came_back for reading in written)
    return Verdict(
        written=len(written),
        acknowledged=len(promised),
        readable=readable,
        acknowledged_and_readable=sum(reading in came_back for reading in promised),
        twice=sum(came_back[reading] - 1 for reading in written if reading in came_back),
        wrong=sum((came_back - Counter({reading: came_back[reading] for reading in written})).values()),
        cuts=1,
        cuts_unreadable=int(found["failed"] is not None and not found["failed"].startswith("go on")),
        cuts_that_end_it=int(not found["goes_on"]),
    )


def readings_of(number: int) -> list[Reading]:
    return [(wall_us // 1000, channel, value) for wall_us, _monotonic, channel, _quality, value in poll(number)]


def total(verdicts: Sequence[Verdict]) -> Verdict:
    whole = Verdict()
    for verdict in verdicts:
        whole = whole.plus(verdict)
    return whole
