"""A dashboard as Grafana reads it."""

import json
from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct

WIDTH: Final = 24
STAT: Final = (4, 5)
CHART: Final = (12, 8)
"""Width and height of a panel, on Grafana's grid of 24 columns."""

_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


class Query(Struct, frozen=True):
    promql: str
    legend: str


class Panel(Struct, frozen=True):
    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: Literal["timeseries", "stat"] = "timeseries"
    about: str = ""


class Dashboard(Struct, frozen=True):
    uid: str
    title: str
    panels: tuple[Panel, ...]


def as_json(dashboard: Dashboard) -> str:
    made = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["farmiq"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source_choice()]},
        "links": [
            {"type": "dashboards", "tags": ["farmiq"], "title": "FarmIQ", "asDropdown": True, "keepTime": True},
        ],
        "panels": _placed(dashboard.panels),
    }
    return json.dumps(made, indent=1) + "\n"


def _placed(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Side by side while there is room, then on the next line."""
    made: list[dict[str, Any]] = []
    x = y = line_height = 0
    for number, panel in enumerate(panels, 1):
        width, height = STAT if panel.kind == "stat" else CHART
        if x + width > WIDTH or (line_height and height != line_height):
            x, y, line_height = 0, y + line_height, 0
        made.append(_panel(number, panel) | {"gridPos": {"x": x, "y": y, "w": width, "h": height}})
        x, line_height = x + width, height
    return made


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": query.promql, "legendFormat": query.legend}
            for at, query in enumerate(panel.queries)
        ],
    }


def _source_choice() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}}
