"""The wall clock of all services of a tier, moved and put right again.

Every Python process that `farmiq up` starts of this farm calls `install` before anything else. A service takes the time from
`Clock` and from nowhere else, so that is where it is moved. Monotonic clocks go on, and so do the servers': PostgreSQL, RabbitMQ,
Mosquitto and the object store keep the right time."""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from farmiq.contracts.services import SERVICES
from farmiq.kit.clock import Clock

VARIABLE: Final = "FARMIQ_TORTURE_CLOCKS"
TIERS: Final = ("edge", "cloud")
_START: Final = "from farmiq.torture.clocks import install\n\ninstall()\n"


class TierClocks:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def environment(self) -> dict[str, str]:
        """For the supervisor, which hands it on to the services. The clocks are right until `move` is called."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for tier in TIERS:
            self.move(tier, 0.0)
        (self._folder / "sitecustomize.py").write_text(_START, encoding="utf-8")
        return {"PYTHONPATH": str(self._folder), VARIABLE: str(self._folder)}

    def move(self, tier: str, seconds: float) -> None:
        """In one step: who reads it sees the old time or the new one."""
        new = self._folder / f"{tier}.new"
        new.write_text(repr(seconds), encoding="ascii")
        new.replace(self._folder / tier)


def install() -> None:
    """In a process of `farmiq run SERVICE`, and in no other."""
    tiers = {service.name: service.tier for service in SERVICES}
    tier = tiers.get(sys.orig_argv[-1]) if "run" in sys.orig_argv else None
    if tier in TIERS:
        file = Path(os.environ[VARIABLE]) / tier

        def now(self: Clock) -> datetime:  # noqa: ARG001 - it takes the place of a method
            return datetime.now(UTC) + timedelta(seconds=float(file.read_text(encoding="ascii")))

        Clock.now = now  # type: ignore[method-assign]  # the one place from which a service has the time
