"""Modbus registers: which to ask for together, and what number they make."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

REGISTERS_MAX = 125
"""In one answer, by the protocol."""

Table = Literal["holding", "input"]
Kind = Literal["int16", "uint16", "int32", "uint32", "float32"]
WordOrder = Literal["big", "little"]

_FORMATS: dict[Kind, str] = {"int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "float32": ">f"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lies, and how it is written there."""

    unit_id: int
    table: Table
    register: int
    kind: Kind
    word_order: WordOrder


@dataclass(frozen=True, slots=True)
class Block:
    """Registers that follow each other, asked for in one request; `channels` says whose they are."""

    unit_id: int
    table: Table
    first: int
    count: int
    channels: tuple[int, ...]


def width(kind: Kind) -> int:
    return struct.calcsize(_FORMATS[kind]) // 2


def block_of(places: Sequence[Place], index: int) -> Block:
    place = places[index]
    return Block(place.unit_id, place.table, place.register, width(place.kind), (index,))


def blocks(places: Sequence[Place]) -> list[Block]:
    """Neighbours together. Nothing in between is asked for: a register that does not exist refuses the whole request."""
    single = [block_of(places, index) for index in range(len(places))]
    merged: list[Block] = []
    for block in sorted(single, key=lambda one: (one.unit_id, one.table, one.first)):
        if merged and (joined := _joined(merged[-1], block)):
            merged[-1] = joined
        else:
            merged.append(block)
    return merged


def _joined(left: Block, right: Block) -> Block | None:
    end = max(left.first + left.count, right.first + right.count)
    if (left.unit_id, left.table) != (right.unit_id, right.table) or right.first > left.first + left.count:
        return None
    if end - left.first > REGISTERS_MAX:
        return None
    return Block(left.unit_id, left.table, left.first, end - left.first, left.channels + right.channels)


def value_of(registers: Sequence[int], place: Place, first: int) -> float:
    """In an answer that begins at `first`. Each register is big-endian; the order of two of them is the maker's choice."""
    start = place.register - first
    words = registers[start : start + width(place.kind)]
    packed = struct.pack(f">{len(words)}H", *(words if place.word_order == "big" else reversed(words)))
    return float(struct.unpack(_FORMATS[place.kind], packed)[0])
