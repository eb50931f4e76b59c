"""docs/reference/metrics.md: every metric, from the registries of running services."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from reference_pages.markdown import begin, code, table
from reference_pages.services import Offer

HEADINGS = ("Metric", "Type", "Labels", "Meaning")
SUFFIX = {"counter": "_total", "info": "_info"}

PREFACE = """\
Every HTTP service shows its metrics at `GET /metrics`, in the text format of Prometheus. No metric of a whole farm has a label
for the device: ask the APIs about one device. A counter also has a series `_created`, a histogram `_bucket`, `_sum` and `_count`.

Alerts on these are in the [runbook](../operations/runbook.md). A node and a weigh station have no port; their figures come as
`device.status` and stand in `status.json` beside their spool.
"""


@dataclass(frozen=True, order=True)
class Metric:
    name: str
    kind: str
    labels: tuple[str, ...]
    help: str = field(compare=False)


def page(services: Sequence[Offer]) -> str:
    found = {offer.service.name: metrics_of(offer.registry) for offer in services}
    shared = _shown_by_several(found)
    lines = [*begin("Metrics", "where the metric is declared"), PREFACE]
    lines += ["## Several services", "", "With the same name and meaning, each of its own work.", ""]
    for names, metrics in _by_services(shared).items():
        everybody = len(names) == len(services)
        lines += ["All:" if everybody else ", ".join(map(code, names)) + ":", ""]
        lines += table(HEADINGS, [_row(metric) for metric in metrics])
    for name, metrics in found.items():
        if own := [metric for metric in metrics if metric not in shared]:
            lines += [f"## {name}", "", *table(HEADINGS, [_row(metric) for metric in own])]
    return "\n".join(lines)


def metrics_of(registry: CollectorRegistry) -> list[Metric]:
    # A registry tells samples, and a metric with labels has none until something happens: the collectors know their labels.
    found = [
        Metric(
            collector._name + SUFFIX.get(collector._type or "", ""),
            collector._type or "",
            tuple(collector._labelnames),
            collector._documentation,
        )
        for collector in list(registry._collector_to_names)
        if isinstance(collector, MetricWrapperBase)
    ]
    return sorted(found)


def _shown_by_several(found: dict[str, list[Metric]]) -> dict[Metric, list[str]]:
    names: dict[Metric, list[str]] = {}
    for service, metrics in found.items():
        for metric in metrics:
            names.setdefault(metric, []).append(service)
    return {metric: services for metric, services in names.items() if len(services) > 1}


def _by_services(shared: dict[Metric, list[str]]) -> dict[tuple[str, ...], list[Metric]]:
    groups: dict[tuple[str, ...], list[Metric]] = {}
    for metric, names in sorted(shared.items()):
        groups.setdefault(tuple(names), []).append(metric)
    return dict(sorted(groups.items(), key=lambda group: -len(group[0])))


def _row(metric: Metric) -> tuple[str, str, str, str]:
    return code(metric.name), metric.kind, ", ".join(map(code, metric.labels)), metric.help
