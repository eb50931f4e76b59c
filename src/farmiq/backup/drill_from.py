"""The other drill: a backup that exists already, restored into servers of its own. No service runs on it, so nothing is sent."""

import asyncio
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from farmiq.backup.drill_farm import DrillFarm, drill_environment
from farmiq.backup.drill_report import TARGET_SECONDS, Step, Stopwatch
from farmiq.backup.manifest import Tier, read_manifest, tier_folder, tiers_in
from farmiq.backup.restore import Restored, restore
from farmiq.backup.servers import place_of, servers_only
from farmiq.backup.tiers import Say
from farmiq.backup.verify import verify
from farmiq.stack.home import Home

BUCKETS: dict[Tier, str] = {"edge": "MEDIA_BUCKET", "cloud": "CLOUD_MEDIA_BUCKET"}


class Restorable(Struct, frozen=True, kw_only=True):
    """`problems` is empty for a backup that came back whole. `recovery_seconds` is the time for starting and restoring."""

    has_held: bool
    drilled_at: datetime
    folder: str
    steps: list[Step]
    recovery_seconds: float
    target_seconds: float
    problems: list[str]
    restored: list[Restored]


def drill_from(folder: Path, home: Home, environ: dict[str, str], say: Say) -> Restorable:
    watch, tiers = Stopwatch(say), tiers_in(folder)
    buckets = {BUCKETS[tier]: read_manifest(tier_folder(folder, tier)).objects.bucket for tier in tiers}
    farm = DrillFarm(home, drill_environment(environ, home.path, **buckets))
    with watch.step("reading every byte of the backup"):
        problems = [problem for tier in tiers for problem in asyncio.run(verify(folder, tier, _more(say))).problems]
    began, restored = time.monotonic(), []
    if not problems:
        farm.choose_ports()
        with ExitStack() as servers:
            with watch.step("starting servers of its own"):
                servers.enter_context(servers_only(farm.home, farm.environ))
            for tier in tiers:
                with watch.step(f"restoring the {tier}"):
                    place = place_of(farm.home, tier)
                    restored.append(asyncio.run(restore(place, folder, _more(say), is_verified=True)))
    return Restorable(
        has_held=not problems,
        drilled_at=datetime.now(UTC),
        folder=str(folder),
        steps=watch.steps,
        recovery_seconds=round(time.monotonic() - began, 1),
        target_seconds=TARGET_SECONDS,
        problems=problems,
        restored=restored,
    )


def _more(say: Say) -> Say:
    return lambda text: say(f"  {text}")
