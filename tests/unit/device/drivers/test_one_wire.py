"""Real files, with what the kernel writes into them."""

from pathlib import Path

import pytest

from farmiq.device.node_agent.drivers import Driver, Fault, Pace, Reading
from farmiq.device.node_agent.drivers.one_wire import PLUGIN, OneWireChannel, OneWireDevice
from farmiq.kit.clock import Clock

FIRST, SECOND = "28-0316a2798bff", "28-00000a1b2c3d"
GOOD = "72 01 4b 46 7f ff 0e 10 57 : crc=57 YES\n72 01 4b 46 7f ff 0e 10 57 t=23125\n"
COLD = "5e ff 4b 46 7f ff 02 10 e4 : crc=e4 YES\n5e ff 4b 46 7f ff 02 10 e4 t=-10125\n"
BAD_CHECKSUM = "72 01 4b 46 7f ff 0e 10 56 : crc=57 NO\n72 01 4b 46 7f ff 0e 10 56 t=23125\n"
POWER_ON = "50 05 4b 46 7f ff 0c 10 1c : crc=1c YES\n50 05 4b 46 7f ff 0c 10 1c t=85000\n"
SHORTED = "00 00 00 00 00 00 00 00 00 : crc=00 YES\n00 00 00 00 00 00 00 00 00 t=0\n"
FREEZING = "00 00 4b 46 7f ff 10 10 f1 : crc=f1 YES\n00 00 4b 46 7f ff 10 10 f1 t=0\n"


def thermometer(root: Path, name: str, **files: str) -> None:
    (root / name).mkdir()
    for file, text in files.items():
        (root / name / file).write_text(text, encoding="ascii")


def driver(root: Path, *ids: str) -> Driver:
    channels = tuple(OneWireChannel(metric="temperature", unit="C", sensor=one, id=one) for one in ids)
    return PLUGIN.open(OneWireDevice(driver="one_wire", folder=str(root), channel=channels), Pace(1.0, 0.7), Clock())


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"w1_slave": GOOD, "temperature": "1\n"}, 23.125),
        ({"w1_slave": COLD}, -10.125),
        ({"w1_slave": FREEZING}, 0.0),
        ({"temperature": "23125\n"}, 23.125),
        ({"w1_slave": BAD_CHECKSUM}, Fault("the checksum is wrong")),
        ({"w1_slave": POWER_ON}, Fault("85.0 C is what the chip holds after power-on: it has not measured")),
        ({"temperature": "85000\n"}, Fault("85.0 C is what the chip holds after power-on: it has not measured")),
        (
            {"w1_slave": SHORTED},
            Fault("nine zeros, whose checksum is right: the data line is shorted, or the chip is gone"),
        ),
        ({"w1_slave": ""}, Fault("w1_slave says ''")),
        ({"w1_slave": GOOD.splitlines()[0]}, Fault(f"w1_slave says {GOOD.splitlines()[0]!r}")),
        ({"temperature": "\n"}, Fault("temperature says '\\n'")),
    ],
)
async def test_what_the_kernel_writes_is_a_temperature_or_a_fault(
    tmp_path: Path, files: dict[str, str], expected: Reading
) -> None:
    thermometer(tmp_path, FIRST, **files)
    thermometer(tmp_path, SECOND, w1_slave=GOOD)
    read = driver(tmp_path, FIRST, SECOND)
    assert await read.read() == [expected, 23.125]
    await read.close()


async def test_a_thermometer_that_is_not_there_is_a_fault_until_it_is_plugged_in(tmp_path: Path) -> None:
    read = driver(tmp_path, FIRST)
    (absent,) = await read.read()
    assert isinstance(absent, Fault)
    assert FIRST in absent.reason
    thermometer(tmp_path, FIRST, w1_slave=GOOD)
    assert await read.read() == [23.125]
    await read.close()
