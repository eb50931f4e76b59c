"""How many replayed samples may be on their way to the edge without its acknowledgement.

The rates in the settings are what the link may carry. What the edge can store shows only in how late its acknowledgements
come: so the window grows while they come at once, and shrinks while they lag. Everything that waits in the broker ahead
of a live sample delays it, so a short lag is also what keeps live samples quick during a drain.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

Range = tuple[int, int]

# Even an edge that answers only every five seconds is caught up with at 2,000 samples a second.
SAMPLES_MIN: Final = 10_000
SAMPLES_MAX: Final = 200_000
CALM_SECONDS: Final = 0.3
LAGGING_SECONDS: Final = 0.6


class Sent(NamedTuple):
    first_seq: int
    last_seq: int
    at: float


class Window:
    def __init__(self) -> None:
        self.samples = SAMPLES_MIN
        self._on_the_way: deque[Sent] = deque()
        self._in_flight = 0
        self._shrunk_at = float("-inf")

    @property
    def has_room(self) -> bool:
        return self._in_flight < self.samples

    def sent(self, first_seq: int, last_seq: int, now: float) -> None:
        self._on_the_way.append(Sent(first_seq, last_seq, now))
        self._in_flight += last_seq - first_seq + 1

    def acknowledged(self, acked_seq: int, received: Sequence[Range], now: float) -> None:
        arrived = deque[Sent]()
        waiting = deque[Sent]()
        for sent in self._on_the_way:
            (arrived if _is_covered(sent, acked_seq, received) else waiting).append(sent)
        if arrived:
            samples = sum(sent.last_seq - sent.first_seq + 1 for sent in arrived)
            self._on_the_way = waiting
            self._in_flight -= samples
            self._adapt(samples, now - arrived[-1].at, now)

    def start_over(self) -> None:
        """What was on its way is sent again, so it is not waited for."""
        self._on_the_way.clear()
        self._in_flight = 0

    def _adapt(self, samples: int, lag_seconds: float, now: float) -> None:
        if lag_seconds < CALM_SECONDS:
            self.samples = min(SAMPLES_MAX, self.samples + samples // 4)
        elif lag_seconds > LAGGING_SECONDS and now - self._shrunk_at > lag_seconds:
            # Once for what was sent with one size: the answers that follow speak of the same window.
            self.samples = max(SAMPLES_MIN, self.samples // 2)
            self._shrunk_at = now


def _is_covered(sent: Sent, acked_seq: int, received: Sequence[Range]) -> bool:
    return sent.last_seq <= acked_seq or any(
        first <= sent.first_seq and sent.last_seq <= last for first, last in received
    )
