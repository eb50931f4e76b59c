"""The service on a real bus: the document's envelopes, poison, redelivery."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from farmiq.cloud.analytics_service.main import serve
from farmiq.cloud.analytics_service.topology import SERVICE, topology
from farmiq.contracts import bus, event_types
from farmiq.kit.amqp import Delivery, Publisher
from support import analytics_events as events
from support.query_api import TOKEN, QueryApi
from support.rabbitmq import NewVirtualHost
from support.service_process import running
from support.stored_months import StoppedClock
from support.waiting import eventually

NOW = datetime(2025, 1, 1, 12, tzinfo=UTC)
NAMES = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e"
TENANT, BARN = f"{NAMES}0002", f"{NAMES}0004"


def documented(event_type: str, at: str, session: str | None, **payload: Any) -> Delivery:
    body = {
        "event_id": str(uuid4()),
        "event_type": event_type,
        "tenant_id": TENANT,
        "farm_id": f"{NAMES}0003",
        "barn_id": BARN,
        "device_id": f"{NAMES}0005",
        "session_id": session,
        "occurred_at": at,
        "trace_id": "trace-id-123",
        "payload": payload,
    }
    return events.message(event_type, msgspec.json.encode(body))


def document() -> list[Delivery]:
    """The examples of the document, in an order in which they never come."""
    session, result = f"{NAMES}0300", f"{NAMES}0500"
    return [
        documented(
            event_types.INFERENCE_COMPLETED, "2025-01-01T10:06:00Z", session,
            inference_result_id=result, predicted_weight_kg=121.3, confidence=0.94, model_version="weighvision-v1.2.0",
        ),
        documented(
            event_types.SESSION_FINALIZED, "2025-01-01T10:07:00Z", session,
            status="finalized", final_weight_kg=121.0, image_count=3, inference_result_id=result,
        ),
        documented(
            event_types.TELEMETRY_AGGREGATED, "2025-01-01T10:00:00Z", None,
            metric_type="temperature", aggregation_window="1h", avg_value=25.8, min_value=24.5, max_value=27.2, unit="C",
        ),
        documented(
            event_types.TELEMETRY_INGESTED, "2025-01-01T10:00:00Z", None,
            metric_type="temperature", metric_value=26.4, unit="C",
        ),
        documented(
            event_types.SESSION_CREATED, "2025-01-01T10:05:00Z", session,
            status="created", batch_id=f"{NAMES}0400", initial_weight_kg=120.5,
        ),
    ]  # fmt: skip


@asynccontextmanager
async def service(database_url: str, amqp_url: str) -> AsyncIterator[QueryApi]:
    environ = {
        "DATABASE_URL": database_url,
        "AMQP_URL": amqp_url,
        "ADMIN_TOKEN": TOKEN,
        "JOB_SCHEDULER_ENABLED": "false",
        "RECOMPUTE_DEBOUNCE_MS": "0",
        "RECOMPUTE_POLL_MS": "20",
    }
    async with (
        running(serve, SERVICE, environ, StoppedClock(NOW)) as url,
        aiohttp.ClientSession() as session,
    ):
        yield QueryApi(session, url)


async def publish(publisher: Publisher, deliveries: list[Delivery]) -> None:
    for one in deliveries:
        await publisher.publish(one.exchange, one.routing_key, one.body, message_id=str(uuid4()))


async def test_the_documents_events_become_a_day_and_poison_goes_aside(
    cloud_url: str, new_vhost: NewVirtualHost
) -> None:
    amqp_url = new_vhost()
    publisher = Publisher(amqp_url, name="test", topology=topology())
    await publisher.start()
    await publisher.wait_connected()
    poison = [
        events.message(event_types.TELEMETRY_AGGREGATED, b"{"),
        events.message(event_types.SESSION_CREATED, b'{"event_id": 5}'),
        documented(event_types.WEIGHT_RECORDED, "2025-01-01T10:06:00Z", None, weight_kg=3.0),
    ]
    # A day's aggregate tells nothing that its hours do not.
    day = events.message(event_types.TELEMETRY_AGGREGATED, document()[2].body.replace(b'"1h"', b'"1d"'))
    await publish(publisher, [*document(), *poison, day])
    async with service(cloud_url, amqp_url) as ask:

        async def is_computed() -> Any:
            found = await ask.get("/api/v1/analytics/kpis", tenant_id=TENANT)
            rows = {one["scope"]: one for one in found["kpis"] if one["day"] == "2025-01-01"}
            is_whole = "batch" in rows and rows["batch"]["batch_id"] and rows["batch"]["vision"]
            return rows if is_whole and rows["barn"]["comfort"] else None

        rows = await eventually(is_computed, 30.0, "the day to be computed")
        assert rows["batch"]["batch_id"] == f"{NAMES}0400"
        assert rows["batch"]["weights"]["mean_kg"] == 121.0
        assert round(rows["batch"]["vision"]["mean_error_kg"], 6) == 0.3
        assert rows["barn"]["comfort"]["temperature_mean_c"] == 25.8
        await publish(publisher, document())

        async def is_quiet() -> bool:
            waiting = await publisher.depths([bus.ANALYTICS_KPI_QUEUE, bus.dlq_for(SERVICE)])
            return waiting == {bus.ANALYTICS_KPI_QUEUE: 0, bus.dlq_for(SERVICE): len(poison)}

        await eventually(is_quiet, 30.0, "the queue to be empty and the poison to be set aside")
        again = await is_computed()
        assert again["batch"]["weights"] == rows["batch"]["weights"]
    await publisher.stop()
