"""The last samples of each series, for as long as the longest window. Pure: times are given, in seconds."""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from farmiq.alerting.alert import Labels

UP = "up"


class Sample(NamedTuple):
    metric: str
    labels: Labels
    value: float


class Point(NamedTuple):
    at: float
    value: float


class Series(NamedTuple):
    metric: str
    labels: Labels


class History:
    """Of each target's metrics. What a target did not show at its last scrape counts as gone, as it does in Prometheus."""

    def __init__(self, kept_seconds: float) -> None:
        self._kept_seconds = kept_seconds
        self._points: dict[str, dict[Series, deque[Point]]] = {}
        self._shown: dict[str, set[Series]] = {}
        self._away: set[str] = set()
        self._showed: dict[str, set[str]] = defaultdict(set)

    def add(self, target: str, at: float, samples: Iterable[Sample] | None, up_labels: Labels | None = None) -> None:
        """What one target showed; None when it did not answer. `up_labels` are those of its `up`."""
        series_of = self._points.setdefault(target, {})
        if samples is None:
            # Whatever a counter counts while nobody can look is found by comparing with what it was, however long that takes.
            for points in series_of.values():
                points.append(Point(at, points[-1].value))
        up = Sample(UP, up_labels or (("job", target),), 0.0 if samples is None else 1.0)
        shown = [up, *(samples or ())]
        for metric, labels, value in shown:
            points = series_of.setdefault(Series(metric, labels), deque())
            if points and points[-1].at < at - self._kept_seconds:  # this machine has slept
                points.append(Point(at, points[-1].value))
            points.append(Point(at, value))
            self._showed[metric].add(target)
        self._shown[target] = {Series(metric, labels) for metric, labels, _ in shown}
        (self._away.discard if samples is not None else self._away.add)(target)
        self._forget(target, at)

    def remember(self, target: str, at: float, samples: Iterable[Sample]) -> None:
        """What was known of counters before this process began: points to compare with, and no figures of now."""
        series_of = self._points.setdefault(target, {})
        for metric, labels, value in samples:
            series_of.setdefault(Series(metric, labels), deque()).append(Point(at, value))

    def latest(self, metric: str, where: Mapping[str, str]) -> list[Sample]:
        """What the targets show now."""
        return [
            Sample(metric, series.labels, points[-1].value)
            for target, series, points in self._matching(metric, where)
            if series in self._shown.get(target, ())
        ]

    def is_known(self, metric: str) -> bool:
        """False when whoever shows this metric can't be asked just now: that it is not there then says nothing."""
        owners = self._showed.get(metric) or set(self._shown)
        return bool(owners) and (not owners <= self._away if metric in self._showed else not owners & self._away)

    def since(self, metric: str, where: Mapping[str, str], at: float) -> list[tuple[Labels, list[Point]]]:
        """The points from `at` on of each series."""
        return [
            (series.labels, [point for point in points if point.at >= at])
            for _, series, points in self._matching(metric, where)
        ]

    def newest_of(self, metrics: Iterable[str]) -> dict[str, list[Sample]]:
        """By target. To be remembered by the next process."""
        wanted = set(metrics)
        found: dict[str, list[Sample]] = defaultdict(list)
        for target, series_of in self._points.items():
            for (metric, labels), points in series_of.items():
                if metric in wanted:
                    found[target].append(Sample(metric, labels, points[-1].value))
        return found

    def _matching(self, metric: str, where: Mapping[str, str]) -> Iterable[tuple[str, Series, deque[Point]]]:
        patterns = {label: re.compile(pattern) for label, pattern in where.items()}
        for target, series_of in self._points.items():
            for series, points in series_of.items():
                if series.metric == metric and _fits(dict(series.labels), patterns):
                    yield target, series, points

    def _forget(self, target: str, at: float) -> None:
        series_of = self._points[target]
        for series in list(series_of):
            points = series_of[series]
            while points and points[0].at < at - self._kept_seconds:
                points.popleft()
            if not points:
                del series_of[series]


def _fits(labels: Mapping[str, str], patterns: Mapping[str, "re.Pattern[str]"]) -> bool:
    return all(pattern.fullmatch(labels.get(label, "")) for label, pattern in patterns.items())
