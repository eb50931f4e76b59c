import struct
from uuid import UUID
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.spool.errors import BadChannels, BadSample, UnknownFormat
from farmiq.spool.format import (
    FRAME_BYTES,
    Channel,
    Header,
    Sample,
    bad_frames,
    pack_frames,
    pack_header,
    unpack_frames,
    unpack_header,
)
from unit.spool.spool_world import BOOT, CHANNELS, START_US

STREAM = UUID(int=7)
HEADER = Header(STREAM, BOOT, 41, START_US, CHANNELS)

any_sample = st.builds(
    Sample,
    wall_us=st.integers(-(2**63), 2**63 - 1),
    monotonic_us=st.integers(0, 2**48 - 1),
    channel=st.integers(0, 65535),
    quality=st.integers(0, 255),
    value=st.floats(),
)


def test_a_frame_lies_as_it_is_drawn() -> None:
    frame = pack_frames(0x0102030405060708, [Sample(START_US, 0x0A0B0C0D0E0F, 0x1234, 2, 26.4)])
    assert len(frame) == FRAME_BYTES == 40
    assert frame[0:2] == (40).to_bytes(2, "little")
    assert frame[2] == 1
    assert frame[3] == 2
    assert frame[4:12] == bytes.fromhex("0807060504030201")
    assert frame[12:20] == START_US.to_bytes(8, "little")
    assert frame[20:22] == bytes.fromhex("3412")
    assert frame[22:28] == bytes.fromhex("0f0e0d0c0b0a")
    assert frame[28:36] == struct.pack("<d", 26.4)
    assert frame[36:40] == crc32(frame[:36]).to_bytes(4, "little")


@given(st.lists(any_sample, max_size=600), st.integers(1, 2**62))
def test_frames_come_back_as_they_were(samples: list[Sample], first_seq: int) -> None:
    packed = pack_frames(first_seq, samples)
    assert bad_frames(packed, first_seq) == []
    frames = unpack_frames(packed)
    assert [frame.seq for frame in frames] == list(range(first_seq, first_seq + len(samples)))
    assert repr([frame[1:] for frame in frames]) == repr([tuple(sample) for sample in samples])  # NaN is NaN


@given(st.integers(0, 299), st.integers(0, 319))
def test_one_flipped_bit_spoils_one_frame(number: int, bit: int) -> None:
    packed = bytearray(pack_frames(1, [Sample(START_US, 1, 0, 2, 1.0)] * 300))
    packed[number * FRAME_BYTES + bit // 8] ^= 1 << bit % 8
    assert bad_frames(bytes(packed), 1) == [number]


@given(st.sets(st.tuples(st.integers(0, 599), st.integers(0, 319)), min_size=2, max_size=12))
def test_bits_flipped_all_over_spoil_the_frames_they_are_in(flipped: set[tuple[int, int]]) -> None:
    packed = bytearray(pack_frames(1, [Sample(START_US, 1, 0, 2, 1.0)] * 600))
    for number, bit in flipped:
        packed[number * FRAME_BYTES + bit // 8] ^= 1 << bit % 8
    assert bad_frames(bytes(packed), 1) == sorted({number for number, _ in flipped})


def test_good_frames_in_each_others_places_are_bad() -> None:
    packed = pack_frames(1, [Sample(START_US, 1, 0, 2, 1.0)] * 256)
    first, second, rest = packed[:FRAME_BYTES], packed[FRAME_BYTES : 2 * FRAME_BYTES], packed[2 * FRAME_BYTES :]
    assert bad_frames(second + first + rest, 1) == [0, 1]


def test_zeros_are_no_frame_and_a_frame_elsewhere_is_bad() -> None:
    good = pack_frames(5, [Sample(START_US, 1, 0, 2, 1.0)])
    assert bad_frames(bytes(FRAME_BYTES), 0) == [0]
    assert bad_frames(good, 5) == []
    assert bad_frames(good, 6) == [0]


@pytest.mark.parametrize(
    "sample",
    [
        (START_US, 1, 65536, 2, 1.0),
        (START_US, 1, -1, 2, 1.0),
        (START_US, 2**48, 0, 2, 1.0),
        (START_US, -1, 0, 2, 1.0),
        (START_US, 1, 0, 256, 1.0),
        (2**63, 1, 0, 2, 1.0),
        (START_US, 1, 0, 2, "warm"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused(sample: Sample) -> None:
    with pytest.raises(BadSample):
        pack_frames(1, [Sample(START_US, 1, 0, 2, 1.0), sample])


@pytest.mark.parametrize("channels", [0, 1, 3, 10, 100, 300])
def test_a_header_comes_back_from_either_copy(channels: int) -> None:
    header = Header(STREAM, BOOT, 41, START_US, (Channel("ammonia", "ppm", "prüfstand-3"),) * channels)
    region = pack_header(header)
    damaged = bytearray(region)
    damaged[40] ^= 1
    assert unpack_header(region) == (header, len(region))
    assert unpack_header(bytes(damaged)) == (header, len(region))
    damaged[len(region) // 2 + 40] ^= 1
    assert unpack_header(bytes(damaged)) is None


def test_a_cut_header_is_none() -> None:
    region = pack_header(HEADER)
    assert [unpack_header(region[:length]) for length in range(72)] == [None] * 72


def test_a_channel_table_beyond_the_region_is_refused() -> None:
    with pytest.raises(BadChannels, match="channel table"):
        pack_header(Header(STREAM, BOOT, 1, START_US, CHANNELS * 1000))


def test_a_segment_of_a_newer_version_is_refused_and_not_called_damaged() -> None:
    region = bytearray(pack_header(HEADER))
    region[8] = 2
    table_bytes = int.from_bytes(region[64:68], "little")
    region[68:72] = crc32(region[72 : 72 + table_bytes], crc32(region[:68])).to_bytes(4, "little")
    with pytest.raises(UnknownFormat, match="version 2"):
        unpack_header(bytes(region))
