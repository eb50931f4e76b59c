"""Frames and headers as bytes. Pure; the package's own page draws what is packed here.

Frozen: the order, width and byte order of every field below, `MAGIC`, and what the CRCs cover. Changing any of them makes
stored data unreadable; a new shape needs a new `VERSION` and a reader that still knows this one.
"""

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from farmiq.spool.errors import BadChannels, BadSample, UnknownFormat

FRAME_BYTES = 40
VERSION = 1
MAGIC = b"FIQSPOOL"
REGION_BYTES_MIN = 512
REGION_BYTES_MAX = 65536

_KIND_SAMPLE = 1
_BODY = Struct("<HBBQqQd")
_CRC = Struct("<I")
_FIELDS = Struct("<3xBQqQd4x")  # of a frame that was found good: length, kind and CRC have done their work
_RAW = Struct("40s")
_SEQ = Struct("<4xQ28x")
_BLOCK_FRAMES = 256
_BLOCK_SEQ = Struct("<" + "4xQ28x" * _BLOCK_FRAMES)
_HEADER = Struct("<8sHHI16s16sQqII")
_HEADER_BEFORE_CRC = _HEADER.size - 4
# The CRC-32 of any bytes followed by their own little-endian CRC-32 is one constant. So is that of 2, 3, ... good frames back
# to back, whatever they hold: a block is checked with one call instead of one for each frame. This CRC finds any three
# flipped bits as long as there are at most 91,639, and a block has 81,920: so no more frames to a block.
_GOOD_CRCS = tuple(
    itertools.accumulate(
        [bytes(FRAME_BYTES - 4) + _CRC.pack(crc32(bytes(FRAME_BYTES - 4)))] * _BLOCK_FRAMES,
        lambda crc, frame: crc32(frame, crc),
        initial=0,
    )
)
_CRC_RESIDUE = _GOOD_CRCS[1]


class Channel(NamedTuple):
    metric: str
    unit: str
    sensor: str


class Sample(NamedTuple):
    wall_us: int
    monotonic_us: int
    channel: int
    quality: int
    value: float


class Frame(NamedTuple):
    seq: int
    wall_us: int
    monotonic_us: int
    channel: int
    quality: int
    value: float


SampleFields = tuple[int, int, int, int, float]


@dataclass(frozen=True, slots=True)
class Header:
    stream_id: UUID
    boot_id: UUID
    first_seq: int
    created_at_us: int
    channels: tuple[Channel, ...]


def pack_frames(first_seq: int, samples: Iterable[SampleFields]) -> bytes:
    """The frames of `samples`, numbered from `first_seq`. One loop, one write: this is the spool's hot path."""
    parts: list[bytes] = []
    add, pack, pack_crc, seq = parts.append, _BODY.pack, _CRC.pack, first_seq
    try:
        for wall_us, monotonic_us, channel, quality, value in samples:
            if channel >> 16:
                raise BadSample(f"channel {channel} is not between 0 and 65535")
            body = pack(FRAME_BYTES, _KIND_SAMPLE, quality, seq, wall_us, monotonic_us << 16 | channel, value)
            add(body)
            add(pack_crc(crc32(body)))
            seq += 1
    except (struct_error, TypeError, ValueError) as error:
        raise BadSample(f"sample {seq - first_seq} of the group does not fit a frame: {error}") from error
    return b"".join(parts)


def unpack_frames(data: bytes) -> list[Frame]:
    """The frames in `data`, which `bad_frames` has found good."""
    # `Frame(...)` runs a Python function of the named tuple's; its values are complete and in order here.
    new_tuple = tuple.__new__
    return [
        new_tuple(Frame, (seq, wall_us, packed >> 16, packed & 0xFFFF, quality, value))
        for quality, seq, wall_us, packed, value in _FIELDS.iter_unpack(data)
    ]


def bad_frames(data: bytes, first_seq: int) -> list[int]:
    """Which frames of `data` are not what belongs there. A frame's place fixes its sequence, so a stray one is bad too."""
    bad: list[int] = []
    for start in range(0, len(data) // FRAME_BYTES, _BLOCK_FRAMES):
        block = data[start * FRAME_BYTES : (start + _BLOCK_FRAMES) * FRAME_BYTES]
        bad += [start + index for index in _bad_in_block(block, first_seq + start)]
    return bad


def _bad_in_block(block: bytes, first_seq: int) -> list[int]:
    seqs = _seqs(block)
    if crc32(block) == _GOOD_CRCS[len(seqs)] and seqs == list(range(first_seq, first_seq + len(seqs))):
        return []
    if not block.strip(b"\0"):
        return list(range(len(seqs)))  # reserved and never written; an open segment ends in a lot of it
    frames = (frame for (frame,) in _RAW.iter_unpack(block))
    return [
        index
        for index, (frame, seq) in enumerate(zip(frames, seqs, strict=True))
        if seq != first_seq + index or crc32(frame) != _CRC_RESIDUE
    ]


def _seqs(block: bytes) -> list[int]:
    if len(block) == _BLOCK_SEQ.size:
        return list(_BLOCK_SEQ.unpack(block))
    return [seq for (seq,) in _SEQ.iter_unpack(block)]


def pack_header(header: Header) -> bytes:
    """The header region: the same header at its start and at its middle, so that one damaged spot does not hide the rest."""
    table = json.dumps([channel._asdict() for channel in header.channels], separators=(",", ":")).encode()
    region_bytes = REGION_BYTES_MIN
    while region_bytes < 2 * (_HEADER.size + len(table)):
        region_bytes *= 2
    if region_bytes > REGION_BYTES_MAX:
        raise BadChannels(
            f"the channel table takes {len(table)} bytes and may take {REGION_BYTES_MAX // 2 - _HEADER.size}"
        )
    fixed = _HEADER.pack(
        MAGIC, VERSION, FRAME_BYTES, region_bytes, header.stream_id.bytes, header.boot_id.bytes,
        header.first_seq, header.created_at_us, len(table), 0,
    )[:_HEADER_BEFORE_CRC]  # fmt: skip
    copy = fixed + _CRC.pack(crc32(table, crc32(fixed))) + table
    return copy.ljust(region_bytes // 2, b"\0") * 2


def unpack_header(data: bytes) -> tuple[Header, int] | None:
    """The header and the length of its region, from the first copy that is whole; None when neither is."""
    offset = 0
    while offset < REGION_BYTES_MAX:
        found = _header_at(data, offset)
        if found is not None:
            return found
        offset = offset * 2 or REGION_BYTES_MIN // 2
    return None


def _header_at(data: bytes, offset: int) -> tuple[Header, int] | None:
    if len(data) < offset + _HEADER.size or data[offset : offset + len(MAGIC)] != MAGIC:
        return None
    _, version, _, region_bytes, stream, boot, first_seq, created_at_us, table_bytes, crc = _HEADER.unpack_from(
        data, offset
    )
    table = data[offset + _HEADER.size : offset + _HEADER.size + min(table_bytes, REGION_BYTES_MAX)]
    if crc32(table, crc32(data[offset : offset + _HEADER_BEFORE_CRC])) != crc:
        return None
    if version != VERSION:
        raise UnknownFormat(f"a segment has format version {version}; this program knows {VERSION}")
    channels = tuple(Channel(entry["metric"], entry["unit"], entry["sensor"]) for entry in json.loads(table))
    return Header(UUID(bytes=stream), UUID(bytes=boot), first_seq, created_at_us, channels), region_bytes
