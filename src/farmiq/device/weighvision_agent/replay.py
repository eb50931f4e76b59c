"""In which order events are sent, how fast, and when they are sent again."""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

JITTER_SECONDS_MAX: Final = 0.2
"""A barn's stations come back in the same second. They do not begin in it."""

IN_FLIGHT_MAX: Final = 200
"""Sent, and not acknowledged by the edge. More would only wait in the broker."""

PATIENCE_SECONDS_MAX: Final = 300.0
PUT_OFF_SECONDS: Final = 60.0
PUT_OFF_SECONDS_MAX: Final = 900.0


class Numbered(Protocol):
    @property
    def number(self) -> int: ...


N = TypeVar("N", bound=Numbered)


def order_us(ts_us: int, last_of_session_us: int | None) -> int:
    """Where an event stands in the replay: at its own time, but never before what its session said earlier. A clock that was set
    back must not put the end of a session before its beginning."""
    return ts_us if last_of_session_us is None else max(ts_us, last_of_session_us)


def jitter_seconds(rng: random.Random) -> float:
    return rng.uniform(0.0, JITTER_SECONDS_MAX)


class Throttle:
    """At most `per_second` messages in any second: they are spread evenly, and what was not used is not made up for."""

    def __init__(self, per_second: float) -> None:
        self._gap_seconds = 1.0 / per_second
        self._next_at = float("-inf")

    def spend(self, now: float) -> float:
        """Account for one message; answers for how many seconds it has to wait."""
        at = max(now, self._next_at)
        self._next_at = at + self._gap_seconds
        return at - now


class Settled(NamedTuple):
    """What an acknowledgement meant for the events it names, by their numbers. `put_off`: with the reason."""

    done: list[int]
    put_off: dict[int, str]
    is_taken: bool
    """The edge has taken at least one."""


class PutOffs:
    """Events that the edge does not take as things are. They stay in the queue, and let the others pass for a while: longer each
    time. Forgotten at a restart: then they are asked about sooner."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[str, float, float]] = {}

    def add(self, codes: Mapping[int, str], now: float) -> None:
        for number, code in codes.items():
            _, before_seconds, _ = self._waiting.get(number, ("", PUT_OFF_SECONDS / 2, 0.0))
            seconds = min(2 * before_seconds, PUT_OFF_SECONDS_MAX)
            self._waiting[number] = code, seconds, now + seconds

    def forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._waiting.pop(number, None)

    def end(self) -> None:
        """All are sent at once."""
        self._waiting.clear()

    def end_of(self, codes: Collection[str]) -> None:
        """The cause of these is gone."""
        self._waiting = {number: one for number, one in self._waiting.items() if one[0] not in codes}

    def not_for_any_of(self, codes: Collection[str]) -> list[int]:
        return [number for number, (code, _, _) in self._waiting.items() if code not in codes]

    def not_due(self, now: float) -> list[int]:
        return [number for number, (_, _, until) in self._waiting.items() if until > now]


class OnTheWay:
    """What was sent and is not acknowledged. It is sent again on a new connection, and when the edge has been silent for long:
    a message may have got lost on the way there, or the answer on the way back."""

    def __init__(self, resend_seconds: float, now: float) -> None:
        self._resend_seconds = resend_seconds
        self._sent: set[int] = set()
        self._progress_at = now
        self._silences = 0

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def has_room(self) -> bool:
        return len(self._sent) < IN_FLIGHT_MAX

    def not_sent(self, waiting: Sequence[N]) -> list[N]:
        return [one for one in waiting if one.number not in self._sent]

    def sent(self, number: int, now: float) -> None:
        if not self._sent:
            self._progress_at = now
        self._sent.add(number)

    def settled(self, numbers: Iterable[int], now: float) -> None:
        before = len(self._sent)
        self._sent.difference_update(numbers)
        if len(self._sent) < before:
            self._progress_at = now
            self._silences = 0

    def start_over(self) -> None:
        self._sent.clear()

    def is_silent_too_long(self, now: float) -> bool:
        return bool(self._sent) and now - self._progress_at > self._patience_seconds()

    def ask_again(self, now: float) -> None:
        """Less often each time: an edge that is away for hours must not find the same events a thousand times in its broker."""
        self._silences += 1
        self._progress_at = now
        self.start_over()

    def _patience_seconds(self) -> float:
        return float(min(PATIENCE_SECONDS_MAX, self._resend_seconds * 2 ** min(self._silences, 10)))
