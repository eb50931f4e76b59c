"""A client to be killed: takes messages without acknowledging them, and says so.

Arguments: URL, client id, topic to subscribe to, how many messages to take, topic of the will.
"""

import asyncio
import sys

from farmiq.kit.mqtt import MqttClient, Will


async def main(url: str, client_id: str, topic: str, count: int, will_topic: str) -> None:
    client = MqttClient(url, client_id=client_id, subscriptions=[topic], will=Will(will_topic, b"offline"))
    await client.start()
    await client.wait_connected()
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    taken = 0
    while taken < count:
        taken += len(await client.next_batch(count, 0.1))
    sys.stdout.write("taken\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]))
