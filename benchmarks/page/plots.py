"""The results as pictures: how far each aim is reached, we beside our peers, what a power cut leaves."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness import shown
from page.aims import AIMS
from page.measured import Outcome, Run
from page.svg import Drawing
from page.tables import of_their_own

WIDTH = 900
LABEL_WIDTH = 430
RIGHT = 90
ROW, TOP, BOTTOM = 22, 58, 34


@dataclass(frozen=True, slots=True)
class Scale:
    """Powers of ten over the width between the labels and the numbers; 1 is always on it."""

    low: int
    high: int

    @classmethod
    def over(cls, values: Sequence[float]) -> "Scale":
        positive = [value for value in values if 0 < value < math.inf]
        return cls(
            math.floor(math.log10(min([*positive, 0.5]))),
            math.ceil(math.log10(max([*positive, 2.0]))),
        )

    def at(self, value: float) -> float:
        share = (math.log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return LABEL_WIDTH + min(1.0, share) * (WIDTH - LABEL_WIDTH - RIGHT)

    def draw(self, drawing: Drawing, bottom: float) -> None:
        for power in range(self.low, self.high + 1):
            x = self.at(10.0**power)
            drawing.line(x, TOP - 8, x, bottom, "mark" if power == 0 else "rule", 1.5 if power == 0 else 1)
            drawing.text(
                x, bottom + 18, shown(10.0**power) if power >= 0 else f"1/{10**-power:,}", "quiet small", "middle"
            )


def pictures(runs: Sequence[Run]) -> dict[str, str]:
    """By file name."""
    drawn = {"aims.svg": aims(runs)}
    for run in runs:
        if run.power_cut:
            drawn["power_cut.svg"] = power_cut(run)
        elif shown_ratios := [outcome for outcome in run.outcomes if outcome.against != "aim"]:
            drawn[f"{run.benchmark}.svg"] = ratios(run.benchmark, shown_ratios)
    return drawn


def aims(runs: Sequence[Run]) -> str:
    aimed = [outcome for outcome in of_their_own(runs) if outcome.name in AIMS]
    reached = {outcome.name: AIMS[outcome.name].reached(outcome) for outcome in aimed}
    scale, height = Scale.over(list(reached.values())), TOP + ROW * len(aimed) + BOTTOM
    drawing = Drawing(WIDTH, height, "How far each aim is reached")
    _head(drawing, "How far each aim is reached", "1 is the aim, more is better, each step is ten times as much")
    scale.draw(drawing, height - BOTTOM)
    for place, outcome in enumerate(aimed):
        y, x, aim = TOP + ROW * place, scale.at(reached[outcome.name]), AIMS[outcome.name]
        is_met = aim.is_met(outcome)
        drawing.text(12, y + 14, outcome.name)
        got = f"{shown(outcome.value)} {outcome.unit}" if aim.unit else f"ratio {shown(outcome.ratio)}"
        drawing.text(LABEL_WIDTH - 12, y + 14, f"{got}, {aim.in_words()}", "quiet small", "end")
        start = scale.at(1.0)
        drawing.box(min(start, x), y + 5, max(3.0, abs(x - start)), 11, "good" if is_met else "bad")
        drawing.text(WIDTH - 12, y + 14, "met" if is_met else "not met", "good" if is_met else "bad", "end")
    return drawing.as_text()


def ratios(benchmark: str, outcomes: Sequence[Outcome]) -> str:
    rows = list(_rows(outcomes))
    spreads = [outcome.times_better(end) for outcome in outcomes for end in (outcome.ratio, *outcome.spread)]
    scale, height = Scale.over(spreads), TOP + ROW * len(rows) + BOTTOM
    title = f"{benchmark}: we beside others in the same run"
    drawing = Drawing(WIDTH, height, title)
    _head(
        drawing,
        title,
        "how many times better we are; right of 1 we are ahead; a line goes from the lowest to the highest round",
    )
    scale.draw(drawing, height - BOTTOM)
    for place, row in enumerate(rows):
        y = TOP + ROW * place
        if isinstance(row, str):
            drawing.text(12, y + 14, row, "word heading")
            continue
        drawing.text(28, y + 14, row.against, "quiet")
        low, high = (scale.at(row.times_better(end)) for end in row.spread)
        drawing.line(low, y + 10, high, y + 10, "ours", 2)
        drawing.dot(scale.at(row.times_better(row.ratio)), y + 10, "ours")
        drawing.text(WIDTH - 12, y + 14, shown(row.times_better(row.ratio)), "word", "end")
    return drawing.as_text()


def _rows(outcomes: Sequence[Outcome]) -> Iterator[str | Outcome]:
    for measured, group in groupby(outcomes, key=lambda outcome: outcome.measures):
        members = list(group)
        yield f"{measured}, {members[0].unit}{', less is better' if members[0].is_better_below else ''}"
        yield from members


def power_cut(run: Run) -> str:
    endings = list(dict.fromkeys(row["ending"] for row in run.power_cut))
    height = TOP + ROW * (len(run.power_cut) + len(endings)) + 12
    title = "What can be read of what was acknowledged"
    drawing = Drawing(WIDTH, height, title)
    _head(
        drawing,
        title,
        "green: readable afterwards; red: lost after it was acknowledged; at the end the share that is readable",
    )
    y, width = TOP, WIDTH - LABEL_WIDTH - RIGHT
    for ending in endings:
        drawing.text(12, y + 14, ending, "word heading")
        y += ROW
        for row in (row for row in run.power_cut if row["ending"] == ending):
            share = row["acknowledged_and_readable"] / row["acknowledged"]
            drawing.text(28, y + 14, row["title"], "quiet")
            drawing.box(LABEL_WIDTH, y + 4, width, 13, "bad" if row["lost"] else "rest")
            drawing.box(LABEL_WIDTH, y + 4, width * share, 13, "good")
            drawing.text(WIDTH - 12, y + 14, "all" if not row["lost"] else f"{share:.1%}", "word", "end")
            y += ROW
    return drawing.as_text()


def _head(drawing: Drawing, title: str, below: str) -> None:
    drawing.text(12, 22, title, "word heading")
    drawing.text(12, 40, below, "quiet small")
