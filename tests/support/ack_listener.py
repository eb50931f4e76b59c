"""Hears what the edge tells its devices."""

import asyncio
from collections.abc import Callable

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import decode
from farmiq.kit.mqtt import MqttClient
from support.mosquitto import Broker


class AckListener:
    """One MQTT client, from the beginning of the block to its end. Each acknowledgement goes to `hear`."""

    def __init__(self, broker: Broker, name: str, topic: str, hear: Callable[[DeviceAck], None]) -> None:
        self.mqtt = MqttClient(broker.url(name), client_id=name, subscriptions=[topic])
        self._hear = hear

    async def __aenter__(self) -> "AckListener":
        await self.mqtt.start()
        await self.mqtt.wait_connected()
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.cancel()
        await self.mqtt.stop()

    async def _listen(self) -> None:
        while messages := await self.mqtt.next_batch(100, 0.0):
            for message in messages:
                self._hear(decode(DeviceAck, message.payload, max_bytes=1 << 20))
            self.mqtt.acknowledge(messages)
