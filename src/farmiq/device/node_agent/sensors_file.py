"""Which sensors this node has: a TOML file with one `[[device]]` for each thing that is read together.

Every wrong key is named with what is allowed, and nothing starts before the whole file is right: a sensor that was forgotten
over a typing error would be missed only when its data is.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farmiq.device.handover import CHANNELS_MAX, ChannelName
from farmiq.device.node_agent.drivers import Device, Driver, Pace, Plugin
from farmiq.device.node_agent.plugins import plugin_named
from farmiq.device.toml_tables import BadTable, as_struct
from farmiq.kit.clock import Clock
from farmiq.kit.settings import BadSettings

TIMEOUT_SECONDS_MAX = 5.0
"""When the file gives none. A read gets 70 % of its interval, and at most this."""


class BadSensorsFile(BadSettings):
    """The sensors file cannot be used. The message names each wrong key and what is allowed."""

    code = "bad_sensors_file"


@dataclass(frozen=True, slots=True)
class Equipment:
    """A device of the file, checked, with the driver that reads it."""

    name: str
    device: Device
    plugin: Plugin[Any]
    pace: Pace

    def open(self, clock: Clock) -> Driver:
        return self.plugin.open(self.device, self.pace, clock)


def load_sensors(path: Path, interval_ms: int) -> list[Equipment]:
    """`interval_ms` is for the devices that name none of their own."""
    found: list[Equipment] = []
    problems: list[str] = []
    for at, table in enumerate(_tables(path)):
        try:
            found.append(_equipment(table, f"device[{at}]", interval_ms))
        except BadTable as error:
            problems.append(str(error))
    problems += _clashes(found)
    if problems:
        raise BadSensorsFile(f"NODE_AGENT_SENSORS={path}: " + "; ".join(problems))
    return found


def channel_table(equipment: Sequence[Equipment]) -> list[ChannelName]:
    """All channels, in the file's order: a sample names its channel by the place in this list."""
    return [
        ChannelName(channel.metric, channel.unit, channel.sensor) for one in equipment for channel in one.device.channel
    ]


def equip(name: str, device: Device, plugin: Plugin[Any], interval_ms: int) -> Equipment:
    interval_seconds = (device.interval_ms or interval_ms) / 1000
    timeout_seconds = min(0.7 * interval_seconds, TIMEOUT_SECONDS_MAX)
    if device.timeout_ms is not None:
        timeout_seconds = device.timeout_ms / 1000
        if timeout_seconds > 0.9 * interval_seconds:
            allowed = f"at most {int(900 * interval_seconds)}, nine tenths of the interval"
            raise BadTable(f"{name}.timeout_ms: {device.timeout_ms} is not allowed: {allowed}")
    return Equipment(device.name or name, device, plugin, Pace(interval_seconds, timeout_seconds))


def _tables(path: Path) -> list[Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSensorsFile(f"NODE_AGENT_SENSORS={path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSensorsFile(f"NODE_AGENT_SENSORS={path} is not TOML: {error}") from error
    tables = content.pop("device", None)
    if content:
        raise BadSensorsFile(f"NODE_AGENT_SENSORS={path}: unknown key {min(content)!r}: allowed is [[device]]")
    if not isinstance(tables, list) or not tables:
        raise BadSensorsFile(f"NODE_AGENT_SENSORS={path} describes no sensor: at least one [[device]] is needed")
    return tables


def _equipment(table: Any, place: str, interval_ms: int) -> Equipment:
    if not isinstance(table, dict) or not isinstance(table.get("driver"), str):
        raise BadTable(f"{place}.driver is missing: the name of a driver, in quotes")
    plugin = plugin_named(table["driver"], place)
    return equip(place, as_struct(table, plugin.device, place), plugin, interval_ms)


def _clashes(equipment: Sequence[Equipment]) -> Iterator[str]:
    channels = channel_table(equipment)
    if len(channels) > CHANNELS_MAX:
        yield f"{len(channels)} channels: a node has at most {CHANNELS_MAX}"
    for (metric, sensor), count in Counter((one.metric, one.sensor) for one in channels).items():
        if count > 1:
            yield f"metric {metric!r} of sensor {sensor!r} is described {count} times: once is allowed"
