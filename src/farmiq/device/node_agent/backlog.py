"""Samples that the forwarder has not acknowledged yet: in order, bounded, and counted."""

import asyncio
from collections import deque
from collections.abc import Sequence

from farmiq.device.handover import ROWS_MAX, Position, Row, Samples


class Backlog:
    """The newest matter most to whoever looks at a barn, so the oldest are given up when there is no room."""

    def __init__(self, samples_max: int) -> None:
        self._samples_max = samples_max
        self._waiting: deque[Row] = deque()
        self._offered: Samples | None = None
        self._number = 0
        self.filled = asyncio.Event()
        self.captured = 0
        self.not_captured = 0

    def __len__(self) -> int:
        return len(self._waiting) + (len(self._offered.rows) if self._offered else 0)

    def add(self, rows: Sequence[Row]) -> int:
        """Take samples; answers how many of the oldest had to be given up."""
        self._waiting.extend(rows)
        dropped = max(0, len(self) - self._samples_max)
        # What is with the forwarder already may be on its disk: only what was never offered can be said not to be captured.
        dropped = min(dropped, len(self._waiting))
        for _ in range(dropped):
            self._waiting.popleft()
        self.not_captured += dropped
        self.filled.set()
        return dropped

    def offer(self) -> Samples | None:
        """What to send now: what was offered before and never answered, else the next ones."""
        if self._offered is None and self._waiting:
            self._number += 1
            count = min(ROWS_MAX, len(self._waiting))
            rows = [self._waiting.popleft() for _ in range(count)]
            self._offered = Samples(self._number, rows, self.not_captured)
        if self._offered is None:
            self.filled.clear()
        return self._offered

    def stored(self, number: int) -> bool:
        """The forwarder has synced the offered samples. False when it speaks of others."""
        if self._offered is None or self._offered.number != number:
            return False
        self.captured += len(self._offered.rows)
        self._offered = None
        return True

    def resume_after(self, last: Position | None) -> None:
        """What the forwarder says it holds counts as captured, although its answer never came."""
        if self._offered is None or last is None:
            return
        kept = [row for row in self._offered.rows if Position(row[1], row[2]) > last]
        self.captured += len(self._offered.rows) - len(kept)
        self._offered = Samples(self._offered.number, kept, self.not_captured) if kept else None

    def give_up(self) -> int:
        """The forwarder will never take what was offered: count it, or it would stand before everything else for ever."""
        count = len(self._offered.rows) if self._offered else 0
        self.not_captured += count
        self._offered = None
        return count
