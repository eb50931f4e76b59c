"""The consumer that everybody writes first, on aio-pika: one message, one INSERT, one commit, one acknowledgement.

    python cloud_plain_consumer.py QUEUE COUNT

DATABASE_URL and AMQP_URL are in the environment. Writes the same rows into the same table as cloud-telemetry-service and keeps
no aggregates. Prints how many seconds passed from its first message until its last acknowledgement.
"""

import asyncio
import json
import os
import sys
import time
from datetime import datetime
from typing import Any
from uuid import UUID

import aio_pika
import asyncpg
import uvloop

PREFETCH = 200
_INSERT = """
INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value, unit)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING
"""


async def consume(queue_name: str, count: int) -> float:
    database = await asyncpg.connect(os.environ["DATABASE_URL"])
    bus = await aio_pika.connect(os.environ["AMQP_URL"])
    channel = await bus.channel()
    await channel.set_qos(prefetch_count=PREFETCH)
    queue = await channel.get_queue(queue_name)
    begun_at = 0.0
    async with queue.iterator() as messages:
        async for message in messages:
            begun_at = begun_at or time.perf_counter()
            await database.execute(_INSERT, *_row(json.loads(message.body)))
            await message.ack()
            count -= 1
            if count == 0:
                break
    seconds = time.perf_counter() - begun_at
    await bus.close()
    await database.close()
    return seconds


def _row(event: dict[str, Any]) -> tuple[Any, ...]:
    payload = event["payload"]
    return (
        UUID(event["event_id"]), event["tenant_id"], event["farm_id"], event["barn_id"], event["device_id"],
        datetime.fromisoformat(event["occurred_at"]), payload["metric_type"], payload["metric_value"], payload["unit"],
    )  # fmt: skip


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(consume(sys.argv[1], int(sys.argv[2]))))


if __name__ == "__main__":
    main()
