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
        self.retry_after: dict[str, float] = {}
        """The longest time that each device was told to wait, by its acknowledgement topic."""
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
                ack = decode(DeviceAck, message.payload, max_bytes=1 << 20)
                if isinstance(ack.retry_after_seconds, float):
                    longest = max(ack.retry_after_seconds, self.retry_after.get(message.topic, 0.0))
                    self.retry_after[message.topic] = longest
                self._hear(ack)
            self.mqtt.acknowledge(messages)
