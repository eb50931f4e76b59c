"""The one source of chance, and its way into code that asks the machine for some."""

import random
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

import structlog

from simulation.process import PROCESS


class Chance(random.Random):
    def happens(self, share: float) -> bool:
        return self.random() < share

    def seconds(self, low: float, high: float) -> float:
        """Mostly near the lower end, now and then near the upper one: how long things take."""
        return float(low * (high / low) ** (self.random() ** 3))

    def new_id(self, now: float) -> UUID:
        """As a UUID v7: ordered by time."""
        return UUID(int=(round(now * 1000) << 80) | (7 << 76) | (2 << 62) | self.getrandbits(62))


class Line(NamedTuple):
    """One event of a run."""

    at: float
    process: str
    event: str
    details: dict[str, Any]

    def __str__(self) -> str:
        words = " ".join(f"{name}={_shown(value)}" for name, value in self.details.items())
        return f"{self.at:10.3f}  {self.process:<12} {self.event:<28} {words}"


class Trace:
    def __init__(self, now: Callable[[], float]) -> None:
        self.lines: list[Line] = []
        self._now = now

    def note(self, event: str, **details: Any) -> None:
        process = PROCESS.get()
        self.lines.append(Line(self._now(), process.name if process else "-", event, details))

    def take(self, _logger: Any, _level: str, said: MutableMapping[str, Any]) -> str:
        details = {name: value for name, value in said.items() if name not in ("event", "exc_info")}
        self.note(str(said["event"]), **details)
        raise structlog.DropEvent


@contextmanager
def drawn_from(chance: Chance, trace: Trace, now: Callable[[], float]) -> Iterator[None]:
    """Ids, jitter and trace ids come from the seed, and the services' log lines go into the trace."""
    before = structlog.get_config()
    structlog.configure(
        processors=[trace.take],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.PrintLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    seeded = SimpleNamespace(Random=lambda: random.Random(chance.getrandbits(32)))
    tokens = SimpleNamespace(token_hex=lambda count: f"{chance.getrandbits(8 * count):0{2 * count}x}")
    try:
        with (
            patch("uuid_utils.compat.uuid7", lambda: chance.new_id(now())),
            patch("farmiq.kit.ids.secrets", tokens),
            patch("farmiq.kit.retry.random", seeded),
        ):
            yield
    finally:
        structlog.configure(**before)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
