"""Several replicas of the entrance on one database and one bus."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack

from farmiq.cloud.ingestion.main import serve
from farmiq.contracts import bus
from farmiq.kit.postgres import Pool
from support.bus_queue import take_all
from support.entrance import SERVICE, event, let_edge_in, remembered, send, until_ready
from support.rabbitmq import NewVirtualHost
from support.service_process import running


async def test_the_same_events_at_every_replica_at_once_are_accepted_once_each(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    """Each batch in another order: whoever wrote its keys in the order in which they came would deadlock here."""
    amqp_url, rng = new_vhost(), random.Random(5)
    await let_edge_in(cloud_pool)
    events = [event() for _ in range(60)]
    async with AsyncExitStack() as replicas:
        environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}
        urls = [await replicas.enter_async_context(running(serve, SERVICE, environ)) for _ in range(3)]
        for url in urls:
            await until_ready(url)
        batches = [(url, rng.sample(events, 50)) for _ in range(8) for url in urls]
        answers = await asyncio.gather(*(send(url, *batch) for url, batch in batches))
    assert [status for status, _, _ in answers] == [200] * len(batches)
    results = Counter(
        (result["event_id"], result["status"]) for _, answer, _ in answers for result in answer["results"]
    )
    assert {event_id: count for (event_id, status), count in results.items() if status == "accepted"} == {
        one["event_id"]: 1 for one in events
    }
    assert {status for _, status in results} == {"accepted", "duplicate"}
    assert await remembered(cloud_pool) == sorted(one["event_id"] for one in events)
    arrived = Counter(str(one.event_id) for one in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE))
    assert arrived == Counter(one["event_id"] for one in events)
