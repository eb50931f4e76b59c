"""The results in Markdown."""

from collections.abc import Iterable, Iterator, Sequence

from harness import shown
from page.aims import AIMS
from page.measured import Outcome, Run

_IS_TEXT = {"Result", "Against", "Aim", "Met", "Note", "Store", "Acknowledged when this returned", "Run", "Commit"}


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rule = ["---" if heading in _IS_TEXT else "---:" for heading in headings]
    return [f"| {' | '.join(row)} |" for row in (headings, rule, *rows)]


def ratios(runs: Sequence[Run]) -> list[str]:
    headings = ("Result", "Against", "Ratio (lowest to highest)", "Ours", "Theirs", "Aim", "Met", "Note")
    return table(headings, (_row(outcome) for outcome in of_their_own(runs)))


def of_their_own(runs: Sequence[Run]) -> Iterator[Outcome]:
    """Each measured thing once, beside what it is measured by. The stores after a power cut have a table of their own."""
    for run in runs:
        for outcome in run.outcomes:
            if not outcome.is_beside_a_peer and (outcome.name in AIMS or not run.power_cut):
                yield outcome


def _row(outcome: Outcome) -> list[str]:
    aim = AIMS.get(outcome.name)
    return [
        f"`{outcome.name}`", outcome.against, ratio(outcome), f"{shown(outcome.value)} {outcome.unit}",
        shown(outcome.against_value), aim.in_words() if aim else "", _met(outcome), note(outcome),
    ]  # fmt: skip


def _met(outcome: Outcome) -> str:
    if outcome.name not in AIMS:
        return ""
    return "met" if AIMS[outcome.name].is_met(outcome) else "**not met**"


def ratio(outcome: Outcome) -> str:
    """The spread only where there is one."""
    low, high = outcome.spread
    spread = f" ({shown(low)} to {shown(high)})" if outcome.rounds > 1 else ""
    return f"**{shown(outcome.ratio)}**{spread}"


def note(outcome: Outcome) -> str:
    return ". ".join(filter(None, ["less is better" if outcome.is_better_below else "", outcome.note]))


def beside_peers(runs: Sequence[Run]) -> list[str]:
    """Only what has peers. Beside each stands our value of the rounds that it took part in."""
    rows = []
    for run in runs:
        measured = ""
        for outcome in run.outcomes:
            if outcome.is_beside_a_peer:
                name = "" if outcome.measures == measured else f"`{outcome.measures}`"
                measured = outcome.measures
                ours = f"{shown(outcome.value)} {outcome.unit}"
                rows.append([name, outcome.against, ratio(outcome), ours, shown(outcome.against_value), note(outcome)])
    return table(("Result", "Against", "Ratio (lowest to highest)", "Ours", "Theirs", "Note"), rows) if rows else []


def power_cuts(run: Run, ending: str) -> list[str]:
    headings = (
        "Store", "Acknowledged when this returned", "Cuts", "Written", "Acknowledged", "Readable", "Lost after ack",
        "Twice", "Unreadable stores", "Stores that don't go on",
    )  # fmt: skip
    rows = [
        [
            row["title"], row["promise"], *(f"{row[name]:,}" for name in ("cuts", "written", "acknowledged", "readable")),
            f"**{row['lost']:,}**", *(f"{row[name]:,}" for name in ("twice", "cuts_unreadable", "cuts_that_end_it")),
        ]
        for row in run.power_cut
        if row["ending"] == ending
    ]  # fmt: skip
    return table(headings, rows)


def origins(runs: Sequence[Run]) -> list[str]:
    rows = [
        [
            f"`{run.command}`", run.commit, run.measured_at, f"{run.seconds:,.0f} s",
            f"{run.machine['load_at_start']}", f"{run.machine['fdatasync_ms']} ms",
        ]
        for run in runs
    ]  # fmt: skip
    return table(("Run", "Commit", "Begun (UTC)", "Took", "Load at start", "fdatasync of 4 kB"), rows)
