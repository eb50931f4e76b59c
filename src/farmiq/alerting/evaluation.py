"""From samples over time to what is wrong. Pure: the history and the time are given, the state goes in and comes out."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct

from farmiq.alerting.alert import Cause, Labels, Severity
from farmiq.alerting.expressions import Absent, Age, Expression, How, Increase, Latest, metrics_of
from farmiq.alerting.history import UP, History, Point
from farmiq.alerting.rules import Level, Rule

_AGGREGATE: Final[Mapping[How, Callable[[Iterable[float]], float]]] = {"max": max, "min": min, "sum": sum}


class Wrong(NamedTuple):
    """One level of one rule, for one set of labels."""

    cause: Cause
    severity: Severity


Since = Mapping[Wrong, float]
"""When each of them began. What has only begun is not an alert yet."""


class Firing(Struct, frozen=True):
    """A cause that has lasted for as long as its rule says, at the worst level that has."""

    cause: Cause
    severity: Severity
    value: float
    has_grown: bool
    """It counts something, and has counted more since the last look."""


class Evaluated(Struct, frozen=True):
    since: dict[Wrong, float]
    firing: list[Firing]
    unknown: frozenset[str]
    """Rules whose metrics nobody shows just now. Nothing can be said about them, also not that all is well."""

    @property
    def wrong(self) -> set[Cause]:
        """Whether or not it has lasted long enough."""
        return {wrong.cause for wrong in self.since}


class Moment(NamedTuple):
    """Windows and durations go by a clock that nobody can set; the metrics' own times by the one on the wall."""

    at: float
    wall_seconds: float


def evaluate(
    rules: Sequence[Rule], history: History, now: Moment, since: Since, last_looked_at: float | None
) -> Evaluated:
    """`since` is that of the evaluation before."""
    at = now.at
    began: dict[Wrong, float] = {}
    firing: list[Firing] = []
    unknown: set[str] = set()
    for rule in rules:
        if not all(map(history.is_known, metrics_of(rule.expression))):
            unknown.add(rule.name)
        for labels, value in values_of(rule.expression, history, now).items():
            cause = Cause(rule.name, labels)
            reached = [level for level in rule.levels if rule.is_wrong(value, level)]
            began |= {Wrong(cause, level.severity): since.get(Wrong(cause, level.severity), at) for level in reached}
            lasted = [level for level in reached if _has_lasted(level, began[Wrong(cause, level.severity)], at)]
            if lasted:
                has_grown = _has_grown(rule.expression, history, labels, last_looked_at)
                firing.append(Firing(cause, lasted[-1].severity, value, has_grown))
    return Evaluated(began, firing, frozenset(unknown))


def values_of(expression: Expression, history: History, now: Moment) -> dict[Labels, float]:
    """What the expression gives now, for each set of the labels that it keeps."""
    match expression:
        case Latest(metric=metric, how=how, by=by, where=where):
            shown = [(sample.labels, sample.value) for sample in history.latest(metric, where)]
            return _aggregated(shown, how, by)
        case Increase(how=how, by=by):
            return _aggregated(_increases(expression, history, now.at - expression.window_seconds), how, by)
        case Age(metric=metric, by=by, where=where):
            shown = [(sample.labels, sample.value) for sample in history.latest(metric, where)]
            return {labels: now.wall_seconds - value for labels, value in _aggregated(shown, "max", by).items()}
        case Absent(metric=metric, job=job):
            of_job = {"job": job}
            answers = any(sample.value == 1 for sample in history.latest(UP, of_job))
            return {(("job", job),): 1.0} if answers and not history.latest(metric, of_job) else {}


def grown(points: Sequence[Point]) -> float:
    """How much was counted from the first to the last. A counter that is smaller than before has begun anew, from nothing."""
    return sum(new.value - old.value if new.value >= old.value else new.value for old, new in pairwise(points))


def _increases(expression: Increase, history: History, since: float) -> list[tuple[Labels, float]]:
    found = history.since(expression.metric, expression.where, since)
    return [(labels, grown(points)) for labels, points in found if len(points) > 1]


def _has_grown(expression: Expression, history: History, labels: Labels, last_looked_at: float | None) -> bool:
    if not isinstance(expression, Increase) or last_looked_at is None:
        return False
    fresh = _aggregated(_increases(expression, history, last_looked_at), expression.how, expression.by)
    return fresh.get(labels, 0.0) > 0


def _aggregated(values: Iterable[tuple[Labels, float]], how: How, by: Sequence[str]) -> dict[Labels, float]:
    groups: dict[Labels, list[float]] = defaultdict(list)
    for labels, value in values:
        if value == value:  # noqa: PLR0124 - not a number: nobody knows, and it would spoil the others
            groups[tuple(pair for pair in labels if pair[0] in by)].append(value)
    return {labels: _AGGREGATE[how](group) for labels, group in groups.items()}


def _has_lasted(level: Level, began_at: float, at: float) -> bool:
    return at - began_at >= level.for_seconds
