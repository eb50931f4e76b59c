"""Every kind of sensor at once, in the real agent."""

import sys
from pathlib import Path

from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from farmiq.stack.ports import free_port
from integration.device.agent_world import on_disk, status
from integration.device.node_world import Node
from support.waiting import eventually

SENSORS = """
[[device]]
driver = "simulated"
channel = [{{ metric = "temperature", unit = "C", sensor = "sim", mean = 20 }}]

[[device]]
driver = "hwmon"
folder = "{folder}/hwmon"
channel = [{{ metric = "temperature", unit = "C", sensor = "board", chip = "board", input = "temp1_input" }}]

[[device]]
driver = "one_wire"
folder = "{folder}/w1"
channel = [{{ metric = "temperature", unit = "C", sensor = "ds18b20", id = "28-0316a2798bff" }}]

[[device]]
driver = "modbus"
host = "127.0.0.1"
port = {port}
channel = [{{ metric = "co2", unit = "ppm", sensor = "co2", register = 10, scale = 0.5 }}]

[[device]]
driver = "command"
interval_ms = 500
command = ["/bin/echo", "7.5"]
channel = [{{ metric = "weight", unit = "kg", sensor = "once" }}]

[[device]]
driver = "command"
mode = "lines"
stale_ms = 60000
command = ["{python}", "-c", "import os, time\\nwhile True: print('pid', os.getpid(), flush=True); time.sleep(0.1)"]
channel = [{{ metric = "weight", unit = "kg", sensor = "lines", key = "pid" }}]
"""


def write_sensors(node: Node, port: int) -> None:
    chip = node.folder / "hwmon" / "hwmon7"
    chip.mkdir(parents=True)
    (chip / "name").write_text("board\n")
    (chip / "temp1_input").write_text("41000\n")
    thermometer = node.folder / "w1" / "28-0316a2798bff"
    thermometer.mkdir(parents=True)
    (thermometer / "w1_slave").write_text(
        "72 01 4b 46 7f ff 0e 10 57 : crc=57 YES\n72 01 4b 46 7f ff 0e 10 57 t=23125\n"
    )
    path = node.folder / "sensors.toml"
    path.write_text(SENSORS.format(folder=node.folder, port=port, python=sys.executable))
    node.variables |= {"NODE_AGENT_SENSORS": str(path), "SAMPLE_INTERVAL_MS": "200"}


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_each_kind_of_sensor_is_sampled_beside_the_others_and_nothing_is_left_running(node: Node) -> None:
    port = free_port()
    registers = [SimData(10, values=[1600], datatype=DataType.REGISTERS)]
    server = ModbusTcpServer([SimDevice(1, simdata=registers)], address=("127.0.0.1", port))
    await server.serve_forever(background=True)
    write_sensors(node, port)
    with node.agent() as agent, node.forwarder():

        async def enough() -> bool:
            figures = status(node)
            return int(figures.get("last_captured_seq", 0)) >= 100 and "faulty_sensors" not in figures

        await eventually(enough, seconds=60, what="samples of every sensor, none of them faulty")
        assert agent.stop() == 0
    await server.shutdown()  # type: ignore[no-untyped-call]  # pymodbus's server is typed in parts
    frames, losses = on_disk(node)
    assert losses == []
    assert {frame.channel for frame in frames} == set(range(6))
    assert {frame.value for frame in frames if frame.channel == 1} == {41.0}
    assert {frame.value for frame in frames if frame.channel == 2} == {23.125}
    assert {frame.value for frame in frames if frame.channel == 3} == {800.0}
    assert {frame.value for frame in frames if frame.channel == 4} == {7.5}
    (pid,) = {int(frame.value) for frame in frames if frame.channel == 5}
    assert not is_running(pid)
