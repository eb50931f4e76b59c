import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.node_agent.drivers.registers import (
    REGISTERS_MAX,
    Block,
    Kind,
    Place,
    Table,
    WordOrder,
    blocks,
    value_of,
    width,
)

kinds: st.SearchStrategy[Kind] = st.sampled_from(["int16", "uint16", "int32", "uint32", "float32"])
tables: st.SearchStrategy[Table] = st.sampled_from(["holding", "input"])
places = st.builds(
    Place, unit_id=st.integers(1, 2), table=tables, register=st.integers(0, 400), kind=kinds, word_order=st.just("big")
)


@pytest.mark.parametrize(
    ("kind", "word_order", "registers", "expected"),
    [
        ("int16", "big", [0xFF38], -200.0),
        ("uint16", "big", [0xFF38], 65336.0),
        ("int32", "big", [0xFFFF, 0xFF38], -200.0),
        ("int32", "little", [0xFF38, 0xFFFF], -200.0),
        ("uint32", "big", [0x0001, 0x0000], 65536.0),
        ("uint32", "little", [0x0000, 0x0001], 65536.0),
        ("float32", "big", [*struct.unpack(">2H", struct.pack(">f", 26.5))], 26.5),
        ("float32", "little", [*reversed(struct.unpack(">2H", struct.pack(">f", 26.5)))], 26.5),
    ],
)
def test_registers_make_the_number_that_was_meant(
    kind: Kind, word_order: WordOrder, registers: list[int], expected: float
) -> None:
    place = Place(1, "holding", 101, kind, word_order)
    assert value_of([9, *registers, 9], place, first=100) == expected


def test_neighbours_are_asked_for_together_and_nothing_that_nobody_wants() -> None:
    wanted = [
        Place(1, "holding", 12, "uint16", "big"),
        Place(1, "holding", 10, "int32", "big"),
        Place(1, "holding", 14, "uint16", "big"),
        Place(1, "input", 13, "uint16", "big"),
        Place(2, "holding", 13, "uint16", "big"),
    ]
    assert blocks(wanted) == [
        Block(1, "holding", 10, 3, (1, 0)),
        Block(1, "holding", 14, 1, (2,)),
        Block(1, "input", 13, 1, (3,)),
        Block(2, "holding", 13, 1, (4,)),
    ]


@given(st.lists(places, max_size=60))
def test_every_channel_is_in_one_block_that_covers_it_and_fits_an_answer(wanted: list[Place]) -> None:
    found = blocks(wanted)
    assert sorted(index for block in found for index in block.channels) == list(range(len(wanted)))
    for block in found:
        assert block.count <= REGISTERS_MAX
        covered: set[int] = set()
        for index in block.channels:
            place = wanted[index]
            covered |= set(range(place.register, place.register + width(place.kind)))
            assert (place.unit_id, place.table) == (block.unit_id, block.table)
        assert covered == set(range(block.first, block.first + block.count))
