"""Registers behind a Modbus TCP gateway: one connection, shared by everything that is read through it.

A unit behind the gateway that keeps silent costs its time-out at every turn. So what failed last time is asked last, and in
turn: the healthy ones have been read by then.
"""

import asyncio
import logging
from typing import Annotated

from msgspec import Meta
from pymodbus.client import AsyncModbusTcpClient
from pymodbus.constants import ExcCodes
from pymodbus.exceptions import ModbusException
from pymodbus.pdu import ModbusPDU

from farmiq.device.node_agent.drivers.plugin import Channel, Device, Fault, Pace, Plugin, Reading
from farmiq.device.node_agent.drivers.registers import (
    Block,
    Kind,
    Place,
    Table,
    WordOrder,
    block_of,
    blocks,
    value_of,
    width,
)
from farmiq.kit.clock import Clock
from farmiq.kit.retry import Backoff

# It logs every request without an answer as an error. We report the sensor, once, with what it says here.
logging.getLogger("pymodbus").setLevel(logging.CRITICAL)

UnitId = Annotated[int, Meta(ge=0, le=255)]


class ModbusChannel(Channel, frozen=True, kw_only=True):
    register: Annotated[int, Meta(ge=0, le=65535)]
    table: Table = "holding"
    type: Kind = "uint16"
    word_order: WordOrder = "big"
    unit_id: UnitId | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.register + width(self.type) > 65536:
            raise ValueError(f"register {self.register}: {self.type} needs two registers, and 65535 is the last")


class ModbusDevice(Device, frozen=True, kw_only=True):
    host: Annotated[str, Meta(min_length=1)]
    port: Annotated[int, Meta(ge=1, le=65535)] = 502
    # For the channels that name no unit of their own.
    unit_id: UnitId = 1
    channel: Annotated[tuple[ModbusChannel, ...], Meta(min_length=1)]

    def places(self) -> list[Place]:
        return [
            Place(
                self.unit_id if one.unit_id is None else one.unit_id, one.table, one.register, one.type, one.word_order
            )
            for one in self.channel
        ]


class ModbusGateway:
    def __init__(self, device: ModbusDevice, pace: Pace, clock: Clock) -> None:
        self._address = f"{device.host}:{device.port}"
        self._places = device.places()
        self._blocks = blocks(self._places)
        self._timeout_seconds = pace.timeout_seconds
        self._clock = clock
        # One that is silent must leave time for the others, also in the first turn, when nobody knows which one that is.
        request_seconds = self._timeout_seconds / min(2, len(self._blocks))
        self._client = AsyncModbusTcpClient(
            device.host, port=device.port, timeout=request_seconds, retries=0, reconnect_delay=0
        )
        self._backoff = Backoff(base_seconds=0.5, cap_seconds=10.0)
        self._connect_at = clock.monotonic()
        self._turn = 0
        self._failed: dict[Block, int] = {}  # and in which turn

    async def read(self) -> list[Reading]:
        ends_at = self._clock.monotonic() + self._timeout_seconds
        if not await self._is_connected():
            return [Fault(f"no connection to {self._address}")] * len(self._places)
        self._turn += 1
        readings: list[Reading] = [Fault(f"no time left: others at {self._address} did not answer")] * len(self._places)
        has_answered = False
        todo = sorted(self._blocks, key=lambda one: self._failed.get(one, 0))
        for block in todo:
            if (left_seconds := ends_at - self._clock.monotonic()) <= 0:
                break
            answer = await self._ask(block, left_seconds)
            has_answered = has_answered or not isinstance(answer, Fault)
            if len(block.channels) > 1 and _is_wrong_address(answer):
                todo += self._split(block)
                continue
            for index, reading in self._readings(block, answer):
                readings[index] = reading
        if not has_answered:
            # A gateway that lost its power leaves a connection that looks alive for minutes.
            self._client.close()
        return readings

    async def close(self) -> None:
        self._client.close()

    async def _is_connected(self) -> bool:
        if self._client.connected:
            return True
        if self._clock.monotonic() < self._connect_at:
            return False
        if await self._client.connect():
            self._backoff.reset()
            return True
        self._connect_at = self._clock.monotonic() + self._backoff.next_seconds()
        return False

    async def _ask(self, block: Block, left_seconds: float) -> ModbusPDU | Fault:
        ask = self._client.read_holding_registers if block.table == "holding" else self._client.read_input_registers
        try:
            async with asyncio.timeout(left_seconds):
                return await ask(block.first, count=block.count, device_id=block.unit_id)
        except (ModbusException, TimeoutError):
            return Fault(f"unit {block.unit_id} at {self._address} did not answer")

    def _readings(self, block: Block, answer: ModbusPDU | Fault) -> list[tuple[int, Reading]]:
        if isinstance(answer, Fault):
            fault = answer
        elif answer.isError():
            fault = self._refusal(block, answer.exception_code)
        elif len(answer.registers) != block.count:
            fault = Fault(f"{len(answer.registers)} registers in the answer to {block.count}")
        else:
            self._failed.pop(block, None)
            return [(index, value_of(answer.registers, self._places[index], block.first)) for index in block.channels]
        self._failed[block] = self._turn
        return [(index, fault) for index in block.channels]

    def _split(self, block: Block) -> list[Block]:
        """One wrong address refuses everything that was asked for with it: from now on each is asked for alone."""
        singles = [block_of(self._places, index) for index in block.channels]
        self._blocks = [one for one in self._blocks if one != block] + singles
        return singles

    def _refusal(self, block: Block, code: int) -> Fault:
        try:
            meaning = ExcCodes(code).name.lower().replace("_", " ")
        except ValueError:
            meaning = "a code of its own"
        return Fault(f"unit {block.unit_id} at {self._address} refused register {block.first}: {code}, {meaning}")


def _is_wrong_address(answer: ModbusPDU | Fault) -> bool:
    wrong = (ExcCodes.ILLEGAL_ADDRESS, ExcCodes.ILLEGAL_VALUE)
    return not isinstance(answer, Fault) and answer.isError() and answer.exception_code in wrong


PLUGIN = Plugin(ModbusDevice, ModbusGateway)
