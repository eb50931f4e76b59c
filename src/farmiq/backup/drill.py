"""The drill: a farm of its own loses its disks and comes back from a backup, and a ledger from before says what is missing.

The time that counts runs from the disaster until both tiers hold again whatever any device or tier had before it.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

from farmiq.backup import frozen
from farmiq.backup.create import create
from farmiq.backup.drill_farm import DrillFarm
from farmiq.backup.drill_ledger import Ledger, TierSum, ledger_of, missing_from, sum_up
from farmiq.backup.drill_report import TARGET_SECONDS, Drilled, Stopwatch
from farmiq.backup.errors import BackupError
from farmiq.backup.manifest import Tier
from farmiq.backup.restore import Restored, restore
from farmiq.backup.servers import place_of, servers_only
from farmiq.backup.tiers import Say
from farmiq.backup.verify import verify
from farmiq.spool.inspection import inspect
from farmiq.stack.demo_farm import DEVICE_ID

LOOK_SECONDS: Final = 1.0
SAMPLES_MIN: Final = 20
TIERS: Final[tuple[Tier, ...]] = ("edge", "cloud")
BALANCED: Final = "balanced"


class NothingMeasured(BackupError):
    """The farm of the drill runs, and no sample has reached its cloud. So there is nothing to lose and nothing to prove."""


@dataclass(frozen=True)
class Drill:
    """`traffic_seconds` of measurements before the backup, and as many after it."""

    farm: DrillFarm
    folder: Path
    lost_tiers: Sequence[Tier]
    traffic_seconds: float
    patience_seconds: float
    say: Say

    def run(self) -> Drilled:
        watch = Stopwatch(self.say)
        with watch.step("starting a farm of its own"):
            self.farm.choose_ports()
            self.farm.start()
        with watch.step("measuring"):
            self._measure()
        with watch.step("backing up both tiers while they work"):
            for tier in TIERS:
                asyncio.run(create(place_of(self.farm.home, tier), self.folder, self._say_more))
        with watch.step("verifying the backup"):
            problems = [problem for tier in TIERS for problem in self._verify(tier)]
        with watch.step("measuring on"):
            held = self._measure()
        with watch.step("stopping the farm"):
            self.farm.stop()
        return self._recover(watch, ledger_of(self._captured(), held), problems)

    def _recover(self, watch: Stopwatch, ledger: Ledger, problems: list[str]) -> Drilled:
        began = time.monotonic()
        with ExitStack() as servers:
            with watch.step(f"losing every disk of the {' and the '.join(self.lost_tiers)}, and starting the servers"):
                self._lose(servers)
            restored = [self._restore(watch, tier) for tier in self.lost_tiers]
            lacking = [missing_from(ledger, self._sum(tier, ledger.captured)) for tier in self.lost_tiers]
        with watch.step("starting the farm again"):
            self.farm.start()
        with watch.step("waiting until devices and edge have sent again what was lacking"):
            found = self._wait_until_whole(ledger)
        recovery_seconds = time.monotonic() - began
        with watch.step("asking the audit"):
            audit = self._audit()
        missing = [missing_from(ledger, tier) for tier in found]
        return Drilled(
            has_held=not problems and all(one.is_nothing for one in missing) and audit == BALANCED,
            drilled_at=datetime.now(UTC),
            lost_tiers=list(self.lost_tiers),
            steps=watch.steps,
            recovery_seconds=round(recovery_seconds, 1),
            target_seconds=TARGET_SECONDS,
            captured=sum(ledger.captured.values()),
            declared_lost=max(tier.lost for tier in found),
            sessions=len(ledger.sessions),
            pictures=len(ledger.pictures),
            lacking=lacking,
            missing=missing,
            problems=problems,
            audit=audit,
            restored=restored,
        )

    def _lose(self, servers: ExitStack) -> None:
        """Both tiers: the servers' folders. One of them: its rows and its pictures, and the bus if it is the cloud."""
        is_everything = set(self.lost_tiers) == set(TIERS)
        if is_everything:
            self.farm.lose_disks()
        elif "cloud" in self.lost_tiers:
            self.farm.lose_bus()
        servers.enter_context(servers_only(self.farm.home, self.farm.environ))
        if not is_everything:
            for tier in self.lost_tiers:
                asyncio.run(self.farm.lose_tier(tier, self._say_more))

    def _restore(self, watch: Stopwatch, tier: Tier) -> Restored:
        with watch.step(f"restoring the {tier}"):
            return asyncio.run(restore(place_of(self.farm.home, tier), self.folder, self._say_more))

    def _verify(self, tier: Tier) -> list[str]:
        return asyncio.run(verify(self.folder, tier, self._say_more, is_deep=True)).problems

    def _measure(self) -> list[TierSum]:
        """Until the time is over and the cloud has new samples. What both tiers hold then."""
        before = self._sum("cloud", self._captured()).samples
        began = time.monotonic()
        while True:
            time.sleep(LOOK_SECONDS)
            captured = self._captured()
            passed = time.monotonic() - began
            now = self._sum("cloud", captured)
            if passed >= self.traffic_seconds and now.samples >= before + SAMPLES_MIN:
                self._say_more(f"{now.samples} samples and {len(now.sessions)} weighings in the cloud")
                return [self._sum("edge", captured), now]
            if passed > self.traffic_seconds + self.patience_seconds:
                raise NothingMeasured(f"{now.samples} samples after {passed:.0f} s", fix="farmiq doctor")

    def _wait_until_whole(self, ledger: Ledger) -> list[TierSum]:
        """Returns what is there when nothing is missing, or when patience is over."""
        deadline = time.monotonic() + self.patience_seconds
        while True:
            found = [self._sum(tier, ledger.captured) for tier in TIERS]
            missing = [missing_from(ledger, tier) for tier in found]
            if all(one.is_nothing for one in missing) or time.monotonic() > deadline:
                return found
            time.sleep(LOOK_SECONDS)

    def _audit(self) -> str:
        """`balanced`, or what it says instead. Asked for as long as it takes for what is under way to arrive."""
        deadline = time.monotonic() + self.patience_seconds
        while True:
            told = subprocess.run(
                [sys.executable, "-P", "-m", "farmiq.cli", "audit"],
                env=dict(self.farm.environ),
                capture_output=True,
                text=True,
                check=False,
            )
            if told.returncode == 0:
                return BALANCED
            if time.monotonic() > deadline:
                return (told.stdout + told.stderr).strip()
            time.sleep(LOOK_SECONDS)

    def _captured(self) -> dict[UUID, int]:
        """The node's own word: what is synced on its disk."""
        view = inspect(self.farm.home.spool_folder(DEVICE_ID))
        return {} if view.stream_id is None else {view.stream_id: view.synced_seq}

    def _sum(self, tier: Tier, captured: Mapping[UUID, int]) -> TierSum:
        return asyncio.run(_sum_up(place_of(self.farm.home, tier).database_url, tier, captured))

    def _say_more(self, text: str) -> None:
        self.say(f"  {text}")


async def _sum_up(url: str, tier: Tier, captured: Mapping[UUID, int]) -> TierSum:
    async with frozen.connected(url) as connection:
        return await sum_up(connection, tier, captured)
