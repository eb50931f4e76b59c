"""The services of a farm as an audit sees them, with answers that a test gives."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec

from farmiq.audit.asking import Question, read
from farmiq.audit.balance import Reading
from farmiq.audit.buckets import KIND as BUCKETS
from farmiq.audit.records import HOURS, KINDS
from farmiq.console.neighbours import Neighbours

T = TypeVar("T")

ASKED_AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
Answer = dict[str, Any]
Answers = Callable[[dict[str, Any]], Answer]

QUIET: dict[str, Answer] = {
    "/api/v1/ingress/sync-plan": {"mode": "raw"},
    "/api/v1/ingress/stats": {},
    "/api/v1/ingress/limits": {"limited": []},
    "/api/v1/ingress/refusals": {"refusals": []},
    "/api/v1/ingestion/stats": {},
    "/api/v1/bus/queues": {"queues": []},
    "/api/v1/tenants": {"tenants": []},
    "/api/v1/accounts": {"devices": [], "retired_samples": 0},
    "/api/v1/content": {"blocks": []},
    **{f"/api/v1/records/{kind.name}/days": {"days": []} for kind in (*KINDS, BUCKETS, HOURS)},
    **{f"/api/v1/records/{name}": {"records": []} for name in ("sessions", "buckets", "readings", "hours")},
    "/api/v1/device-owners": {"owners": []},
    "/api/v1/sync/acknowledged": {"events": [], "is_complete": True},
    "/api/v1/devices": {"devices": []},
    "/api/v1/erasures": {"erasures": []},
    "/api/v1/dlq": {"queues": []},
    "/api/v1/sync/waiting": {"events": [], "is_complete": True},
    "/api/v1/sync/held": {"edge_cluster_id": "edge-1", "is_tenant_refused": False, "held": []},
    "/api/v1/sync/media": {"entries": []},
    "/api/v1/media": {"pictures": [], "media": []},
    "/api/v1/media-days": {"days": []},
    "/api/v1/weighvision/session-days": {"days": []},
    "/api/v1/weighvision/sessions": {"sessions": []},
}
"""Of a farm in which nothing has happened yet."""


class AuditedFarm:
    """Answers by path, or by `service path` where the tiers differ."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Answers] = dict(QUIET)
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    async def get(self, service: str, path: str, kind: type[T], **parameters: Any) -> T:
        self.asked.append((service, path, parameters))
        known = self.answers.get(f"{service} {path}") or self.answers[path]
        answer = known(parameters) if callable(known) else known
        return msgspec.convert(answer, kind)

    async def read(self, **parts: Any) -> Reading:
        question: dict[str, Any] = {"asked_at": ASKED_AT, "rows_max": 1000, "own_tenants": ["demo"]} | parts
        return await read(cast("Neighbours", self), Question(**question))


def registered(device_id: str, **parts: Any) -> Answer:
    known = {
        "device_id": device_id,
        "tenant_id": "demo",
        "farm_id": "farm-1",
        "barn_id": "barn-1",
        "state": "online",
        "fresh": True,
    }
    return known | parts


def account(device_id: str, samples: int = 10, **parts: Any) -> Answer:
    return {
        "device_id": device_id,
        "samples": samples,
        "samples_in_months": samples,
        "streams": [],
        "hours": [],
    } | parts
