"""Any program that prints numbers: run at every turn, or kept running and listened to.

`mode = "once"`: it prints one number, or a JSON object with a number for each channel, and ends with 0.
`mode = "lines"`: it runs for good and prints lines, `name value`. A turn takes the newest value of each name.
"""

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from farmiq.device.node_agent.drivers.child import Child, ChildFailed
from farmiq.device.node_agent.drivers.plugin import Channel, Device, Driver, Fault, Pace, Plugin, Reading
from farmiq.device.node_agent.drivers.program_lines import ProgramLines
from farmiq.kit.clock import Clock

OUTPUT_BYTES_MAX = 64 * 1024


class CommandChannel(Channel, frozen=True, kw_only=True):
    # What the program calls it. Unset: the sensor's id.
    key: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^\S+$")] | None = None

    @property
    def name(self) -> str:
        return self.key or self.sensor


class CommandDevice(Device, frozen=True, kw_only=True):
    command: Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1)]
    mode: Literal["once", "lines"] = "once"
    # In the mode "lines": after this time without a value a channel is faulty. Unset: three intervals.
    stale_ms: Annotated[int, Meta(ge=1)] | None = None
    channel: Annotated[tuple[CommandChannel, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        names = [one.name for one in self.channel]
        if len(set(names)) < len(names):
            raise ValueError("two channels have the same `key` (unset: the sensor's id)")


class CommandOnce:
    def __init__(self, device: CommandDevice, pace: Pace, _clock: Clock) -> None:
        self._command = device.command
        self._names = [one.name for one in device.channel]
        self._timeout_seconds = pace.timeout_seconds
        self._left: Child | None = None  # one that could not be ended

    async def read(self) -> list[Reading]:
        try:
            return readings(await self._run(), self._names)
        except (ChildFailed, OSError) as error:
            return [Fault(f"{self._command[0]} {error}")] * len(self._names)

    async def close(self) -> None:
        """A run that is going on is cancelled with its read, and ended there."""

    async def _run(self) -> bytes:
        if self._left is not None and not self._left.has_ended:
            raise ChildFailed("of an earlier turn still hangs, and cannot be ended")
        self._left = child = await Child.start(self._command, OUTPUT_BYTES_MAX)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                output = await child.output(OUTPUT_BYTES_MAX)
                code = await child.wait()
        except TimeoutError as error:
            raise ChildFailed(f"did not end within {self._timeout_seconds:g} s and was killed") from error
        finally:
            await child.end()
        if code:
            raise ChildFailed(f"ended with {code}")
        return output


def readings(output: bytes, names: list[str]) -> list[Reading]:
    """One number for one channel, or an object with a number for each."""
    try:
        said = msgspec.json.decode(output, type=float | dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return [Fault(f"said {_shown(output)}, neither a number nor a JSON object")] * len(names)
    if isinstance(said, dict):
        return [_number(said.get(name), name) for name in names]
    if len(names) > 1:
        return [Fault(f"said one number for {len(names)} channels: a JSON object is needed")] * len(names)
    return [said]


def _number(raw: msgspec.Raw | None, name: str) -> Reading:
    if raw is None:
        return Fault(f"said nothing of {name!r}")
    try:
        return msgspec.json.decode(raw, type=float)
    except msgspec.DecodeError:
        return Fault(f"said {_shown(bytes(raw))} of {name!r}, which is not a number")


def _shown(output: bytes) -> str:
    return repr(output[:60].decode("utf-8", "replace"))


def _open(device: CommandDevice, pace: Pace, clock: Clock) -> Driver:
    if device.mode == "once":
        return CommandOnce(device, pace, clock)
    stale_seconds = 3 * pace.interval_seconds if device.stale_ms is None else device.stale_ms / 1000
    return ProgramLines(device.command, [one.name for one in device.channel], stale_seconds, clock)


PLUGIN = Plugin(CommandDevice, _open)
