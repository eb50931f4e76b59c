"""What the services of a release answered, against the clients and the services of today.

Names are public: a field that was there stays there, under its name. More may come beside it."""

import http.cookiejar
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any, Final

import msgspec

from farmiq.audit import answers as audit
from farmiq.console.curves import answers as curves
from farmiq.console.fleet import answers as fleet
from farmiq.console.growth import answers as growth
from farmiq.console.overview import figures
from farmiq.console.pages import alerts, dead_letters, sync
from farmiq.console.weighings import answers as weighings
from farmiq.kit.day_digests import DayDigests
from support.golden_farm import Golden, age_days

_TIMESERIES: Final = ("edge-telemetry-timeseries", "cloud-telemetry-service")
_BOTH: Final = (
    ("/api/v1/accounts", audit.AccountPage),
    ("/api/v1/tenants", audit.Tenants),
    ("/api/v1/streams", fleet.Streams),
    ("/api/v1/streams/{stream_id}/gaps", fleet.Gaps),
    ("/api/v1/coverage", fleet.Coverage),
    ("/api/v1/coverage/devices", fleet.AllTotals),
    ("/api/v1/losses", fleet.Losses),
    ("/api/v1/losses/stations", fleet.StationLosses),
    ("/api/v1/losses/summary", fleet.LossSummary),
    ("/api/v1/telemetry/metrics", curves.SeriesPage),
    ("/api/v1/telemetry/readings", curves.ReadingPage),
    ("/api/v1/telemetry/readings", fleet.Readings),
    ("/api/v1/telemetry/aggregates", curves.BucketPage),
    ("/api/v1/telemetry/spans", curves.Spans),
    ("/api/v1/telemetry/summary", figures.SummaryPage),
)
CLIENTS: Final[tuple[tuple[str, str, Any], ...]] = (
    *((service, route, struct) for service in _TIMESERIES for route, struct in _BOTH),
    ("edge-ingress-gateway", "/api/v1/ingress/sync-plan", audit.SyncPlan),
    ("edge-ingress-gateway", "/api/v1/ingress/stats", audit.Stats),
    ("edge-ingress-gateway", "/api/v1/ingress/rejected", dead_letters.RejectedPage),
    ("edge-telemetry-timeseries", "/api/v1/devices", fleet.Devices),
    ("edge-telemetry-timeseries", "/api/v1/devices", curves.DevicePage),
    ("edge-telemetry-timeseries", "/api/v1/device-counts", fleet.DeviceCounts),
    ("edge-telemetry-timeseries", "/api/v1/fleet", figures.Fleet),
    ("edge-telemetry-timeseries", "/api/v1/alerts", alerts.EdgeAlerts),
    ("edge-weighvision-session", "/api/v1/weighvision/sessions", weighings.EdgePage),
    ("edge-weighvision-session", "/api/v1/weighvision/sessions", figures.Weighings),
    ("edge-weighvision-session", "/api/v1/weighvision/sessions/{session_id}", weighings.EdgeDetail),
    ("edge-weighvision-session", "/api/v1/weighvision/session-days", DayDigests),
    ("edge-media-store", "/api/v1/media", weighings.EdgeMediaPage),
    ("edge-media-store", "/api/v1/media-days", DayDigests),
    ("edge-media-store", "/api/v1/media/{media_id}/url", weighings.MediaUrl),
    ("edge-vision-inference", "/api/v1/inference/jobs", weighings.Jobs),
    ("edge-sync-forwarder", "/api/v1/sync/detail", sync.Detail),
    ("edge-sync-forwarder", "/api/v1/sync/outbox", sync.Rows),
    ("edge-sync-forwarder", "/api/v1/sync/media", sync.Pictures),
    ("edge-sync-forwarder", "/api/v1/sync/media", figures.Pictures),
    ("edge-sync-forwarder", "/api/v1/sync/media", weighings.Transfers),
    ("edge-sync-forwarder", "/api/v1/sync/dlq", fleet.DeadLetters),
    ("edge-sync-forwarder", "/api/v1/sync/dlq/groups", dead_letters.EdgeGroups),
    ("edge-sync-forwarder", "/api/v1/sync/room", figures.Room),
    ("edge-sync-forwarder", "/api/v1/sync/waiting", audit.Waiting),
    ("cloud-ingestion", "/api/v1/bus/queues", audit.BusQueues),
    ("cloud-ingestion", "/api/v1/dlq", audit.DeadQueues),
    ("cloud-ingestion", "/api/v1/dlq", dead_letters.BusQueues),
    ("cloud-ingestion", "/api/v1/dlq/{service}/messages", dead_letters.Letters),
    ("cloud-ingestion", "/api/v1/ingestion/stats", audit.Stats),
    ("cloud-telemetry-service", "/api/v1/events", fleet.Events),
    ("cloud-telemetry-service", "/api/v1/weighvision/sessions", weighings.CloudPage),
    ("cloud-telemetry-service", "/api/v1/weighvision/sessions/{session_id}", weighings.CloudView),
    ("cloud-telemetry-service", "/api/v1/weighvision/session-days", DayDigests),
    ("cloud-analytics-service", "/api/v1/analytics/kpis", growth.KpiPage),
    ("cloud-analytics-service", "/api/v1/analytics/anomalies", growth.AnomalyPage),
    ("cloud-media-store", "/api/v1/media", weighings.CloudMediaPage),
    ("cloud-media-store", "/api/v1/media-days", DayDigests),
    ("cloud-media-store", "/api/v1/media/{media_id}/url", weighings.MediaUrl),
)
"""Service, route, and what a client of today reads its answer as. One that is replaced by another reader is replaced here."""

