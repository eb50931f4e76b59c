"""The cloud's entrance as an edge sees it: events to send, and the answers."""

import secrets
from typing import Any
from uuid import UUID

import aiohttp
import msgspec

from farmiq.cloud.ingestion import edges
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.waiting import eventually

SERVICE = "cloud-ingestion"
TOKEN = secrets.token_urlsafe(24)


def event(event_id: UUID | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "event_id": str(event_id or new_id()),
        "event_type": "telemetry.ingested",
        "tenant_id": "demo",
        "farm_id": "farm-1",
        "barn_id": "barn-1",
        "device_id": "node-1",
        "occurred_at": "2026-01-01T10:00:00Z",
        "trace_id": "trace-1",
        "payload": {"metric_type": "temperature", "metric_value": 26.4, "unit": "C"},
        **changes,
    }


async def let_edge_in(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo"], token=TOKEN)


async def until_ready(url: str) -> None:
    async def is_ready() -> bool:
        async with aiohttp.ClientSession(url) as session, session.get("/api/ready") as answer:
            return answer.status == 200

    await eventually(is_ready, 60.0, "readiness")


async def send(url: str, *events: dict[str, Any]) -> tuple[int, dict[str, Any], str | None]:
    """Status, answer and `Retry-After`."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with (
        aiohttp.ClientSession(url, headers=headers) as session,
        session.post("/api/v1/edge/batch", data=msgspec.json.encode(events)) as answer,
    ):
        return answer.status, await answer.json(), answer.headers.get("retry-after")


def statuses(answer: dict[str, Any]) -> list[str]:
    return [result["status"] for result in answer["results"]]


async def remembered(pool: Pool) -> list[str]:
    return sorted(str(row["event_id"]) for row in await pool.fetch("SELECT event_id FROM ingest_dedupe"))
