"""Bytes that claim to be a picture. What is refused is refused before it can cost anything."""

import io
import random
import zlib

import pytest
from PIL import Image

from farmiq.kit.picture_outline import outline
from farmiq.kit.pictures import (
    BytesAfterEnd,
    Look,
    NotAPicture,
    OtherContentType,
    PictureRefused,
    SeveralFrames,
    TooManyPixels,
    look_at,
    thumbnail,
)
from farmiq.kit.png_rows import _image_data, _promised_bytes, has_all_rows
from support.picture_files import (
    COMMENT,
    animation,
    chunk,
    encoded,
    interlaced_png,
    jpeg_of_size,
    picture,
    png_of_size,
    webp_of_size,
    with_place,
    zip_behind,
)

FORMATS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_picture_is_seen_with_its_size(file_format: str) -> None:
    seen = look_at(picture(file_format, 64, 48), content_type=FORMATS[file_format])

    assert seen == Look(64, 48, file_format.lower())  # type: ignore[arg-type]  # one of the three


@pytest.mark.parametrize(
    "data",
    [
        picture("JPEG", progressive=True),
        picture("JPEG", mode="L"),
        picture("JPEG", mode="CMYK"),
        picture("JPEG", 1, 1),
        picture("JPEG", 4000, 3, restart_marker_rows=1),
        with_place("JPEG"),
        picture("JPEG") + bytes(513),
    ],
    ids=["progressive", "grey", "cmyk", "one pixel", "restart markers", "exif and comment", "zeros of a fixed buffer"],
)
def test_what_cameras_write_is_accepted(data: bytes) -> None:
    assert look_at(data, content_type="image/jpeg").format == "jpeg"


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png_is_seen_and_made_small(mode: str) -> None:
    data = picture("PNG", mode=mode)

    assert look_at(data, content_type="image/png").width == 64
    assert look_at(thumbnail(data, edge_pixels_max=16), content_type="image/jpeg").width == 16


@pytest.mark.parametrize("kind", [{"lossless": True}, {"quality": 40}, {"exact": True}])
def test_every_kind_of_webp_is_seen_and_made_small(kind: dict[str, int]) -> None:
    data = picture("WEBP", mode="RGBA", **kind)

    assert look_at(data, content_type="image/webp") == Look(64, 48, "webp")
    assert look_at(thumbnail(data, edge_pixels_max=16), content_type="image/jpeg").width == 16


@pytest.mark.parametrize("said", [*FORMATS.values(), "image/gif", "text/html", "", "IMAGE/JPEG"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_the_content_type_that_was_said_must_be_true(file_format: str, said: str) -> None:
    if FORMATS[file_format] == said:
        assert look_at(picture(file_format), content_type=said).format == file_format.lower()
        return
    with pytest.raises(OtherContentType):
        look_at(picture(file_format), content_type=said)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"RIFF\x04\x00\x00\x00WEBP",
        b"RIFF\xff\xff\xff\xffWEBP",
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"GIF89a" + bytes(100),
        b"%PDF-1.7\n",
        b"\xff\xd8\xff\xd9",
        encoded(Image.new("RGB", (8, 8)), "BMP"),
        encoded(Image.new("RGB", (8, 8)), "TIFF"),
        encoded(Image.new("RGB", (8, 8)), "GIF"),
        encoded(Image.new("RGB", (8, 8)), "JPEG2000"),
    ],
)
def test_other_files_are_refused(data: bytes) -> None:
    for content_type in FORMATS.values():
        with pytest.raises(NotAPicture):
            look_at(data, content_type=content_type)
    with pytest.raises(NotAPicture):
        thumbnail(data, edge_pixels_max=16)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_picture_cut_short_anywhere_is_refused(file_format: str) -> None:
    data = picture(file_format)

    for length in range(len(data)):
        with pytest.raises(PictureRefused):
            look_at(data[:length], content_type=FORMATS[file_format])


