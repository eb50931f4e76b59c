"""A scale on a serial line. It may be unplugged and come back under the same name at any time."""

import contextlib
from typing import Annotated, Literal

import serial
from msgspec import Meta

from farmiq.device.weighvision_agent.drivers.plugin import DriverFault, ScalePlugin, ScaleTable, Weight
from farmiq.device.weighvision_agent.drivers.scale_protocols import Ascii, ScaleLine, Toledo
from farmiq.kit.clock import Clock

READ_SECONDS = 0.2
READ_BYTES_MAX = 4096


class SerialScaleTable(ScaleTable, frozen=True, kw_only=True):
    port: Annotated[str, Meta(min_length=1)]
    protocol: Literal["toledo", "ascii"]
    baud: Annotated[int, Meta(ge=50, le=4_000_000)] = 9600
    data_bits: Literal[7, 8] = 8
    parity: Literal["none", "even", "odd"] = "none"
    stop_bits: Literal[1, 2] = 1
    checksum: bool = False
    """Of `toledo`: the indicator is set to add one."""

    def __post_init__(self) -> None:
        if self.checksum and self.protocol != "toledo":
            raise ValueError("checksum is there for the protocol 'toledo' only")


class SerialScale:
    def __init__(self, table: SerialScaleTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._line: ScaleLine | None = None
        self._port: serial.Serial | None = None

    def read(self) -> list[Weight]:
        try:
            port, line = self._opened()
            # One byte is waited for; what came with it is taken at once, so that a weight is stamped when it was said.
            data = port.read(1)
            data += port.read(min(READ_BYTES_MAX, port.in_waiting))
        except (OSError, serial.SerialException) as error:
            self.close()
            raise DriverFault(f"{self._table.port}: {error}") from error
        at = self._clock.monotonic()
        return [Weight(at, one.weight_kg, one.is_moving) for one in line.feed(data)]

    def close(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            with contextlib.suppress(OSError, serial.SerialException):
                port.close()

    def _opened(self) -> tuple[serial.Serial, ScaleLine]:
        if self._port is None or self._line is None:
            table = self._table
            self._port = serial.Serial(
                table.port,
                baudrate=table.baud,
                bytesize=table.data_bits,
                parity=table.parity[0].upper(),
                stopbits=table.stop_bits,
                timeout=READ_SECONDS,
            )
            # Anew with every connection: half a frame from before the cable was pulled has nothing to do with what comes now.
            self._line = Toledo(has_checksum=table.checksum) if table.protocol == "toledo" else Ascii()
        return self._port, self._line


PLUGIN = ScalePlugin(SerialScaleTable, SerialScale)
