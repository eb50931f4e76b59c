"""Real files in a tree like the kernel's."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from farmiq.device.node_agent.drivers import Driver, Fault, Pace
from farmiq.device.node_agent.drivers.hwmon import PLUGIN, HwmonChannel, HwmonDevice
from farmiq.kit.clock import Clock
from support.waiting import eventually


def chip(root: Path, number: int, name: str, files: Mapping[str, str], address: str | None = None) -> Path:
    folder = root / f"hwmon{number}"
    folder.mkdir(parents=True)
    for file, text in {"name": name, **files}.items():
        (folder / file).write_text(f"{text}\n", encoding="ascii")
    if address is not None:
        place = root.parent / "devices" / address
        place.mkdir(parents=True)
        (folder / "device").symlink_to(place)
    return folder


def channel(chip: str, input: str | None = None, label: str | None = None, address: str | None = None) -> HwmonChannel:  # noqa: A002 - the file's word
    return HwmonChannel(
        metric="temperature", unit="C", sensor="s1", chip=chip, input=input, label=label, address=address
    )


def driver(root: Path, *channels: HwmonChannel, timeout_seconds: float = 5.0) -> Driver:
    device = HwmonDevice(driver="hwmon", folder=str(root), channel=channels)
    return PLUGIN.open(device, Pace(10.0, timeout_seconds), Clock())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "hwmon"


async def test_inputs_are_found_by_label_or_file_and_come_in_whole_units(root: Path) -> None:
    chip(root, 0, "cpu_thermal", {"temp1_input": "48312", "temp1_label": "Package", "temp2_input": "-5250"})
    chip(
        root, 1, "ina219", {"in1_input": "12041", "curr1_input": "350", "power1_input": "4210000", "fan1_input": "900"}
    )
    read = driver(
        root,
        channel(chip="cpu_thermal", label="Package"),
        channel(chip="cpu_thermal", input="temp2_input"),
        channel(chip="ina219", input="in1_input"),
        channel(chip="ina219", input="curr1_input"),
        channel(chip="ina219", input="power1_input"),
        channel(chip="ina219", input="fan1_input"),
    )
    assert await read.read() == [48.312, -5.25, 12.041, 0.35, 4.21, 900.0]
    await read.close()


async def test_a_chip_that_got_another_number_is_found_and_never_mistaken_for_the_one_that_has_its_old(
    root: Path,
) -> None:
    chip(root, 0, "board", {"temp1_input": "20000"})
    chip(root, 1, "pond", {"temp1_input": "4000"})
    read = driver(root, channel(chip="board", input="temp1_input"), channel(chip="pond", input="temp1_input"))
    assert await read.read() == [20.0, 4.0]
    (root / "hwmon0").rename(root / "hwmon2")
    (root / "hwmon1").rename(root / "hwmon0")
    assert await read.read() == [20.0, 4.0]
    for file in (root / "hwmon2").iterdir():
        file.unlink()
    (root / "hwmon2").rmdir()
    gone, pond = await read.read()
    assert (gone, pond) == (Fault(f"there is no chip board in {root}"), 4.0)
    await read.close()


async def test_of_two_chips_with_one_name_the_address_says_which(root: Path) -> None:
    chip(root, 0, "lm75", {"temp1_input": "21000"}, address="1-0048")
    chip(root, 1, "lm75", {"temp1_input": "22000"}, address="1-0049")
    read = driver(
        root, channel(chip="lm75", input="temp1_input", address="1-0049"), channel(chip="lm75", input="temp1_input")
    )
    second, either = await read.read()
    assert second == 22.0
    assert isinstance(either, Fault)
    assert "add `address`, one of 1-0048, 1-0049" in either.reason
    await read.close()


@pytest.mark.parametrize(
    ("content", "said"), [("", "is not a whole number"), ("warm", "is not a whole number"), (None, "No such file")]
)
async def test_a_file_that_holds_no_number_is_a_fault_of_its_own_channel_only(
    root: Path, content: str | None, said: str
) -> None:
    chip(root, 0, "board", {"temp1_input": "20000"} | ({} if content is None else {"temp2_input": content}))
    read = driver(root, channel(chip="board", input="temp2_input"), channel(chip="board", input="temp1_input"))
    bad, good = await read.read()
    assert isinstance(bad, Fault)
    assert said in bad.reason
    assert good == 20.0
    await read.close()


async def test_a_read_that_hangs_in_the_kernel_holds_up_no_other_and_works_again_when_it_comes_back(root: Path) -> None:
    """A pipe that nobody writes to hangs a reader just as a dead chip does."""
    folder = chip(root, 0, "board", {"temp1_input": "20000"})
    os.mkfifo(folder / "temp2_input")
    read = driver(
        root,
        channel(chip="board", input="temp2_input"),
        channel(chip="board", input="temp1_input"),
        timeout_seconds=0.1,
    )
    assert await read.read() == [Fault("no answer within 0.1 s"), 20.0]
    assert await read.read() == [Fault("the read before this one has not come back"), 20.0]
    with (folder / "temp2_input").open("w") as writer:
        (folder / "temp2_input").unlink()
        (folder / "temp2_input").write_text("31000\n")
        writer.write("99000\n")

    async def is_back() -> bool:
        return await read.read() == [31.0, 20.0]

    await eventually(is_back, what="the chip to be read again")
    await read.close()
