"""A consumer to be killed: takes messages without acknowledging them, and says so. Arguments: URL, queue, how many to take."""

import asyncio
import sys

from farmiq.kit.amqp import Consumer


async def main(url: str, queue: str, count: int) -> None:
    consumer = Consumer(url, queue, name="taker", prefetch=count)
    await consumer.start()
    taken = 0
    while taken < count:
        taken += len(await consumer.next_batch(count, 0.1))
    sys.stdout.write("taken\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
