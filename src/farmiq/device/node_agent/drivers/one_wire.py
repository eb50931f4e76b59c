"""Thermometers on a 1-Wire bus (DS18B20 and its family), as the kernel's `w1_therm` shows them.

A conversion takes up to 750 ms, and a bus reads one thermometer after the other: give the device an interval to match.
"""

import re
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from farmiq.device.node_agent.drivers.own_threads import BadReading, ThreadedDriver
from farmiq.device.node_agent.drivers.plugin import Channel, Device, Pace, Plugin
from farmiq.kit.clock import Clock

# What the chip holds between power-on and its first conversion. It looks like a warm summer's roof and means "no power".
_POWER_ON_MILLIDEGREES = 85_000
_SCRATCHPAD = re.compile(r"(?P<bytes>(?:[0-9a-f]{2} ){9}): crc=[0-9a-f]{2} (?P<verdict>YES|NO)")
_VALUE = re.compile(r"\bt=(?P<value>-?[0-9]+)\s*$")


class OneWireChannel(Channel, frozen=True, kw_only=True):
    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{2}-[0-9a-f]{12}$")]


class OneWireDevice(Device, frozen=True, kw_only=True):
    folder: str = "/sys/bus/w1/devices"
    channel: Annotated[tuple[OneWireChannel, ...], Meta(min_length=1)]


def read_thermometer(folder: Path) -> float:
    """In degrees Celsius. `w1_slave` carries the checksum and is preferred; some kernels have `temperature` only."""
    try:
        millidegrees = _checked((folder / "w1_slave").read_text(encoding="ascii", errors="replace"))
    except FileNotFoundError:
        millidegrees = _number((folder / "temperature").read_text(encoding="ascii", errors="replace"))
    if millidegrees == _POWER_ON_MILLIDEGREES:
        raise BadReading("85.0 C is what the chip holds after power-on: it has not measured")
    return millidegrees / 1000


def _checked(text: str) -> int:
    scratchpad = _SCRATCHPAD.search(text)
    value = _VALUE.search(text)
    if scratchpad is None or (scratchpad["verdict"] == "YES" and value is None):
        raise BadReading(f"w1_slave says {text[:80]!r}")
    if scratchpad["verdict"] == "NO" or value is None:
        raise BadReading("the checksum is wrong")
    if not scratchpad["bytes"].strip("0 "):
        raise BadReading("nine zeros, whose checksum is right: the data line is shorted, or the chip is gone")
    return int(value["value"])


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadReading(f"temperature says {text[:40]!r}") from error


def _open(device: OneWireDevice, pace: Pace, _clock: Clock) -> ThreadedDriver:
    folder = Path(device.folder)
    return ThreadedDriver([partial(read_thermometer, folder / one.id) for one in device.channel], pace.timeout_seconds)


PLUGIN = Plugin(OneWireDevice, _open)
