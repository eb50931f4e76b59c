"""What is given up when there is no more room. The beginning and the end of a session go last: they are what makes the rest of
it mean something."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from msgspec import Struct

from farmiq.contracts import event_types

CRITICAL: Final = frozenset({event_types.SESSION_CREATED, event_types.SESSION_FINALIZED, event_types.SESSION_CANCELLED})

PictureState = Literal["waiting", "presigned", "uploaded", "acked", "failed"]

# Those that the edge has, or that were declared before, cost nothing; of those that it has acknowledged and not verified, it
# declares what it turns out not to have. A session's picture is missed, a scheduled one hardly.
_GIVEN_UP_FIRST: Final[dict[PictureState, int]] = {"failed": 1, "uploaded": 2, "acked": 2, "waiting": 3, "presigned": 3}
_IS_LOSS: Final = frozenset({"waiting", "presigned"})


class Limits(Struct, frozen=True, kw_only=True):
    events_max: int
    age_max: timedelta
    pictures_bytes_max: int
    keep_free_bytes: int
    keep_acked: timedelta
    attempts_max: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that the edge has not acknowledged, in as many words as the decision needs."""

    number: int
    ts_us: int
    since_us: int
    is_critical: bool


@dataclass(frozen=True, slots=True)
class Held:
    """A picture whose bytes are on this disk."""

    picture_id: str
    state: PictureState
    captured_us: int
    size_bytes: int
    is_of_session: bool
    is_verified: bool = False
    """The edge has read it back."""

    @property
    def is_loss(self) -> bool:
        """Given up now, nobody else has it and nobody has been told."""
        return self.state in _IS_LOSS

    @property
    def order(self) -> tuple[int, bool, int]:
        """Who goes first."""
        return 0 if self.is_verified else _GIVEN_UP_FIRST[self.state], self.is_of_session, self.captured_us


def too_many(waiting: Sequence[Waiting], events_max: int) -> list[int]:
    """Which events go, so that at most `events_max` stay: the oldest of those that are not critical, and critical ones only
    when nothing else is left."""
    excess = len(waiting) - events_max
    if excess <= 0:
        return []
    order = sorted(waiting, key=lambda one: (one.is_critical, one.ts_us, one.number))
    return [one.number for one in order[:excess]]


def too_old(waiting: Sequence[Waiting], oldest_us: int) -> list[int]:
    """Critical events have no age: there are few of them, and they are small. What the others say of their own time is not
    asked: a clock that jumps makes nothing old."""
    return [one.number for one in waiting if not one.is_critical and one.since_us < oldest_us]


def to_make_room(held: Sequence[Held], excess_bytes: int) -> list[Held]:
    """Pictures to give up until `excess_bytes` are free, the least missed first, the oldest of them first. When even all of them
    are not enough, only those that the edge has: nothing is lost in vain."""
    if sum(one.size_bytes for one in held) < excess_bytes:
        return [one for one in held if one.is_verified]
    going: list[Held] = []
    for one in sorted(held, key=lambda one: one.order):
        if excess_bytes <= 0:
            break
        excess_bytes -= one.size_bytes
        going.append(one)
    return going
