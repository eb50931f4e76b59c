"""What a camera writes beside a picture stays out, and every pixel stays as it is."""

import hashlib
import io
import random
import struct

import pytest
from PIL import Image

from farmiq.kit.picture_notes import PARTS_MAX, without_notes
from farmiq.kit.pictures import NotAPicture, look_at
from support.picture_files import COMMENT, chunk, picture, with_place

FORMATS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
ORIENTATION = 0x0112
# Of the one picture below. Never to be changed: see the module.
FROZEN = "fe15b1f1aced5601180ca8ab83dfa5d17f70aa330110f0b1f2743ec03748b9ab"


def opened(data: bytes) -> Image.Image:
    seen = Image.open(io.BytesIO(data))
    seen.load()
    return seen


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


@pytest.mark.parametrize("file_format", FORMATS)
def test_place_and_comment_are_gone_and_pixels_and_orientation_are_not(file_format: str) -> None:
    data = with_place(file_format)
    bare = without_notes(data)
    assert COMMENT in data
    assert COMMENT not in bare
    assert dict(opened(bare).getexif()) == {ORIENTATION: 6}
    assert opened(bare).tobytes() == opened(data).tobytes()
    assert look_at(bare, content_type=FORMATS[file_format]) == look_at(data, content_type=FORMATS[file_format])
    assert without_notes(bare) == bare


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_picture_without_notes_is_not_touched(file_format: str) -> None:
    for data in (picture(file_format), picture(file_format) + bytes(7)):
        assert without_notes(data) == data


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_colours_of_a_jpeg_stay_what_they_are(mode: str) -> None:
    """The colour profile and Adobe's word on how channels are mixed are about pixels."""
    data = picture("JPEG", mode=mode, icc_profile=b"profile " * 20, comment=COMMENT, progressive=True)
    bare = without_notes(data)
    assert COMMENT not in bare
    assert opened(bare).info["icc_profile"] == b"profile " * 20
    assert opened(bare).tobytes() == opened(data).tobytes()


@pytest.mark.parametrize(
    ("marker", "body"),
    [
        (0xE1, b"http://ns.adobe.com/xap/1.0/\x00<x:xmpmeta>secret"),
        (0xED, b"Photoshop 3.0\x008BIM secret"),
        (0xE0, b"JFXX\x00secret"),
        (0xE2, b"MPF\x00secret"),
        (0xEB, b"JP secret"),
        (0xFE, b"secret"),
        (0xE1, b"Exif\x00\x00MM\x00*\xff\xff\xff\xffsecret"),
    ],
)
def test_every_place_where_a_camera_may_write_is_left_out(marker: int, body: bytes) -> None:
    plain = picture("JPEG")
    for at in (2, 20):  # before and behind the segment of JFIF
        assert without_notes(plain[:at] + segment(marker, body) + plain[at:]) == plain


@pytest.mark.parametrize("kind", [b"tEXt", b"zTXt", b"iTXt", b"tIME", b"prVt", b"dSIG"])
def test_every_chunk_of_a_png_that_is_not_about_pixels_is_left_out(kind: bytes) -> None:
    plain = picture("PNG")
    assert without_notes(plain[:33] + chunk(kind, b"secret") + plain[33:]) == plain


def test_what_is_left_is_frozen() -> None:
    """Pictures that wait were promised to the cloud with these checksums, perhaps by an older release."""
    notes = (
        b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00"
    )
    head = b"\xff\xd8" + segment(0xE0, b"JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00")
    frame = segment(0xC0, b"\x08\x00\x01\x00\x01\x01\x01\x11\x00") + segment(0xDA, b"\x01\x01\x00\x00\x3f\x00")
    data = head + segment(0xE1, notes) + segment(0xFE, COMMENT) + frame + b"\x12\x34\xff\xd9"
    assert hashlib.sha256(without_notes(data)).hexdigest() == FROZEN


@pytest.mark.parametrize("file_format", FORMATS)
def test_damaged_bytes_are_refused_or_give_bytes_and_never_another_failure(file_format: str) -> None:
    rng = random.Random(7)
    data = with_place(file_format)
    refused = 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            without_notes(bytes(damaged[: rng.randrange(1, len(damaged) + 1)]))
        except NotAPicture:
            refused += 1
    assert refused > 100  # most are cut short


def test_a_picture_of_countless_parts_is_refused() -> None:
    plain = picture("JPEG")
    with pytest.raises(NotAPicture, match="parts"):
        without_notes(plain[:2] + segment(0xFE, b"") * (PARTS_MAX + 1) + plain[2:])
