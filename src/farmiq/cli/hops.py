"""The counts at each hop of a sample's path, asked for all at once.

A hop that does not answer is part of the answer: it comes back with the reason in words, never as an exception. Only the standard
library is used, because `farmiq status` has to be there at once."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 2.0
ANSWER_BYTES_MAX = 1 << 20
STATUS_FILE = "status.json"


@dataclass(frozen=True)
class Question:
    """Where one hop tells its counts: a file or a URL."""

    hop: str
    place: str | None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Hop:
    name: str
    counts: Mapping[str, int | float] = field(default_factory=dict)
    problem: str | None = None


# Each hop with the route of its counts, in the order in which a sample passes them.
ROUTES = (
    ("edge-ingress-gateway", "EDGE_INGRESS_GATEWAY_URL", "/api/v1/ingress/stats"),
    ("edge-telemetry-timeseries", "EDGE_TELEMETRY_TIMESERIES_URL", "/api/v1/telemetry/stats"),
    ("edge-sync-forwarder", "EDGE_SYNC_FORWARDER_URL", "/api/v1/sync/state"),
    ("cloud-ingestion", "CLOUD_INGESTION_URL", "/api/v1/ingestion/stats"),
    ("cloud-telemetry-service", "CLOUD_TELEMETRY_SERVICE_URL", "/api/v1/telemetry/stats"),
)


def questions(environment: Mapping[str, str], spool_folder: Path) -> list[Question]:
    asked = [Question("node-forwarder", str(spool_folder / STATUS_FILE))]
    for hop, variable, route in ROUTES:
        url = environment.get(variable)
        asked.append(Question(hop, url.rstrip("/") + route if url else None, environment.get("ADMIN_TOKEN")))
    return asked


def ask_all(asked: Sequence[Question]) -> list[Hop]:
    with ThreadPoolExecutor(max_workers=len(asked)) as threads:
        return list(threads.map(ask, asked))


def ask(question: Question) -> Hop:
    try:
        counts = counts_in(json.loads(_read(question)))
        if question.place is not None and not question.place.startswith("http"):
            # Written now and then, so the hops behind may know of samples that the file does not.
            counts["figures_age_seconds"] = max(0.0, time.time() - Path(question.place).stat().st_mtime)
        return Hop(question.hop, counts)
    except (OSError, ValueError) as error:
        return Hop(question.hop, problem=reason_of(error))


def counts_in(answer: Any, prefix: str = "") -> dict[str, int | float]:
    """Every number of the answer, by its path: `{"outbox": {"pending": 3}}` is `outbox.pending`. Unknown keys are welcome."""
    if not isinstance(answer, dict):
        raise ValueError("the answer is not a JSON object")  # noqa: TRY004 - to the caller it is one more malformed answer
    counts: dict[str, int | float] = {}
    for key, value in answer.items():
        if isinstance(value, dict):
            counts |= counts_in(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            counts[f"{prefix}{key}"] = value
    return counts


def _read(question: Question) -> bytes:
    if question.place is None:
        raise OSError("the stack gives it no address")
    if not question.place.startswith("http"):
        return Path(question.place).read_bytes()
    return fetch(question.place, question.token)


def fetch(url: str, token: str | None) -> bytes:
    request = urllib.request.Request(url)  # noqa: S310 - a URL of our own stack
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    # A proxy of the environment is meant for the internet, and would only say that it does not know our loopback.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=TIMEOUT_SECONDS) as answer:
        body: bytes = answer.read(ANSWER_BYTES_MAX)
    return body


def reason_of(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "has written no counts yet"
    if isinstance(error, urllib.error.HTTPError):
        with error:
            return f"answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        error = error.reason if isinstance(error.reason, Exception) else error
    if isinstance(error, ConnectionRefusedError):
        return "does not listen"
    if isinstance(error, TimeoutError):
        return f"gave no answer within {TIMEOUT_SECONDS:g} s"
    if isinstance(error, ValueError):
        return f"gave an answer that can't be read: {error}"
    return str(error)
