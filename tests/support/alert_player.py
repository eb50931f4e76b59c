"""Plays the examples of the alert rules through the evaluator, step by step, as a scraper would have seen them."""

import re
from collections import defaultdict
from collections.abc import Iterator

from farmiq.alerting.alert import Labels
from farmiq.alerting.evaluation import Evaluated, Moment, evaluate
from farmiq.alerting.examples import STEP_SECONDS, Example, Runs
from farmiq.alerting.history import History, Sample
from farmiq.alerting.rules import RULES, longest_window_seconds

_SERIES = re.compile(r"(?P<metric>[a-z_]+)\{(?P<labels>.*)\}")
_LABEL = re.compile(r'([a-z_]+)="([^"]*)"')


class Played:
    """One series of an example."""

    def __init__(self, text: str, runs: Runs) -> None:
        found = _SERIES.fullmatch(text)
        assert found is not None, text
        self.metric = found["metric"]
        self.labels: Labels = tuple(sorted(_LABEL.findall(found["labels"])))
        self._values = [value for value, times in runs for _ in range(times)]

    @property
    def target(self) -> Labels:
        return tuple(pair for pair in self.labels if pair[0] in {"job", "instance"})

    def at(self, step: int) -> float | None:
        return self._values[step] if step < len(self._values) else None

    def __len__(self) -> int:
        return len(self._values)


def play(example: Example) -> Iterator[tuple[float, Evaluated]]:
    """Each step's time with what is wrong then."""
    series = [Played(text, runs) for text, runs in example.series.items()]
    history = History(longest_window_seconds())
    evaluated, last_at = Evaluated({}, [], frozenset()), None
    for step in range(max(map(len, series))):
        at = float(step * STEP_SECONDS)
        for target, samples in _scraped(series, step).items():
            history.add(str(target), at, samples, target)
        evaluated = evaluate(RULES, history, Moment(at, at), evaluated.since, last_at)
        last_at = at
        yield at, evaluated


def raised(evaluated: Evaluated, rule: str, at: float) -> set[tuple[str, Labels]]:
    """Every level that is reached for long enough, as Prometheus tells them."""
    levels = {level.severity: level for known in RULES if known.name == rule for level in known.levels}
    return {
        (wrong.severity, wrong.cause.labels)
        for wrong, since in evaluated.since.items()
        if wrong.cause.rule == rule and at - since >= levels[wrong.severity].for_seconds
    }


def _scraped(series: list[Played], step: int) -> dict[Labels, list[Sample] | None]:
    shown: dict[Labels, list[Sample] | None] = defaultdict(list)
    for one in series:
        value = one.at(step)
        if one.metric == "up":
            if value == 0:
                shown[one.target] = None
            elif value == 1:
                shown[one.target] = shown[one.target] or []
    for one in series:
        value, samples = one.at(step), shown[one.target]
        if one.metric != "up" and value is not None and samples is not None:
            samples.append(Sample(one.metric, one.labels, value))
    return shown
