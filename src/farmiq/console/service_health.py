"""What is known of each service's health, and what it means for the farm. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct

from farmiq.console.overview.services import CHECKS, meaning_of

Kind = Literal["good", "warn", "bad", "none"]


class Ready(Struct, frozen=True):
    """`GET /api/ready`."""

    status: str
    checks: dict[str, str] = {}
    remarks: dict[str, str] = {}


class Heard(Struct, frozen=True):
    """What one look found: an answer, or why there was none."""

    ready: Ready | None = None
    version: str | None = None
    problem: str = ""


class Check(Struct, frozen=True):
    name: str
    is_ok: bool
    said: str
    meaning: str


class ServiceHealth(Struct, frozen=True, kw_only=True):
    service: str
    tier: str
    does: str
    kind: Kind
    word: str
    since: datetime | None
    version: str | None
    checks: tuple[Check, ...]
    meaning: str
    command: str
    api_docs: str


def judge(service: str, url: str, heard: Heard, since: datetime | None) -> ServiceHealth:
    meaning, ready = meaning_of(service), heard.ready
    checks = tuple(_check(name, said) for name, said in (ready.checks if ready else {}).items())
    if ready is None:
        kind, word, told = "bad", "does not answer", f"{meaning.away} ({heard.problem})"
    elif ready.status == "ready":
        kind, word, told = "good", "ready", " ".join(ready.remarks.values())
    else:
        kind, word = "warn", "not ready"
        told = " ".join(check.meaning for check in checks if not check.is_ok)
    return ServiceHealth(
        service=service,
        tier=service.partition("-")[0],
        does=meaning.does,
        kind=kind,  # type: ignore[arg-type]  # mypy joins the three literals to a plain text
        word=word,
        since=since if kind != "good" else None,
        version=heard.version,
        checks=checks,
        meaning=told,
        command="" if kind == "good" else f"farmiq logs {service}",
        api_docs=f"{url}/api-docs",
    )


class Since:
    """When each service was first found not to be well, for as long as that lasts."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def look(self, heard: Mapping[str, Heard], now: datetime) -> dict[str, datetime]:
        for service, one in heard.items():
            if one.ready is not None and one.ready.status == "ready":
                self._since.pop(service, None)
            else:
                self._since.setdefault(service, now)
        return dict(self._since)


def summary(found: list[ServiceHealth]) -> tuple[Kind, str]:
    """In one sentence."""
    away = [one.service for one in found if one.kind == "bad"]
    unready = [one.service for one in found if one.kind == "warn"]
    if not found:
        return "none", "This console is told of no service."
    if not away and not unready:
        return "good", f"All {len(found)} services are ready."
    parts = [
        f"{', '.join(names)} {verb}." for names, verb in ((away, "does not answer"), (unready, "is not ready")) if names
    ]
    return ("bad" if away else "warn"), " ".join(parts)


def versions(found: list[ServiceHealth]) -> set[str]:
    return {one.version for one in found if one.version}


def _check(name: str, said: str) -> Check:
    is_ok = said == "ok"
    return Check(name, is_ok, said, "" if is_ok else CHECKS.get(name, said))
