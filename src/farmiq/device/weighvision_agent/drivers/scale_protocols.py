"""What scales send without being asked, byte by byte. Two forms that most indicators know:

    toledo   STX, three status bytes, 6 digits of weight, 6 digits of tare, CR, and a checksum if the indicator is set so
    ascii    a line of text: ST,GS,+00012.34kg  (ST stable, US not; GS gross, NT net, TR tare; OL overloaded)

Lines break, cables hum and programs start in the middle: whatever is not a whole good frame is passed over, and the next one
counts. Nothing is kept of it but the beginning of a frame that may still be coming.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, Protocol

Unit = Literal["kg", "g", "lb", "t", "oz"]
KG_OF: Final[dict[str, float]] = {"kg": 1.0, "g": 0.001, "lb": 0.45359237, "t": 1000.0, "oz": 0.028349523125}

_STX: Final = 0x02
_CR: Final = 0x0D
_FRAME_BYTES: Final = 17
_DIGITS: Final = re.compile(rb" *[0-9]+")
# Of status byte C: what bits 0 to 2 say when they say anything. The others are units in which nobody weighs an animal.
_TOLEDO_UNITS: Final[dict[int, Unit]] = {1: "g", 2: "t", 3: "oz"}

_LINE_BYTES_MAX: Final = 64
_LINE: Final = re.compile(
    rb"(?P<state>ST|US),\s*(?:(?P<kind>GS|NT),\s*)?"
    rb"(?P<sign>[+-]?)\s*(?P<number>[0-9]{1,9}(?:\.[0-9]{0,6})?)\s*(?P<unit>kg|g|lb|t|oz)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Indication:
    """What the indicator shows, in kilograms. `is_moving` is its own word for a plate that is not at rest."""

    weight_kg: float
    is_moving: bool


class ScaleLine(Protocol):
    def feed(self, data: bytes) -> list[Indication]: ...


class Toledo:
    def __init__(self, *, has_checksum: bool = False) -> None:
        self._has_checksum = has_checksum
        self._frame_bytes = _FRAME_BYTES + has_checksum
        self._kept = b""

    def feed(self, data: bytes) -> list[Indication]:
        found: list[Indication] = []
        rest = self._kept + data
        while (start := rest.find(_STX)) >= 0 and len(rest) - start >= self._frame_bytes:
            frame = rest[start : start + self._frame_bytes]
            if not self._is_whole(frame):
                rest = rest[start + 1 :]
                continue
            if (indication := _toledo_weight(frame)) is not None:
                found.append(indication)
            rest = rest[start + self._frame_bytes :]
        self._kept = rest[start:] if start >= 0 else b""
        return found

    def _is_whole(self, frame: bytes) -> bool:
        """Every status byte has bit 5 set, so that none can be taken for a control character."""
        if frame[16] != _CR or not all(status & 0x60 in (0x20, 0x60) for status in frame[1:4]):
            return False
        if not (_DIGITS.fullmatch(frame[4:10]) and _DIGITS.fullmatch(frame[10:16])):
            return False
        return not self._has_checksum or sum(frame) & 0x7F == 0


def _toledo_weight(frame: bytes) -> Indication | None:
    """None when the scale says that it cannot weigh: over or under its range, or in a unit that we do not know."""
    a, b, c = frame[1:4]
    is_out_of_range, has_other_unit = bool(b & 0x04), c & 0x07
    unit = _TOLEDO_UNITS.get(has_other_unit) if has_other_unit else ("kg" if b & 0x10 else "lb")
    if is_out_of_range or unit is None:
        return None
    exponent = 2 - (a & 0x07) - (1 if c & 0x10 else 0)
    weight = int(frame[4:10]) * 10.0**exponent * KG_OF[unit]
    return Indication(round(-weight if b & 0x02 else weight, 6), bool(b & 0x08))


class Ascii:
    def __init__(self) -> None:
        self._line = bytearray()
        self._is_too_long = False

    def feed(self, data: bytes) -> list[Indication]:
        found: list[Indication] = []
        for byte in data:
            if byte in b"\r\n":
                if not self._is_too_long and (indication := _line_weight(bytes(self._line))) is not None:
                    found.append(indication)
                self._line.clear()
                self._is_too_long = False
            elif len(self._line) < _LINE_BYTES_MAX:
                self._line.append(byte)
            else:
                self._is_too_long = True
        return found


def _line_weight(line: bytes) -> Indication | None:
    """A tare, an overload and a count of pieces are lines too, and none of them is a weight."""
    match = _LINE.fullmatch(line.strip(b" \t\x00\x02\x03"))
    if match is None:
        return None
    weight = float(match["number"]) * KG_OF[match["unit"].decode().lower()]
    return Indication(round(-weight if match["sign"] == b"-" else weight, 6), match["state"].upper() == b"US")
