"""What each hop of a farm says at one moment: how much it has, how much waits, and since when.

A hop that does not answer is part of the answer. Only the standard library asks, because the picture has to move."""

import json
import os
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from farmiq.cli.hops import STATUS_FILE, fetch, reason_of

if TYPE_CHECKING:
    from farmiq.stack.home import Home
    from farmiq.stack.relay.protocol import RouteState
    from farmiq.stack.state import StackState

PAGES_MAX = 20
# The cloud reads its dead letters one by one to count them, so they are asked for less often than the rest.
DEAD_SECONDS = 15.0
GATEWAY, INGESTION = "edge-ingress-gateway", "cloud-ingestion"
T = TypeVar("T")


@dataclass(frozen=True)
class Node:
    """As the farm's own node writes it once a second, also while nobody can be reached."""

    stream_id: str
    captured: int
    waiting: int
    oldest_seconds: float | None
    runway_seconds: float | None
    dropped: int


@dataclass(frozen=True)
class Stream:
    device_id: str
    contiguous: int
    highest: int
    stored: int
    lost: int


@dataclass(frozen=True)
class Outbox:
    pending: int
    claimed: int
    dead: int
    oldest_seconds: float


@dataclass(frozen=True)
class Hold:
    """Why events wait in the edge's outbox: what the last request ran into, and when something happens next."""

    failures: int = 0
    error: str = ""
    next_try_at: datetime | None = None
    """When the edge tries to reach the cloud again, or to send the event again that it could not deliver."""
    in_flight_since: datetime | None = None
    lease_expires_at: datetime | None = None


@dataclass(frozen=True)
class Counted:
    """A counter that begins at zero with each new process."""

    process: int | None
    value: int


@dataclass(frozen=True)
class Flow:
    at: float
    node: Node | None = None
    # What devices elsewhere have said that they captured, by their stream.
    said: Mapping[str, int] = field(default_factory=dict)
    edge: Mapping[str, Stream] | None = None
    cloud: Mapping[str, Stream] | None = None
    outbox: Outbox | None = None
    hold: Hold | None = None
    duplicates: Mapping[str, Counted] = field(default_factory=dict)
    dead_in_cloud: int | None = None
    routes: "tuple[RouteState, ...]" = ()
    edge_free_bytes: int | None = None
    problems: Mapping[str, str] = field(default_factory=dict)


