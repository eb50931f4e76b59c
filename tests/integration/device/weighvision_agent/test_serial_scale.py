"""A serial scale over a pty: garbage, half frames, a cable that is pulled and comes back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from farmiq.device.weighvision_agent.drivers import DriverFault, Weight
from farmiq.device.weighvision_agent.drivers.serial_scale import SerialScale, SerialScaleTable
from farmiq.kit.clock import Clock
from integration.device.weighvision_agent.station_world import SerialLine, line_of
from support.waiting import wait_for


def toledo_of(kg: float) -> bytes:
    frame = b"\x02\x2c\x30\x20%6d%6d\r" % (round(kg * 100), 0)
    return frame + bytes([-sum(frame) & 0x7F])


class Reader:
    def __init__(self, path: Path, protocol: Literal["ascii", "toledo"]) -> None:
        table = SerialScaleTable(driver="serial", port=str(path), protocol=protocol, checksum=protocol == "toledo")
        self.scale = SerialScale(table, Clock())
        self.faults: list[str] = []

    def hears(self, kg: float) -> Weight:
        def heard() -> Weight | None:
            try:
                return next((weight for weight in self.scale.read() if weight.weight_kg == kg), None)
            except DriverFault as fault:
                self.faults.append(str(fault))
                return None

        found = wait_for(heard, 10, f"{kg} kg from the scale")
        assert found is not None
        return found


@pytest.fixture
def port(tmp_path: Path) -> Path:
    return tmp_path / "ttyUSB0"


@pytest.fixture(params=["ascii", "toledo"])
def protocol(request: pytest.FixtureRequest) -> Literal["ascii", "toledo"]:
    return "ascii" if request.param == "ascii" else "toledo"


@pytest.fixture
def line(port: Path, protocol: str) -> Iterator[SerialLine]:
    line = SerialLine(port, line_of if protocol == "ascii" else toledo_of)
    yield line
    line.end()


def test_weights_come_as_they_are_said(line: SerialLine, port: Path, protocol: Literal["ascii", "toledo"]) -> None:
    reader = Reader(port, protocol)
    line.kg = 12.34
    first = reader.hears(12.34)
    line.kg = 80.5
    second = reader.hears(80.5)
    assert second.at > first.at
    assert reader.faults == []
    reader.scale.close()


def test_garbage_and_half_frames_are_passed_over(
    line: SerialLine, port: Path, protocol: Literal["ascii", "toledo"]
) -> None:
    reader = Reader(port, protocol)
    line.kg = 50.0
    reader.hears(50.0)
    line.kg = None
    frame = line_of(60.0) if protocol == "ascii" else toledo_of(60.0)
    for rubbish in (frame[:-4], b"\x00\xff" * 100, b"\x02" * 50, frame[3:], b"\r\n", frame[: len(frame) // 2]):
        line.say(rubbish)
    line.kg = 70.0
    reader.hears(70.0)
    assert reader.faults == []
    reader.scale.close()


def test_a_cable_that_was_pulled_and_plugged_in_again_is_found_again(
    line: SerialLine, port: Path, protocol: Literal["ascii", "toledo"]
) -> None:
    reader = Reader(port, protocol)
    line.kg = 50.0
    reader.hears(50.0)
    line.pull()

    def fails() -> bool:
        try:
            reader.scale.read()
        except DriverFault as fault:
            reader.faults.append(str(fault))
        return bool(reader.faults)

    wait_for(fails, 10, "the missing cable to be noticed")
    assert str(port) in reader.faults[0]
    line.kg = 51.0
    line.plug()
    reader.hears(51.0)
    reader.scale.close()


def test_a_scale_that_says_nothing_is_waited_for_and_not_for_ever(line: SerialLine, port: Path) -> None:
    reader = Reader(port, "ascii")
    line.kg = None
    assert reader.scale.read() == []
    reader.scale.close()
