"""The consumer is killed between its commit and its acknowledgement, while edges go on sending."""

import asyncio
import re
from pathlib import Path
from urllib.request import urlopen

from farmiq.kit.postgres import Pool
from support.cloud_traffic import WORK_QUEUE, cloud, traffic, until_more_is_taken
from support.rabbitmq import NewVirtualHost
from support.service_process import ServiceProcess
from support.waiting import eventually

BETWEEN_COMMIT_AND_ACK = ("farmiq.kit.amqp:Consumer.acknowledge", "before", 5)


def redelivered(service: ServiceProcess) -> float:
    with urlopen(f"{service.url}/metrics", timeout=10) as answer:  # noqa: S310 - our own loopback address
        text = answer.read().decode()
    found = re.search(rf'farmiq_bus_messages_redelivered_total{{queue="{re.escape(WORK_QUEUE.name)}"}} (\S+)', text)
    return float(found[1]) if found else 0.0


async def test_consumer_killed_between_commit_and_ack_under_load_stores_every_sample_once(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost, run_folder: Path, tmp_path: Path
) -> None:
    async with cloud(cloud_pool, cloud_url, new_vhost(), run_folder, tmp_path) as here:
        ingestion = await here.ingestion()
        async with traffic(ingestion.url) as edges:
            first = await here.telemetry_service(dies=BETWEEN_COMMIT_AND_ACK)
            await asyncio.to_thread(first.wait_for_death)
            committed = await here.stored()
            second = await here.telemetry_service()

            async def comes_again() -> bool:
                return await asyncio.to_thread(redelivered, second) > 0

            await eventually(comes_again, 60.0, "what was committed and not acknowledged")
            await until_more_is_taken(edges, 100)
        await here.until_stored(edges)
        await here.stop(second)
        await here.check(edges)
        assert 0 < committed < await here.stored()
        assert set((await here.depths()).values()) == {0}