class Asker:
    """Asks all hops of one farm at once, again and again."""

    def __init__(self, home: "Home", environment: Mapping[str, str], tenant_id: str, device_id: str) -> None:
        self._home = home
        self._environment = environment
        self._tenant_id = tenant_id
        self._status_file = home.spool_folder(device_id) / STATUS_FILE
        self._dead: int | None = None
        self._dead_asked_at: float | None = None

    def look(self) -> Flow:
        from farmiq.stack.state import read_state

        state = read_state(self._home)
        questions: dict[str, Callable[[], Any]] = {
            "node": lambda: read_node(json.loads(self._status_file.read_bytes())),
            "said": lambda: said_by(self._pages("EDGE_TELEMETRY_TIMESERIES_URL", "/api/v1/devices", "devices")),
            "edge": lambda: streams_in(self._pages("EDGE_TELEMETRY_TIMESERIES_URL", "/api/v1/streams", "streams")),
            "cloud": lambda: streams_in(self._pages("CLOUD_TELEMETRY_SERVICE_URL", "/api/v1/streams", "streams")),
            "outbox": lambda: read_outbox(self._get("EDGE_SYNC_FORWARDER_URL", "/api/v1/sync/state")),
            "hold": self._hold,
            GATEWAY: lambda: self._get("EDGE_INGRESS_GATEWAY_URL", "/api/v1/ingress/stats")["duplicates"],
            INGESTION: lambda: self._get("CLOUD_INGESTION_URL", "/api/v1/ingestion/stats")["duplicates"],
            "dead": self._dead_letters,
            "routes": self._routes,
        }
        with ThreadPoolExecutor(max_workers=len(questions)) as threads:
            answers = dict(zip(questions, threads.map(_answer, questions.values()), strict=True))
        return _flow(answers, state, _free_bytes(self._home.path))

    def _hold(self) -> Hold:
        tenant = urllib.parse.urlencode({"tenant_id": self._tenant_id})
        detail = self._get("EDGE_SYNC_FORWARDER_URL", f"/api/v1/sync/detail?{tenant}")
        first = self._get("EDGE_SYNC_FORWARDER_URL", f"/api/v1/sync/outbox?{tenant}&status=pending&limit=1")
        return read_hold(detail, first["entries"])

    def _dead_letters(self) -> int | None:
        now = time.monotonic()
        if self._dead_asked_at is None or now - self._dead_asked_at >= DEAD_SECONDS:
            self._dead_asked_at = now
            self._dead = None
            self._dead = dead_in(self._get("CLOUD_INGESTION_URL", "/api/v1/dlq"))
        return self._dead

    def _routes(self) -> "tuple[RouteState, ...]":
        from farmiq.stack.relay.client import RelayClient

        return tuple(RelayClient(self._home.relay_socket).look())

    def _pages(self, variable: str, route: str, key: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after: str | None = None
        for _ in range(PAGES_MAX):
            query = {"tenant_id": self._tenant_id} | ({"after": after} if after else {})
            page = self._get(variable, f"{route}?{urllib.parse.urlencode(query)}")
            found += page[key]
            after = page["next"]
            if after is None:
                break
        return found

    def _get(self, variable: str, route: str) -> Any:
        url = self._environment.get(variable)
        if not url:
            raise OSError("the stack gives it no address")
        return json.loads(fetch(url.rstrip("/") + route, self._environment.get("ADMIN_TOKEN")))


def _answer(ask: "Callable[[], T]") -> "T | Exception":
    from farmiq.kit.errors import FarmiqError

    try:
        return ask()
    except (OSError, ValueError, KeyError, TypeError, FarmiqError) as error:
        return error


def _flow(answers: Mapping[str, Any], state: "StackState", free_bytes: int | None) -> Flow:
    processes = {child.name: child.pid for child in state.children}
    told = {name: answer for name, answer in answers.items() if not isinstance(answer, Exception)}
    return Flow(
        at=time.monotonic(),
        node=told.get("node"),
        said=told.get("said", {}),
        edge=told.get("edge"),
        cloud=told.get("cloud"),
        outbox=told.get("outbox"),
        hold=told.get("hold"),
        duplicates={name: Counted(processes.get(name), told[name]) for name in (GATEWAY, INGESTION) if name in told},
        dead_in_cloud=told.get("dead"),
        routes=told.get("routes", ()),
        edge_free_bytes=free_bytes,
        problems={name: reason_of(answer) for name, answer in answers.items() if isinstance(answer, Exception)},
    )


def read_node(status: Mapping[str, Any]) -> Node:
    return Node(
        stream_id=status["stream_id"],
        captured=status["last_captured_seq"],
        waiting=status["unacked_count"],
        oldest_seconds=status.get("oldest_sample_age_seconds"),
        runway_seconds=status.get("runway_seconds"),
        dropped=status.get("dropped_count", 0),
    )


def streams_in(rows: list[dict[str, Any]]) -> dict[str, Stream]:
    return {
        row["stream_id"]: Stream(
            row["device_id"], row["contiguous_seq"], row["highest_seq"], row["stored"], row["lost"]
        )
        for row in rows
    }


def said_by(devices: list[dict[str, Any]]) -> dict[str, int]:
    """Only of those that are there: what one that was switched off still has does not come by waiting."""
    marks = [device["marks"] for device in devices if device["online"] and device["marks"]]
    return {mark["stream_id"]: mark["captured_seq"] for mark in marks if mark["captured_seq"] is not None}


def read_outbox(state: Mapping[str, Any]) -> Outbox:
    return Outbox(
        state["pending_count"], state["claimed_count"], state["dlq_count"], float(state["oldest_pending_age_seconds"])
    )


def read_hold(detail: Mapping[str, Any], pending: Sequence[Mapping[str, Any]]) -> Hold:
    """From the way to the cloud where it is closed, else from the first event that was tried before."""
    since = [_time(holder["since"]) for holder in detail["holders"]]
    leases = [_time(holder["lease_expires_at"]) for holder in detail["holders"]]
    hold = Hold(
        in_flight_since=min(filter(None, since), default=None),
        lease_expires_at=min(filter(None, leases), default=None),
    )
    for link in detail["links"]:
        if failures := link["consecutive_failures"]:
            return replace(
                hold, failures=failures, error=link["last_error_code"], next_try_at=_time(link["paused_until"])
            )
    for entry in pending:
        if entry["last_error_code"]:
            error = ": ".join(filter(None, (entry["last_error_code"], entry["last_error_message"])))
            return replace(
                hold, failures=entry["attempt_count"], error=error, next_try_at=_time(entry["next_attempt_at"])
            )
    return hold


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def dead_in(answer: Mapping[str, Any]) -> int:
    return sum(queue["messages"] for queue in answer["queues"])


def _free_bytes(path: Path) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
