"""A node as the gateway sees it: publishes, and believes only what it is told on its acknowledgement topic."""

from uuid import UUID, uuid4

from farmiq.contracts.ack import DeviceAck
from farmiq.kit.mqtt import BrokerAway, Message
from support.ack_listener import AckListener
from support.mosquitto import Broker
from support.telemetry import batch_message
from support.waiting import eventually


class Device(AckListener):
    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, "node-1", "iot/node-1/ack", self._believe)
        self.stream = uuid4()
        self.acked_seq = 0

    async def __aenter__(self) -> "Device":
        await super().__aenter__()
        return self

    async def send(self, first: int, last: int, event_id: UUID | None = None) -> None:
        await self.send_message(batch_message(self.stream, first, last, event_id=event_id))

    async def send_message(self, message: Message) -> None:
        await self.mqtt.publish(message.topic, message.payload)

    async def send_until_acked(self, last: int) -> None:
        """What a node does after a silence: send again everything it was not told of."""

        async def is_acked() -> bool:
            try:
                await self.mqtt.wait_connected()
                await self.send(self.acked_seq + 1, last)
            except BrokerAway:
                return False
            return await self._heard(last)

        await eventually(is_acked, 60.0, f"an acknowledgement of {last}")

    async def until_acked(self, last: int) -> None:
        """Sending nothing again: whoever has it says so."""

        async def is_told() -> bool:
            return self.acked_seq >= last

        await eventually(is_told, 60.0, f"an acknowledgement of {last}")

    async def _heard(self, last: int) -> bool:
        async def is_told() -> bool:
            return self.acked_seq >= last

        try:
            return await eventually(is_told, 1.0)
        except AssertionError:
            return False

    def _believe(self, ack: DeviceAck) -> None:
        if ack.stream_id == self.stream:
            self.acked_seq = max(self.acked_seq, ack.acked_seq)
