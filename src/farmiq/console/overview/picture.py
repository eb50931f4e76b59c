"""Where everything stands in the picture: in a row on a wide screen, below each other on a phone. Pure."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from farmiq.console.overview.flow import Hop, Station, hop_of

SIGNS: Final = {"good": "\u25cf", "busy": "\u25d0", "warn": "\u25b2", "bad": "\u2716", "none": "\u25cb"}


class Text(Struct, frozen=True):
    x: float
    y: float
    text: str
    anchor: str = "middle"
    style: str = ""


class Box(Struct, frozen=True):
    x: float
    y: float
    width: float
    height: float
    kind: str
    texts: tuple[Text, ...]


class Arrow(Struct, frozen=True):
    key: str
    path: str
    head: str
    kind: str
    is_moving: bool
    texts: tuple[Text, ...]


class Picture(Struct, frozen=True):
    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


_BOX_WIDTH, _BOX_HEIGHT = 160.0, 92.0
_GAP: Final = 200.0
_TOP: Final = 22.0


def wide(stations: Sequence[Station], hops: list[Hop]) -> Picture:
    """Four boxes in a row; the pictures' way runs below the bus, from the edge to the cloud."""
    lefts = [1 + number * (_BOX_WIDTH + _GAP) for number in range(4)]
    boxes = [_box(station, left, _TOP, _BOX_WIDTH, _BOX_HEIGHT) for station, left in zip(stations, lefts, strict=True)]
    middle, bottom = _TOP + _BOX_HEIGHT / 2, _TOP + _BOX_HEIGHT
    arrows = [
        _across(hop_of(hops, key), lefts[number] + _BOX_WIDTH, lefts[number + 1], middle)
        for number, key in enumerate(("devices", "cloud", "database"))
    ]
    start, end, level = lefts[1] + _BOX_WIDTH / 2, lefts[3] + _BOX_WIDTH / 2, bottom + 46
    arrows.append(_below(hop_of(hops, "pictures"), start, end, bottom, level))
    return Picture(round(lefts[3] + _BOX_WIDTH + 1), round(level + 30), tuple(boxes), tuple(arrows))


def tall(stations: Sequence[Station], hops: list[Hop]) -> Picture:
    """Below each other, with what is written on an arrow at its right."""
    width, step = 230.0, 158.0
    boxes = [_box(station, 1, 1 + number * step, width, 74) for number, station in enumerate(stations)]
    arrows = [
        _down(hop_of(hops, key), 40, 75 + number * step, 1 + (number + 1) * step)
        for number, key in enumerate(("devices", "cloud", "database"))
    ]
    right = width + 40
    top, bottom = 1 + step + 37, 1 + 3 * step + 37
    arrows.append(_beside(hop_of(hops, "pictures"), width + 1, right, top, bottom))
    return Picture(345, round(75 + 3 * step + 2), tuple(boxes), tuple(arrows))


def _box(station: Station, x: float, y: float, width: float, height: float) -> Box:
    middle = x + width / 2
    title = Text(middle, y + 24, f"{SIGNS[station.kind]} {station.title}", style="title")
    lines = tuple(Text(middle, y + 46 + 20 * at, line) for at, line in enumerate(station.lines))
    return Box(x, y, width, height, station.kind, (title, *lines))


def _across(hop: Hop, start: float, end: float, y: float) -> Arrow:
    middle = (start + end) / 2
    texts = (
        Text(middle, y - 46, hop.way, style="name"),
        Text(middle, y - 28, f"{SIGNS[hop.kind]} {hop.word}", style=hop.kind),
        Text(middle, y - 10, hop.rate, style="rate"),
        Text(middle, y + 22, hop.waiting),
        Text(middle, y + 40, hop.oldest),
    )
    return Arrow(hop.key, f"M {start + 6} {y} H {end - 14}", _head(end - 4, y), hop.kind, hop.is_moving, texts)


def _below(hop: Hop, start: float, end: float, top: float, level: float) -> Arrow:
    """Down from one box, along, and up into another."""
    middle = (start + end) / 2
    texts = (
        Text(middle, level - 10, f"{hop.way}: {SIGNS[hop.kind]} {hop.word}", style=hop.kind),
        Text(middle, level + 22, " \u00b7 ".join(part for part in (hop.rate, hop.waiting, hop.oldest) if part)),
    )
    down = f"M {start} {top + 6} V {level - 12} Q {start} {level} {start + 12} {level}"
    path = f"{down} H {end - 12} Q {end} {level} {end} {level - 12} V {top + 14}"
    return Arrow(hop.key, path, _head_up(end, top + 4), hop.kind, hop.is_moving, texts)


def _down(hop: Hop, x: float, top: float, bottom: float) -> Arrow:
    texts = (
        Text(x + 16, top + 17, f"{SIGNS[hop.kind]} {hop.word}", "start", hop.kind),
        Text(x + 16, top + 35, hop.rate, "start", "rate"),
        Text(x + 16, top + 53, hop.waiting, "start"),
        Text(x + 16, top + 71, hop.oldest, "start"),
    )
    return Arrow(hop.key, f"M {x} {top + 4} V {bottom - 14}", _head_down(x, bottom - 4), hop.kind, hop.is_moving, texts)


def _beside(hop: Hop, left: float, right: float, top: float, bottom: float) -> Arrow:
    middle = (top + bottom) / 2
    texts = (
        Text(right + 8, middle - 26, "Pictures", "start", "name"),
        Text(right + 8, middle - 8, f"{SIGNS[hop.kind]}", "start", hop.kind),
        Text(right + 8, middle + 10, hop.waiting, "start"),
    )
    out = f"M {left + 4} {top} H {right - 12} Q {right} {top} {right} {top + 12}"
    path = f"{out} V {bottom - 12} Q {right} {bottom} {right - 12} {bottom} H {left + 14}"
    return Arrow(hop.key, path, _head_left(left + 4, bottom), hop.kind, hop.is_moving, texts)


def _head(x: float, y: float) -> str:
    return f"{x},{y} {x - 12},{y - 7} {x - 12},{y + 7}"


def _head_up(x: float, y: float) -> str:
    return f"{x},{y} {x - 7},{y + 12} {x + 7},{y + 12}"


def _head_down(x: float, y: float) -> str:
    return f"{x},{y} {x - 7},{y - 12} {x + 7},{y - 12}"


def _head_left(x: float, y: float) -> str:
    return f"{x},{y} {x + 12},{y - 7} {x + 12},{y + 7}"
