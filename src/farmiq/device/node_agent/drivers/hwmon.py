"""Chips that Linux shows in /sys/class/hwmon: thermometers on I2C, power monitors, fans, the processor itself.

`hwmon3` is a number that changes from boot to boot, so a chip is known by its name, and an input by its label or its file. They
are looked up at every read: a chip that was plugged out must never be mistaken for the one that got its number.
"""

import re
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from farmiq.device.node_agent.drivers.own_threads import BadReading, ThreadedDriver
from farmiq.device.node_agent.drivers.plugin import Channel, Device, Pace, Plugin
from farmiq.kit.clock import Clock

# The kernel counts in thousandths of a degree, volt, ampere or percent, and in millionths of a watt or joule.
_PER_UNIT = {"temp": 1e3, "in": 1e3, "curr": 1e3, "humidity": 1e3, "power": 1e6, "energy": 1e6}
_INPUT = re.compile(r"(?P<kind>[a-z]+)[0-9]+_(?:input|average)")


class HwmonChannel(Channel, frozen=True, kw_only=True):
    chip: Annotated[str, Meta(min_length=1)]
    # Which of several chips with one name: the last word of its `device` link, like "1-0048" on I2C.
    address: str | None = None
    label: str | None = None
    input: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.label is None) == (self.input is None):
            raise ValueError("either `label` or `input` is needed")
        if self.input is not None and not _INPUT.fullmatch(self.input):
            raise ValueError(f"input {self.input!r} is not allowed: a file like 'temp1_input' or 'power1_average'")


class HwmonDevice(Device, frozen=True, kw_only=True):
    folder: str = "/sys/class/hwmon"
    channel: Annotated[tuple[HwmonChannel, ...], Meta(min_length=1)]


def read_channel(folder: Path, channel: HwmonChannel) -> float:
    """In degrees, volts, amperes, percent, watts, joules, revolutions per minute: the kernel's unit without its prefix."""
    path = _input_of(_chip(folder, channel), channel)
    text = _text(path)
    try:
        number = int(text)
    except ValueError as error:
        raise BadReading(f"{path}: {text[:40]!r} is not a whole number") from error
    kind = _INPUT.fullmatch(path.name)
    return number / _PER_UNIT.get(kind["kind"] if kind else "", 1.0)


def _chip(folder: Path, channel: HwmonChannel) -> Path:
    found = [path for path in sorted(folder.iterdir()) if _is_chip(path, channel)]
    called = channel.chip if channel.address is None else f"{channel.chip} at {channel.address}"
    if not found:
        raise BadReading(f"there is no chip {called} in {folder}")
    if len(found) > 1:
        addresses = ", ".join((path / "device").resolve().name for path in found)
        raise BadReading(f"{len(found)} chips are called {called}: add `address`, one of {addresses}")
    return found[0]


def _is_chip(path: Path, channel: HwmonChannel) -> bool:
    try:
        is_named = _text(path / "name") == channel.chip
    except OSError:
        return False  # another chip is on its way out: its reader will be told
    return is_named and channel.address in (None, (path / "device").resolve().name)


def _input_of(chip: Path, channel: HwmonChannel) -> Path:
    if channel.input is not None:
        return chip / channel.input
    for path in sorted(chip.glob("*_label")):
        if _text(path) == channel.label:
            return path.with_name(path.name.removesuffix("_label") + "_input")
    raise BadReading(f"chip {channel.chip} has no label {channel.label!r}")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()


def _open(device: HwmonDevice, pace: Pace, _clock: Clock) -> ThreadedDriver:
    folder = Path(device.folder)
    return ThreadedDriver([partial(read_channel, folder, one) for one in device.channel], pace.timeout_seconds)


PLUGIN = Plugin(HwmonDevice, _open)
