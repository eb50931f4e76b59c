"""Samples that the forwarder has not acknowledged yet: in order, bounded, and counted."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from farmiq.device.handover import ROWS_MAX, NotCaptured, Position, Row, Samples
from farmiq.kit.ids import new_id


@dataclass(slots=True)
class _Loss:
    """What was given up and not told yet. The wall clock may have jumped, so its ends are not those of the rows."""

    count: int = 0
    first_wall_us: int = 0
    last_wall_us: int = 0

    def take(self, rows: Sequence[Row]) -> None:
        times = [row[0] for row in rows] + ([self.first_wall_us, self.last_wall_us] if self.count else [])
        self.first_wall_us, self.last_wall_us = min(times), max(times)
        self.count += len(rows)


class Backlog:
    """The newest matter most to whoever looks at a barn, so the oldest are given up when there is no room.

    `captured + not_captured + len(backlog) == added`, at every moment.
    """

    def __init__(self, samples_max: int, make_id: Callable[[], UUID] = new_id) -> None:
        self._samples_max = samples_max
        self._make_id = make_id
        self._waiting: deque[Row] = deque()
        self._last = Position(-1, 0)
        self._loss = _Loss()
        self._offered: Samples | NotCaptured | None = None
        self._number = 0
        self.news = asyncio.Event()
        self.added = 0
        self.captured = 0
        self.not_captured = 0

    def __len__(self) -> int:
        return len(self._waiting) + (len(self._offered.rows) if isinstance(self._offered, Samples) else 0)

    @property
    def untold(self) -> int:
        """How many of those not captured the forwarder has not declared yet."""
        return self._loss.count + (self._offered.count if isinstance(self._offered, NotCaptured) else 0)

    @property
    def is_losing(self) -> bool:
        """Something was given up of which nothing has been said yet."""
        return self._loss.count > 0

    @property
    def is_told(self) -> bool:
        return len(self) == 0 and self.untold == 0

    def add(self, rows: Sequence[Row]) -> int:
        """Take samples that were read together; answers how many of the oldest had to be given up."""
        if not rows:
            return 0
        self._waiting.extend(self._in_order(rows))
        self.added += len(rows)
        # What is with the forwarder already may be on its disk: only what was never offered can be said not to be captured.
        dropped = min(max(0, len(self) - self._samples_max), len(self._waiting))
        if dropped:
            self._give_up([self._waiting.popleft() for _ in range(dropped)])
        self.news.set()
        return dropped

    def offer(self) -> Samples | NotCaptured | None:
        """What to send now: what was offered before and never answered, else what comes next. What was given up stood before
        everything that waits, so it is told first; and once it has a name it grows no more."""
        if self._offered is None and self._loss.count:
            loss, self._loss = self._loss, _Loss()
            self._number += 1
            times = (loss.first_wall_us, loss.last_wall_us)
            self._offered = NotCaptured(self._number, self._make_id(), loss.count, *times)
        elif self._offered is None and self._waiting:
            self._number += 1
            count = min(ROWS_MAX, len(self._waiting))
            self._offered = Samples(self._number, [self._waiting.popleft() for _ in range(count)])
        return self._offered

    def stored(self, number: int) -> bool:
        """The forwarder has synced what was offered. False when it speaks of something else."""
        if self._offered is None or self._offered.number != number:
            return False
        if isinstance(self._offered, Samples):
            self.captured += len(self._offered.rows)
        self._offered = None
        return True

    def resume_after(self, last: Position | None) -> None:
        """What the forwarder says it holds counts as captured, although its answer never came."""
        if not isinstance(self._offered, Samples) or last is None:
            return
        kept = [row for row in self._offered.rows if Position(row[1], row[2]) > last]
        self.captured += len(self._offered.rows) - len(kept)
        self._offered = Samples(self._offered.number, kept) if kept else None

    def give_up(self) -> int:
        """The forwarder will never take what was offered, and it must not stand before everything else for ever."""
        offered, self._offered = self._offered, None
        if isinstance(offered, Samples):
            self._give_up(offered.rows)
            return len(offered.rows)
        return offered.count if offered else 0

    def _give_up(self, rows: Sequence[Row]) -> None:
        self.not_captured += len(rows)
        self._loss.take(rows)

    def _in_order(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The forwarder tells samples apart by their place, so no two may share one: devices that were read in the same
        microsecond are set apart by the least that the clock can tell."""
        first = Position(rows[0][1], rows[0][2])
        if first <= self._last:
            later_us = self._last.monotonic_us + 1 - first.monotonic_us
            rows = [(row[0], row[1] + later_us, *row[2:]) for row in rows]
        self._last = Position(rows[-1][1], rows[-1][2])
        return rows
