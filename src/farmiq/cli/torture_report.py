"""What a campaign says of itself: a line now and then while it runs, and the verdict at its end."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from farmiq.torture.campaign import Result, Standing
from farmiq.torture.judge import WRONG, Tally

LINE_SECONDS = 10.0


class Lines:
    """One when something else begins, and one every few seconds."""

    def __init__(self, say: Callable[[str], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._monotonic = monotonic
        self._phase = ""
        self._said_at = monotonic()

    def __call__(self, standing: Standing) -> None:
        now = self._monotonic()
        if standing.phase == self._phase and now - self._said_at < LINE_SECONDS:
            return
        self._phase, self._said_at = standing.phase, now
        self._say(line_of(standing))


def line_of(standing: Standing) -> str:
    progress = standing.progress
    taken, stored = sum(progress.taken.values()), sum(progress.stored.values())
    line = (
        f"{standing.phase}: {standing.inflicted + standing.passed_over} of {standing.planned} faults · {taken:,} samples taken, "
        f"{stored:,} accepted · {progress.heard:,} of {progress.said:,} events acknowledged · {progress.sessions} weighings"
    )
    return f"{line} · now: {', '.join(standing.under_way[:4])}" if standing.under_way else line


def as_text(result: Result) -> str:
    found = result.recovery
    lines = [
        f"seed {result.seed}: {sum(result.inflicted.values()):,} faults in {result.seconds:g} s"
        + (f", {result.passed_over} passed over because their target did not run" if result.passed_over else ""),
        "  " + " · ".join(f"{kind} {count}" for kind, count in result.inflicted.most_common()),
        *(f"  left out: {reason}" for reason in result.left_out),
        *(_tally_line(name, tally) for name, tally in result.tallies.items()),
        f"sent again on purpose: {result.repeated:,} messages",
        f"PUBACKed by the broker and not acknowledged by the edge in time, so sent again: {result.pubacked_only:,} events",
        f"after healing: all healthy after {_seconds(found.healthy_seconds)}",
        f"  a fresh sample of every node in the cloud after {_seconds(found.fresh_seconds)}",
        f"  everything in the cloud {_seconds(found.drained_seconds)} after the last was accepted",
        f"audit: {result.audit}",
        *(f"  left: {text}" for text in found.left),
        *(f"  stuck: {text}" for text in found.stuck),
    ]
    if not result.is_all_acknowledged:
        lines.append("  not everything that was offered was acknowledged in time")
    lines += [f"  {example}" for tally in result.tallies.values() for example in tally.examples]
    lines.append("passed" if result.has_passed else "FAILED")
    return "\n".join(lines)


def as_data(result: Result) -> dict[str, Any]:
    """The judgement of the cloud stands at the top, that of the edge under its name."""
    data: dict[str, Any] = dataclasses.asdict(result)
    of_cloud: dict[str, Any] = data.pop("cloud")
    sums = {
        "faults": sum(result.inflicted.values()),
        "inflicted": dict(result.inflicted),
        "passed": result.has_passed,
    }
    return data | of_cloud | sums


def _tally_line(name: str, tally: Tally) -> str:
    gone = f" + gone with a disk {tally.gone:,}" if tally.gone else ""
    return (
        f"{name}: accepted {tally.accepted:,} = stored {tally.stored:,} + declared lost {tally.declared_lost:,}{gone} · "
        + " · ".join(f"{name.replace('_', ' ')} {getattr(tally, name):,}" for name in WRONG)
    )


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