_EDGES_OWN: Final = frozenset({"/api/v1/media/wanted"})
_FREE: Final = frozenset({"payload", "envelope", "evidence", "headers"})
"""What is in them is said by a device, a rule or a broker, and differs from row to row."""


def undecodable(golden: Golden) -> list[str]:
    """An edge is updated months after its cloud, and a console before either: answers of then meet readers of today."""
    found = []
    for service, route, struct in CLIENTS:
        for one in golden.responses:
            if (one["service"], one["route"]) == (service, route) and isinstance(one["body"], dict | list):
                try:
                    msgspec.json.decode(json.dumps(one["body"]), type=struct)
                except msgspec.ValidationError as error:
                    found.append(f"{service} {one['url']} as {struct.__module__}.{struct.__name__}: {error}")
    return found


def lacking(golden: Golden, environment: Mapping[str, str]) -> list[str]:
    """Every recorded request, asked again of the services of today: what their answers no longer have."""
    found: list[str] = []
    person = _logged_in(environment["CONSOLE_URL"], golden.manifest["credentials"]["person"])
    for one in golden.responses:
        token = environment["ADMIN_TOKEN"]
        if one["route"] in _EDGES_OWN:
            token = golden.manifest["credentials"]["edge_rotated"]["token"]
        address = environment[f"{one['service'].replace('-', '_').upper()}_URL"]
        status, kind, body = _get(person, address + _aged(one["url"]), {"authorization": f"Bearer {token}"})
        name = f"{one['service']} {one['url']}"
        if (status, kind) != (one["status"], _kind(one["headers"].get("content-type", ""))):
            found.append(f"{name}: {status} {kind}, and was {one['status']} {one['headers'].get('content-type')}")
        else:
            found += [f"{name}: {complaint}" for complaint in _compared(one, kind, body)]
    return found


def _aged(url: str) -> str:
    """The times that are asked for move with those in the databases."""

    def earlier(found: re.Match[str]) -> str:
        return str(date.fromisoformat(found[0]) - timedelta(days=age_days()))

    return re.sub(r"\d{4}-\d\d-\d\d(?=T)", earlier, url)


def _compared(one: Mapping[str, Any], kind: str, body: bytes) -> Iterator[str]:
    if one["route"] == "/api-docs/openapi.json":
        yield from _routes(one["body"], json.loads(body))
    elif kind == "application/json":
        yield from fields_gone(one["body"], json.loads(body), "$")
    elif one["route"] == "/metrics":
        yield from (f"the metric {name} is gone" for name in sorted(_metrics(one["body"]) - _metrics(body.decode())))
    elif kind == "text/csv":
        columns = body.decode().partition("\n")[0].strip().split(",")
        yield from (
            f"the column {name} is gone"
            for name in one["body"].partition("\n")[0].strip().split(",")
            if name not in columns
        )


def _routes(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Routes, methods and parameters that were documented. A new parameter may not be needed."""
    for path, methods in then["paths"].items():
        for method, one in methods.items():
            current = now["paths"].get(path, {}).get(method)
            if current is None:
                yield f"{method.upper()} {path} is gone"
                continue
            names, known = ({entry["name"]: entry for entry in each.get("parameters", ())} for each in (one, current))
            yield from (
                f"{method.upper()} {path}: the parameter {name} is gone" for name in names.keys() - known.keys()
            )
            yield from (
                f"{method.upper()} {path}: the new parameter {name} is needed"
                for name in known.keys() - names.keys()
                if known[name].get("required")
            )


def fields_gone(then: Any, now: Any, place: str) -> Iterator[str]:
    """What was null or is null now says nothing of its type, and an empty list nothing of its entries."""
    if then is None or now is None:
        return
    if _type(then) != _type(now):
        yield f"{place} is {_type(now)}, and was {_type(then)}"
    elif isinstance(then, dict):
        for name, value in then.items():
            if name not in now and name.isidentifier():  # else it is a device, an event type, a header: what is counted
                yield f"{place}.{name} is gone"
            elif name not in _FREE:
                yield from fields_gone(value, now.get(name), f"{place}.{name}")
    elif isinstance(then, list) and then and now:
        yield from fields_gone(_merged(then), _merged(now), f"{place}[]")


def _merged(entries: list[Any]) -> Any:
    """One entry with everything that any of them has; null only where all of them have null."""
    if not all(isinstance(entry, dict) for entry in entries):
        return next((entry for entry in entries if entry is not None), None)
    merged: dict[str, Any] = {}
    for entry in entries:
        for name, value in entry.items():
            if isinstance(value, dict) and isinstance(merged.get(name), dict):
                merged[name] = _merged([merged[name], value])
            elif isinstance(value, list) and isinstance(merged.get(name), list):
                merged[name] = merged[name] + value
            elif merged.get(name) is None:
                merged[name] = value
    return merged


def _type(value: object) -> str:
    return "a number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _metrics(text: str) -> set[str]:
    """Without those that prometheus-client adds to a counter from its first use on."""
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE farmiq_")}
    return {name for name in names if not name.endswith("_created")}


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0]


def _logged_in(console_url: str, person: Mapping[str, str]) -> urllib.request.OpenerDirector:
    """A browser with a person's session. The other services take no notice of its cookie."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    form = urllib.parse.urlencode({"name": person["name"], "password": person["password"]}).encode()
    opener.open(f"{console_url}/login", form, timeout=60).close()
    return opener


def _get(opener: urllib.request.OpenerDirector, url: str, headers: dict[str, str]) -> tuple[int, str, bytes]:
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own farm
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, _kind(answer.headers.get("content-type", "")), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _kind(error.headers.get("content-type", "")), error.read()
