"""Against pymodbus's own server, over real TCP."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pymodbus.constants import ExcCodes
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimAction, SimData, SimDevice

from farmiq.device.node_agent.drivers import Driver, Fault, Pace, Reading
from farmiq.device.node_agent.drivers.modbus import PLUGIN, ModbusChannel, ModbusDevice
from farmiq.kit.clock import Clock
from farmiq.stack.ports import free_port
from support.waiting import eventually

HALF = [*struct.unpack(">2H", struct.pack(">f", 26.5))]


def unit(number: int, registers: dict[int, list[int]], action: SimAction | None = None) -> SimDevice:
    """The same registers in both tables, unless an action says otherwise."""
    data = [SimData(address, values=values, datatype=DataType.REGISTERS) for address, values in registers.items()]
    return SimDevice(number, simdata=data, action=action)


@asynccontextmanager
async def serving(port: int, *units: SimDevice) -> AsyncIterator[list[bool]]:
    """Yields a list that grows by True with each connection and False with each end of one."""
    connections: list[bool] = []
    server = ModbusTcpServer(list(units), address=("127.0.0.1", port), trace_connect=connections.append)
    await server.serve_forever(background=True)
    try:
        yield connections
    finally:
        await server.shutdown()  # type: ignore[no-untyped-call]  # pymodbus's server is typed in parts


@asynccontextmanager
async def gateway(port: int, *channels: ModbusChannel, timeout_seconds: float = 5.0) -> AsyncIterator[Driver]:
    device = ModbusDevice(driver="modbus", host="127.0.0.1", port=port, channel=channels)
    driver = PLUGIN.open(device, Pace(10.0, timeout_seconds), Clock())
    try:
        yield driver
    finally:
        await driver.close()


def channel(register: int, **keys: object) -> ModbusChannel:
    return ModbusChannel(metric="m", unit="", sensor=f"r{register}", register=register, **keys)  # type: ignore[arg-type]  # its own keys


async def test_every_type_table_unit_and_word_order_over_one_connection() -> None:
    port = free_port()
    first = unit(1, {10: [0xFF38, 7], 20: [0xFFFF, 0xFF38], 30: [0x0001, 0x0000], 40: HALF, 50: HALF[::-1]})
    async with serving(port, first, unit(9, {10: [99]})) as connections:
        channels = (
            channel(11),
            channel(10, type="int16"),
            channel(20, type="int32"),
            channel(30, type="uint32", table="input"),
            channel(40, type="float32"),
            channel(50, type="float32", word_order="little", table="input"),
            channel(10, unit_id=9),
        )
        async with gateway(port, *channels) as driver:
            expected = [7.0, -200.0, -200.0, 65536.0, 26.5, 26.5, 99.0]
            assert await driver.read() == expected
            assert await driver.read() == expected
        assert connections[0] is True
        assert connections.count(True) == 1


async def test_neighbours_come_in_one_request() -> None:
    requests: list[tuple[int, int]] = []

    async def note(
        _code: int, _start: int, address: int, count: int, _now: list[int], _new: list[int] | list[bool] | None
    ) -> None:
        requests.append((address, count))

    port = free_port()
    async with (
        serving(port, unit(1, {10: [1, 2, 3, 4], 30: [5]}, note)),
        gateway(port, channel(12), channel(10, type="uint32"), channel(30)) as driver,
    ):
        assert await driver.read() == [3.0, 65538.0, 5.0]
    assert requests == [(10, 3), (30, 1)]


async def test_a_wrong_register_does_not_take_its_neighbours_along() -> None:
    port = free_port()
    async with (
        serving(port, unit(1, {10: [1, 2]})),
        gateway(port, channel(10), channel(11), channel(12), channel(13)) as driver,
    ):
        for _ in range(3):
            first, second, third, fourth = await driver.read()
            assert (first, second) == (1.0, 2.0)
            assert third == Fault(f"unit 1 at 127.0.0.1:{port} refused register 12: 2, illegal address")
            assert isinstance(fourth, Fault)


async def test_a_wrong_unit_is_named_and_the_right_ones_are_read() -> None:
    port = free_port()
    async with serving(port, unit(1, {10: [1]})), gateway(port, channel(10, unit_id=7), channel(10)) as driver:
        wrong, right = await driver.read()
        assert right == 1.0
        assert isinstance(wrong, Fault)
        assert f"unit 7 at 127.0.0.1:{port} refused register 10" in wrong.reason


async def test_an_exception_response_is_a_fault_with_its_meaning() -> None:
    async def busy(
        _code: int, _start: int, _address: int, _count: int, _now: list[int], _new: list[int] | list[bool] | None
    ) -> ExcCodes:
        return ExcCodes.DEVICE_BUSY

    port = free_port()
    async with serving(port, unit(1, {10: [1]}, busy)), gateway(port, channel(10)) as driver:
        assert await driver.read() == [Fault(f"unit 1 at 127.0.0.1:{port} refused register 10: 6, device busy")]


async def comes(driver: Driver, expected: list[Reading]) -> None:
    async def read() -> bool:
        return await driver.read() == expected

    await eventually(read, what=f"{expected}")


async def test_a_gateway_that_is_away_at_the_start_is_read_when_it_comes() -> None:
    port = free_port()
    async with gateway(port, channel(10), channel(11)) as driver:
        assert await driver.read() == [Fault(f"no connection to 127.0.0.1:{port}")] * 2
        async with serving(port, unit(1, {10: [1, 2]})):
            await comes(driver, [1.0, 2.0])


async def test_a_gateway_that_dies_and_comes_back_is_read_again() -> None:
    port = free_port()
    async with gateway(port, channel(10), timeout_seconds=0.5) as driver:
        async with serving(port, unit(1, {10: [1]})):
            await comes(driver, [1.0])
        await comes(driver, [Fault(f"no connection to 127.0.0.1:{port}")])
        async with serving(port, unit(1, {10: [2]})):
            await comes(driver, [2.0])
            assert await driver.read() == [2.0]


async def test_a_silent_unit_costs_the_others_nothing_and_is_read_when_it_speaks() -> None:
    speaks = asyncio.Event()

    async def silent(
        _code: int, _start: int, _address: int, _count: int, _now: list[int], _new: list[int] | list[bool] | None
    ) -> None:
        await speaks.wait()

    port = free_port()
    units = [unit(1, {10: [1]}, silent), unit(2, {10: [2]}), unit(3, {10: [3]})]
    async with (
        serving(port, *units),
        gateway(port, *(channel(10, unit_id=number) for number in (1, 2, 3)), timeout_seconds=0.4) as driver,
    ):
        for _ in range(3):
            assert await driver.read() == [Fault(f"unit 1 at 127.0.0.1:{port} did not answer"), 2.0, 3.0]
        speaks.set()
        await comes(driver, [1.0, 2.0, 3.0])


async def test_an_answer_that_comes_too_late_is_not_taken_for_the_answer_to_the_next_question() -> None:
    first = asyncio.Event()

    async def late_once(
        _code: int, _start: int, address: int, _count: int, _now: list[int], _new: list[int] | list[bool] | None
    ) -> None:
        if address == 10:
            await first.wait()
        else:
            first.set()

    port = free_port()
    async with (
        serving(port, unit(1, {10: [111], 20: [222]}, late_once)),
        gateway(port, channel(10), channel(20), timeout_seconds=0.4) as driver,
    ):
        late, next_one = await driver.read()
        assert isinstance(late, Fault)
        assert next_one == 222.0 or isinstance(next_one, Fault)
        await comes(driver, [111.0, 222.0])


async def test_a_gateway_that_accepts_and_never_answers_is_given_up_in_time_and_connected_anew() -> None:
    """Like one that lost its power: the connection looks alive."""
    opened: list[asyncio.StreamWriter] = []
    ended = asyncio.Semaphore(0)

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        while await reader.read(100):
            pass
        writer.close()
        ended.release()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, gateway(port, channel(10), channel(20), channel(30), timeout_seconds=0.2) as driver:
        for _ in range(3):
            async with asyncio.timeout(5):
                readings = await driver.read()
                await ended.acquire()
            assert [type(reading) for reading in readings] == [Fault] * 3
    assert len(opened) == 3
