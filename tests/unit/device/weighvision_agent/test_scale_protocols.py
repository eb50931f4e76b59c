import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.weighvision_agent.drivers.scale_protocols import Ascii, Indication, Toledo

KG, LB = 0x10, 0x00


def toledo(
    weight: int, *, a: int = 0x2C, b: int = 0x20 | KG, c: int = 0x20, has_checksum: bool = False, tare: int = 0
) -> bytes:
    """`a` 0x2C: two decimals, in steps of one."""
    frame = bytes([0x02, a, b, c]) + b"%6d%6d\r" % (weight, tare)
    return frame + bytes([-sum(frame) & 0x7F]) if has_checksum else frame


@pytest.mark.parametrize(
    ("a", "weight", "kg"),
    [
        (0x28, 12, 1200.0),
        (0x29, 120, 1200.0),
        (0x2A, 1200, 1200.0),
        (0x2B, 12000, 1200.0),
        (0x2C, 12345, 123.45),
        (0x2D, 12345, 12.345),
        (0x2E, 12345, 1.2345),
        (0x2F, 12345, 0.12345),
    ],
)
def test_the_first_status_byte_says_where_the_point_is(a: int, weight: int, kg: float) -> None:
    assert Toledo().feed(toledo(weight, a=a)) == [Indication(kg, False)]


@pytest.mark.parametrize(
    ("b", "c", "kg", "is_moving"),
    [
        (0x20 | KG | 0x08, 0x20, 100.0, True),
        (0x20 | KG | 0x02, 0x20, -100.0, False),
        (0x20 | KG | 0x01, 0x20, 100.0, False),  # net
        (0x20 | LB, 0x20, 45.359237, False),
        (0x20 | KG, 0x21, 0.1, False),  # grams
        (0x20 | KG, 0x30, 10.0, False),  # expanded: one digit more
    ],
)
def test_the_other_status_bytes_say_sign_unit_and_motion(b: int, c: int, kg: float, is_moving: bool) -> None:
    assert Toledo().feed(toledo(10000, b=b, c=c)) == [Indication(kg, is_moving)]


def test_a_scale_out_of_its_range_or_in_an_unknown_unit_has_no_weight() -> None:
    assert Toledo().feed(toledo(10000, b=0x24 | KG) + toledo(10000, c=0x25)) == []


def test_a_checksum_is_checked_when_there_is_one() -> None:
    good = toledo(5000, has_checksum=True)
    bad = good[:6] + bytes([good[6] ^ 1]) + good[7:]
    line = Toledo(has_checksum=True)
    assert line.feed(bad + good) == [Indication(50.0, False)]
    assert Toledo().feed(good + good) == [Indication(50.0, False)] * 2, "one that is not expected is passed over"


@pytest.mark.parametrize(
    ("text", "kg", "is_moving"),
    [
        (b"ST,GS,+00012.34kg\r\n", 12.34, False),
        (b"US,NT,-00000.50kg\r\n", -0.5, True),
        (b"ST,GS,  123.4 kg\r\n", 123.4, False),
        (b"ST,+00012.34  kg\r\n", 12.34, False),
        (b"ST,GS,+  100.0lb\r\n", 45.359237, False),
        (b"st,gs,+00001.00t\n", 1000.0, False),
        (b"\x02ST,GS,+00012.34kg\x03\r", 12.34, False),
    ],
)
def test_a_line_of_text_is_read_as_indicators_write_it(text: bytes, kg: float, is_moving: bool) -> None:
    assert Ascii().feed(text) == [Indication(kg, is_moving)]


@pytest.mark.parametrize(
    "text",
    [
        b"OL,GS,+99999.99kg\r\n",
        b"ST,TR,+00012.34kg\r\n",
        b"ST,GS,+000-2.34kg\r\n",
        b"ST,GS,kg\r\n",
        b"\r\n",
        b"ST,GS,+00012.34\r\n",
        b"ST,GS,+1e5kg\r\n",
        b"ST,GS,+" + b"9" * 60 + b"kg\r\n",
        b"x" * 10_000 + b"\r\n",
    ],
)
def test_other_lines_are_no_weight(text: bytes) -> None:
    line = Ascii()
    assert line.feed(text) == []
    assert line.feed(b"ST,GS,+00001.00kg\r\n") == [Indication(1.0, False)]


@given(st.lists(st.binary(max_size=40)), st.booleans())
def test_garbage_raises_nothing_and_a_good_frame_after_it_counts(chunks: list[bytes], has_checksum: bool) -> None:
    """Whatever came before can hold back one frame at most: the beginning of one that never ended."""
    for line, good in (
        (Toledo(has_checksum=has_checksum), toledo(7000, has_checksum=has_checksum)),
        (Ascii(), b"ST,GS,+00070.00kg\r\n"),
    ):
        for chunk in chunks:
            line.feed(chunk)
        found = line.feed(good * 3)
        assert found[-1] == Indication(70.0, False)


@given(
    st.lists(st.integers(0, 999_999), min_size=1, max_size=20), st.lists(st.integers(1, 30), min_size=1), st.booleans()
)
def test_however_the_bytes_are_cut_every_frame_is_read_once(
    weights: list[int], cuts: list[int], has_checksum: bool
) -> None:
    data = b"".join(toledo(weight, has_checksum=has_checksum) for weight in weights)
    line, found, at = Toledo(has_checksum=has_checksum), [], 0
    for size in itertools.cycle(cuts):
        found += line.feed(data[at : at + size])
        at += size
        if at >= len(data):
            break
    assert [round(one.weight_kg * 100) for one in found] == weights
