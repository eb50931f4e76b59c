"""What a rule may ask of the metrics: a handful of forms, each of which can be written as PromQL and evaluated here.

Labels are matched by regular expressions that must fit the whole value, as Prometheus does it.
"""

import json
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

How = Literal["max", "min", "sum"]


class Latest(Struct, frozen=True, kw_only=True):
    """The newest value. Several replicas that show the same figure are one: the largest or the smallest of them."""

    metric: str
    how: How = "max"
    by: tuple[str, ...] = ()
    where: Mapping[str, str] = {}

    def promql(self) -> str:
        return f"{_aggregation(self.how, self.by)}({selector(self.metric, self.where)})"


class Increase(Struct, frozen=True, kw_only=True):
    """By how much a counter has grown. Prometheus extrapolates to the whole window and we do not, so ask only whether it has."""

    metric: str
    window_seconds: int
    how: How = "sum"
    by: tuple[str, ...] = ()
    where: Mapping[str, str] = {}

    def promql(self) -> str:
        over = f"increase({selector(self.metric, self.where)}[{duration(self.window_seconds)}])"
        return f"{_aggregation(self.how, self.by)}({over})"


class Age(Struct, frozen=True, kw_only=True):
    """How many seconds ago it was, of a metric that holds a time."""

    metric: str
    by: tuple[str, ...] = ()
    where: Mapping[str, str] = {}

    def promql(self) -> str:
        return f"time() - {_aggregation('max', self.by)}({selector(self.metric, self.where)})"


class Absent(Struct, frozen=True, kw_only=True):
    """1 for a service that answers and does not show this metric."""

    metric: str
    job: str

    def promql(self) -> str:
        answering = f"max by (job) (up{{job={json.dumps(self.job)}}}) == 1"
        return f"(({answering}) unless on (job) {selector(self.metric, {'job': self.job})})"


Expression: TypeAlias = Latest | Increase | Age | Absent


def selector(metric: str, where: Mapping[str, str]) -> str:
    matchers = ",".join(f"{label}=~{json.dumps(pattern)}" for label, pattern in where.items())
    return f"{metric}{{{matchers}}}" if matchers else metric


def duration(seconds: float) -> str:
    """As Prometheus writes it, in the largest unit that fits without a remainder."""
    whole = int(seconds)
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if whole and whole % length == 0:
            return f"{whole // length}{unit}"
    return f"{whole}s"


def metrics_of(expression: Expression) -> set[str]:
    return {expression.metric, "up"} if isinstance(expression, Absent) else {expression.metric}


def _aggregation(how: How, by: tuple[str, ...]) -> str:
    return f"{how} by ({', '.join(by)}) " if by else how
