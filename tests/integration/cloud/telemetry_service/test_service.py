"""The service as it runs: what another client publishes is stored once, told on, and read with a viewer's token."""

from pathlib import Path
from typing import Any

import aio_pika
import aiohttp
import msgspec

from farmiq.cloud.telemetry_service.main import serve
from farmiq.cloud.topology import topology
from farmiq.contracts import bus, event_types
from farmiq.kit.amqp import Publisher
from farmiq.kit.postgres import Pool
from support.bus_queue import bind, take_all
from support.cloud_queries import viewer_of
from support.rabbitmq import NewVirtualHost
from support.service_process import running
from support.waiting import eventually

VECTORS = Path(__file__).parents[3] / "unit" / "contracts" / "vectors"
TENANT = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0002"
SESSION = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0300"
AROUND = {"tenant_id": TENANT, "from": "2025-01-01T00:00:00Z", "to": "2025-01-02T00:00:00Z"}
TOLD = "test.told.queue"


async def publish_examples(amqp_url: str) -> None:
    """Every example of the document, twice, by a client that is not ours."""
    connection = await aio_pika.connect(amqp_url)
    async with connection:
        channel = await connection.channel()
        for vector in sorted(VECTORS.glob("bus.*.json")) * 2:
            body = vector.read_bytes()
            event_type = msgspec.json.decode(body)["event_type"]
            exchange = await channel.get_exchange(bus.exchange_for(event_type), ensure=False)
            await exchange.publish(aio_pika.Message(body), event_type, mandatory=True)


async def test_what_another_client_publishes_is_stored_once_told_on_and_read_with_a_token(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    amqp_url = new_vhost()
    environ = {
        "DATABASE_URL": cloud_url,
        "AMQP_URL": amqp_url,
        "ADMIN_TOKEN": "for-this-test",
        "AGGREGATED_EVENT_GRACE_SECONDS": "0",
    }
    publisher = Publisher(amqp_url, name="test", topology=topology())
    await publisher.start()
    await publisher.wait_connected()
    await publisher.stop()
    await bind(amqp_url, TOLD, bus.TELEMETRY_EXCHANGE, event_types.TELEMETRY_AGGREGATED)
    await publish_examples(amqp_url)
    headers = {"authorization": f"Bearer {await viewer_of(cloud_pool, TENANT)}"}
    async with (
        running(serve, "cloud-telemetry-service", environ) as url,
        aiohttp.ClientSession(url, headers=headers) as session,
    ):

        async def ask(path: str, **query: str) -> Any:
            async with session.get(path, params=query) as answer:
                return await answer.json()

        async def is_complete() -> bool:
            view = await ask(f"/api/v1/weighvision/sessions/{SESSION}", tenant_id=TENANT)
            return bool(view.get("inferences")) and view["session"]["status"] == "finalized"

        async def is_told() -> bool:
            return bool(await cloud_pool.fetchval("SELECT count(*) = 0 FROM telemetry_agg_unsent"))

        await eventually(is_complete, 60.0, "the session")
        metrics = await ask("/api/v1/telemetry/metrics", tenant_id=TENANT)
        assert [one["metric_type"] for one in metrics["metrics"]] == ["temperature"]
        await eventually(is_told, 60.0, "the aggregates on the bus")
    for table in ("weight_sessions", "inference_results", "sync_batches", "telemetry_raw"):
        assert await cloud_pool.fetchval(f"SELECT count(*) FROM {table}") == 1, table  # noqa: S608 - ours
    told = [msgspec.json.decode(one.payload) for one in await take_all(amqp_url, TOLD)]
    own = [one for one in told if "revision" in one]
    assert sorted((one["aggregation_window"], one["count"]) for one in own) == [("1d", 1), ("1h", 1)]
