"""Every GET route of every service, asked once while everything is there: what a client of the release was answered."""

import gzip
import http.cookiejar
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from golden.farm import Farm, NotReached

SERVICES: Final = (
    "edge-ingress-gateway", "edge-telemetry-timeseries", "edge-weighvision-session", "edge-media-store",
    "edge-vision-inference", "edge-sync-forwarder",
    "cloud-ingestion", "cloud-telemetry-service", "cloud-analytics-service", "cloud-media-store",
)  # fmt: skip
HEADERS: Final = ("content-type", "cache-control", "retry-after", "content-disposition")
CSV_LINES: Final = 3
_EDGE_ROUTES: Final = frozenset({"/api/v1/media/wanted"})


def record(farm: Farm, credentials: Mapping[str, Any], path: Path) -> None:
    known = _known(farm)
    recorded = []
    for service in SERVICES:
        for route, query in requests(farm, service, known):
            token = credentials["edge"]["token"] if route in _EDGE_ROUTES else farm.environment["ADMIN_TOKEN"]
            recorded.append(_ask(farm, service, route, query, token, known))
    recorded += _pages(farm, credentials["person"])
    refused = [f"{one['service']} {one['url']}: {one['status']}" for one in recorded if one["status"] != 200]
    if refused:
        raise NotReached("these routes did not answer with 200:\n  " + "\n  ".join(refused))
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(json.dumps(recorded, indent=1).encode())


def requests(farm: Farm, service: str, known: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each route with what it has to be given, and once more as CSV where it can be had so."""
    url = farm.environment[f"{service.replace('-', '_').upper()}_URL"]
    with urllib.request.urlopen(f"{url}/api-docs/openapi.json", timeout=60) as answer:  # noqa: S310 - our own farm
        paths = json.loads(answer.read())["paths"]
    yield "/api-docs/openapi.json", {}
    for route, methods in paths.items():
        if "get" not in methods:
            continue
        named = {one["name"]: one for one in methods["get"].get("parameters", ()) if one["in"] == "query"}
        query = {name: known[name] for name in _wanted(route, named)}
        yield route, query
        if "format" in named:
            yield route, query | {"format": "csv"}


def _wanted(route: str, named: Mapping[str, Any]) -> list[str]:
    """What is needed, whose it is, and a time that does not move."""
    chosen = {name for name, one in named.items() if one.get("required")} | ({"tenant_id", "from", "to"} & {*named})
    if route.endswith(("/aggregates", "/readings")):
        chosen |= {"device_id", "metric"} & {*named}
    return sorted(chosen)


def _known(farm: Farm) -> dict[str, str]:
    """One thing of each kind, so that every route has something to tell."""

    def one(query: str) -> str:
        return str(farm.fetch("edge", query)[0]["id"])

    start, end = farm.fetch("cloud", _DAY)[0].values()
    return {
        "tenant_id": "demo",
        "device_id": "golden-node-2",
        "metric": "torture",
        "service": "cloud-telemetry-service",
        "from": start,
        "to": end,
        "stream_id": one("SELECT stream_id AS id FROM streams WHERE device_id = 'golden-node-2'"),
        "session_id": one(
            "SELECT id FROM weight_sessions WHERE device_id = 'golden-station' AND status = 'finalized' LIMIT 1"
        ),
        "media_id": one("SELECT media_id AS id FROM media_transfers WHERE state = 'sent' ORDER BY sent_at LIMIT 1"),
        "job_id": one("SELECT id FROM inference_jobs WHERE state = 'done' LIMIT 1"),
        "rejected_id": one("SELECT id FROM ingress_rejected LIMIT 1"),
    }


_DAY: Final = """
SELECT to_char((now() - interval '1 day') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"00:00:00"Z"') AS start,
       to_char((now() + interval '1 day') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"00:00:00"Z"') AS end"""


def _ask(
    farm: Farm, service: str, route: str, query: Mapping[str, str], token: str, known: Mapping[str, str]
) -> dict[str, Any]:
    path = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: urllib.parse.quote(known[found[1]]), route)
    url = path + (f"?{urllib.parse.urlencode(query)}" if query else "")
    address = farm.environment[f"{service.replace('-', '_').upper()}_URL"] + url
    headers = {"authorization": f"Bearer {token}"}
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 - our own farm
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own farm
            return _recorded(service, route, url, answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        return _recorded(service, route, url, error.code, error.headers, error.read())


def _recorded(service: str, route: str, url: str, status: int, headers: Any, body: bytes) -> dict[str, Any]:
    kept = {name: headers[name] for name in HEADERS if headers[name]}
    kind = (kept.get("content-type") or "").partition(";")[0]
    shown: object = None
    if kind.endswith("json"):
        shown = json.loads(body)
    elif kind == "text/csv":
        shown = "\n".join(body.decode().splitlines()[:CSV_LINES])
    elif kind == "text/plain":
        shown = body.decode()
    return {"service": service, "route": route, "url": url, "status": status, "headers": kept, "body": shown}


def _pages(farm: Farm, person: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The console's pages as a person reaches them: the first one, and whatever it links to."""
    url = farm.environment["CONSOLE_URL"]
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    form = urllib.parse.urlencode({"name": person["name"], "password": person["password"]}).encode()
    first = opener.open(f"{url}/login", form, timeout=60).read().decode()
    links = sorted({"/", *re.findall(r'<a [^>]*href="(/[a-z-]*)"', first)} - {"/logout"})
    if len(links) < 5:
        raise NotReached(f"the console shows too few links: {links}")
    for link in links:
        with opener.open(url + link, timeout=60) as answer:
            yield _recorded("console", link, link, answer.status, answer.headers, answer.read())
