"""What a drill has shown, step by step."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec import Struct

from farmiq.backup.drill_ledger import Missing
from farmiq.backup.manifest import Tier
from farmiq.backup.restore import Restored
from farmiq.backup.tiers import Say

TARGET_SECONDS: Final = 5.4 * 3600
"""The recovery time that the document asks for."""


class Step(Struct, frozen=True):
    name: str
    seconds: float


class Drilled(Struct, frozen=True, kw_only=True):
    """`lacking` is what the restored tiers did not have when they came back; `missing`, what is gone for good: at the end neither
    tier had it. `recovery_seconds` runs from the disaster until nothing was missing."""

    has_held: bool
    drilled_at: datetime
    lost_tiers: list[Tier]
    steps: list[Step]
    recovery_seconds: float
    target_seconds: float
    captured: int
    declared_lost: int
    sessions: int
    pictures: int
    lacking: list[Missing]
    missing: list[Missing]
    problems: list[str]
    audit: str
    restored: list[Restored]


@dataclass
class Stopwatch:
    say: Say
    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.say(name)
        began = time.monotonic()
        yield
        self.steps.append(Step(name, round(time.monotonic() - began, 1)))
        self.say(f"  {self.steps[-1].seconds:.1f} s")