def test_a_png_that_ends_properly_but_lacks_rows_is_refused() -> None:
    with pytest.raises(NotAPicture):
        look_at(png_of_size(1000, 1000, data_bytes_max=10 * 126), content_type="image/png")


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (png_of_size(50_000, 50_000), "image/png"),
        (png_of_size(2**31 - 1, 2**31 - 1), "image/png"),
        (jpeg_of_size(65_000, 65_000), "image/jpeg"),
        (webp_of_size(16_383, 16_383), "image/webp"),
        (webp_of_size(2**24, 2**24), "image/webp"),
    ],
)
def test_an_image_bomb_is_refused_before_it_is_decoded(
    data: bytes, content_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def must_not_open(*_args: object, **_options: object) -> None:
        raise AssertionError("the decoder was opened")

    monkeypatch.setattr(Image, "open", must_not_open)

    with pytest.raises(TooManyPixels):
        look_at(data, content_type=content_type)
    with pytest.raises(TooManyPixels):
        thumbnail(data, edge_pixels_max=16)


def test_the_limit_on_pixels_is_the_caller_s() -> None:
    assert look_at(picture(width=64, height=48), content_type="image/jpeg", pixels_max=64 * 48).width == 64
    with pytest.raises(TooManyPixels):
        look_at(picture(width=64, height=48), content_type="image/jpeg", pixels_max=64 * 48 - 1)


@pytest.mark.parametrize("file_format", ["PNG", "WEBP"])
def test_a_picture_that_moves_is_refused(file_format: str) -> None:
    with pytest.raises(SeveralFrames):
        look_at(animation(file_format), content_type=FORMATS[file_format])


def test_a_stack_of_jpegs_in_one_file_is_refused() -> None:
    with pytest.raises(BytesAfterEnd):
        look_at(animation("MPO"), content_type="image/jpeg")


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_polyglot_is_refused(file_format: str) -> None:
    with pytest.raises(BytesAfterEnd):
        look_at(zip_behind(picture(file_format)), content_type=FORMATS[file_format])
    with pytest.raises(BytesAfterEnd):
        look_at(picture(file_format) + b"\x00" * 8 + b"<script>", content_type=FORMATS[file_format])


def test_a_second_end_inside_a_note_is_not_taken_for_the_end() -> None:
    data = picture("JPEG", comment=b"\xff\xd9 and so on \xff\xda")

    assert look_at(data, content_type="image/jpeg").width == 64
    seen = outline(data)
    assert seen is not None
    assert seen.end == len(data)


def test_a_text_bomb_inside_a_png_is_refused() -> None:
    text = chunk(b"zTXt", b"Comment\x00\x00" + zlib.compress(bytes(80 * 1024 * 1024), 9))
    data = picture("PNG")
    after_header = 8 + 25

    with pytest.raises(NotAPicture):
        look_at(data[:after_header] + text + data[after_header:], content_type="image/png")


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_thumbnail_keeps_nothing_but_pixels(file_format: str) -> None:
    data = with_place(file_format)
    assert COMMENT in data

    small = thumbnail(data, edge_pixels_max=32)

    assert COMMENT not in small
    assert b"Exif" not in small
    with Image.open(io.BytesIO(small)) as seen:
        assert not seen.getexif()
        assert seen.info.get("comment") is None
        assert set(seen.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


def test_a_thumbnail_stands_upright() -> None:
    wide = with_place("JPEG", 64, 48)

    with Image.open(io.BytesIO(thumbnail(wide, edge_pixels_max=32))) as seen:
        assert seen.size == (24, 32)


def test_a_thumbnail_is_never_larger_than_the_picture() -> None:
    with Image.open(io.BytesIO(thumbnail(picture(width=20, height=10), edge_pixels_max=256))) as seen:
        assert seen.size == (20, 10)


def test_what_is_transparent_becomes_white() -> None:
    clear = encoded(Image.new("RGBA", (8, 8), (255, 0, 0, 0)), "PNG")

    with Image.open(io.BytesIO(thumbnail(clear, edge_pixels_max=8))) as seen:
        assert min(seen.convert("L").tobytes()) > 250


def test_notes_that_cannot_be_read_do_not_cost_the_picture() -> None:
    broken = picture("JPEG", exif=b"Exif\x00\x00MM\x00\x2a\xff\xff\xff\xff")

    assert look_at(thumbnail(broken, edge_pixels_max=32), content_type="image/jpeg").width == 32


@pytest.mark.parametrize("file_format", FORMATS)
def test_flipped_bytes_end_as_a_picture_or_as_a_refusal(file_format: str) -> None:
    rng = random.Random(7)
    data = picture(file_format)
    outcomes = {"seen": 0, "refused": 0}
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            look_at(bytes(damaged), content_type=FORMATS[file_format], pixels_max=1_000_000)
            outcomes["seen"] += 1
        except PictureRefused:
            outcomes["refused"] += 1

    assert outcomes["refused"] > 0
    assert sum(outcomes.values()) == 400


def test_no_memory_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_args: object, **_options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Image, "open", out_of_memory)

    with pytest.raises(MemoryError):
        look_at(picture(), content_type="image/jpeg")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (64, 48), (9, 17)])
def test_the_data_that_a_png_promises_is_what_an_encoder_writes(mode: str, size: tuple[int, int]) -> None:
    data = encoded(Image.new(mode, size), "PNG")
    inflated = zlib.decompress(b"".join(_image_data(data)))

    assert _promised_bytes(data) == len(inflated)
    assert has_all_rows(data)


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 5), (8, 8), (9, 17)])
def test_an_interlaced_png_is_whole_only_with_all_its_passes(size: tuple[int, int]) -> None:
    for missing, is_whole in ((0, True), (1, False)):
        data = interlaced_png(*size, missing_bytes=missing)
        assert has_all_rows(data) is is_whole
    assert look_at(interlaced_png(*size), content_type="image/png").width == size[0]
