"""`farmiq backup drill`, behind the words: a scratch home, one of the two drills in it, and what it has shown."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from farmiq.backup.drill import Drill
from farmiq.backup.drill_farm import DrillFarm, drill_environment
from farmiq.backup.drill_from import Restorable, drill_from
from farmiq.backup.drill_ledger import Missing
from farmiq.backup.drill_report import Drilled, Step
from farmiq.backup.manifest import Tier
from farmiq.backup.tiers import Say
from farmiq.cli.tables import duration
from farmiq.cli.terminal import say
from farmiq.kit import logging
from farmiq.stack import control
from farmiq.stack.home import Home
from farmiq.stack.private_files import remove

NAMED_MAX = 20


def run_drill(
    tiers: Sequence[Tier], source: Path | None, *, seconds: float, patience_seconds: float, is_kept: bool, tell: Say
) -> Drilled | Restorable:
    """Whatever happens, what was started is ended; what was made goes, unless it is to be looked at."""
    logging.configure("ERROR")
    scratch = Path(tempfile.mkdtemp(prefix="farmiq-drill-"))
    home = Home(scratch / "home")
    try:
        if source is not None:
            return drill_from(source.absolute(), home, dict(os.environ), tell)
        farm = DrillFarm(home, drill_environment(os.environ, home.path))
        return Drill(farm, scratch / "backup", tiers, seconds, patience_seconds, tell).run()
    finally:
        control.stop(home)
        if is_kept:
            tell(f"What was made is in {scratch}")
        else:
            remove([scratch])


def show_steps(steps: Sequence[Step], recovery_seconds: float, target_seconds: float) -> None:
    width = max(len(step.name) for step in steps)
    say()
    for step in steps:
        say(f"{step.name:<{width}}  {step.seconds:7.1f} s")
    say(f"{'recovery':<{width}}  {recovery_seconds:7.1f} s, where {duration(target_seconds)} are allowed")
    say()


def show_drill(drilled: Drilled) -> None:
    show_steps(drilled.steps, drilled.recovery_seconds, drilled.target_seconds)
    say(
        f"before: {drilled.captured} samples captured, {drilled.sessions} weighings, {drilled.pictures} pictures; "
        f"{drilled.declared_lost} samples declared lost"
    )
    for one in drilled.lacking:
        say(f"the {one.tier}, right after its restore, lacked {_in_words(one)}")
    for one in drilled.missing:
        gone = "nothing is gone" if one.is_nothing else f"gone for good: {_in_words(one)}"
        twice = f", {one.pictures_twice} pictures are there twice" if one.pictures_twice else ""
        say(f"the {one.tier}, at the end: {gone}, {one.rows_twice} samples are there twice{twice}")
        for name in [*one.sessions[:NAMED_MAX], *one.pictures[:NAMED_MAX]]:
            say(f"  {name}")
    for problem in drilled.problems:
        say(f"the backup: {problem}")
    say(f"the audit: {drilled.audit}")
    say("It has held." if drilled.has_held else "It has not held.")


def show_restorable(found: Restorable) -> None:
    show_steps(found.steps, found.recovery_seconds, found.target_seconds)
    for restored in found.restored:
        say(f"{restored.tier}: {restored.rows} rows and {restored.pictures.stored} pictures came back")
        for kind, count in restored.repaired.items():
            say(f"  {kind.replace('_', ' ')}: {count}")
    for problem in found.problems:
        say(f"  {problem}")
    say("It has held." if found.has_held else "It has not held.")


def _in_words(missing: Missing) -> str:
    samples = sum(missing.samples.values())
    return f"{samples} samples, {len(missing.sessions)} weighings, {len(missing.pictures)} pictures"
