"""Is this really a picture, and a small one of it. For bytes that came from outside.

Run these in a process that may die: `farmiq.kit.picture_worker.PictureWorker` has the same two functions, with a limit on memory
and time. They themselves refuse what can be refused before a pixel is decoded:

- Only JPEG, PNG and WebP, and the content type that was said must be the one that the bytes show.
- More pixels than allowed, by the picture's own header.
- More than one frame (APNG, animated WebP): a weigh station takes still pictures.
- Anything but zeros after the picture's end: that is where a polyglot keeps its other half. Zeros are let pass, because cameras
  that fill fixed buffers leave some.

Then the whole picture is decoded, so that what is cut short is refused. What is not seen: a JPEG whose data stop early, but which
was given a proper end. Decoders paint the rest grey and say nothing; a checksum that was made at the camera tells.

A thumbnail is drawn anew: nothing of the original but its pixels is in it, no place, no comment, no colour profile.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from PIL import Image

from farmiq.kit.errors import Rejected
from farmiq.kit.picture_outline import BrokenOutline, Format, Outline, outline
from farmiq.kit.png_rows import has_all_rows

CONTENT_TYPES: Final[dict[str, Format]] = {"image/jpeg": "jpeg", "image/png": "png", "image/webp": "webp"}
PIXELS_MAX: Final = 25_000_000
THUMBNAIL_TYPE: Final = "image/jpeg"
THUMBNAIL_QUALITY: Final = 80

_ORIENTATION_TAG: Final = 0x0112
_UPRIGHT: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PictureRefused(Rejected):
    """The bytes are kept out: they are no picture that we take, and never will be."""

    code = "picture_refused"


class NotAPicture(PictureRefused):
    """The bytes are no JPEG, PNG or WebP that can be decoded to its end."""

    code = "not_a_picture"


class OtherContentType(NotAPicture):
    """The bytes are a picture of another type than was said."""

    code = "other_content_type"


class SeveralFrames(NotAPicture):
    """The picture moves. Stations send still ones."""

    code = "several_frames"


class BytesAfterEnd(NotAPicture):
    """Something follows the picture's end. It may be a file of another kind that hides behind the picture."""

    code = "bytes_after_end"


class TooManyPixels(PictureRefused):
    """The picture would take more memory than a picture may. It was not decoded."""

    code = "too_many_pixels"


class Look(msgspec.Struct, frozen=True):
    width: int
    height: int
    format: Format


def look_at(data: bytes, *, content_type: str, pixels_max: int = PIXELS_MAX) -> Look:
    """The picture's size, after all of it was decoded; or one of the refusals above."""
    seen = _outline(data, pixels_max)
    if CONTENT_TYPES.get(content_type) != seen.format:
        raise OtherContentType(f"the bytes are {seen.format}, and {content_type[:80]!r} was said")
    with _decoding():
        _open(data, seen).load()
        if seen.format == "png" and not has_all_rows(data):
            raise NotAPicture("the PNG lacks rows")
    return Look(seen.width, seen.height, seen.format)


def thumbnail(data: bytes, *, edge_pixels_max: int, pixels_max: int = PIXELS_MAX) -> bytes:
    """A JPEG whose longer edge has at most that many pixels, the right way up."""
    seen = _outline(data, pixels_max)
    with _decoding():
        picture = _in_eight_bits(_open(data, seen))
        turn = _UPRIGHT.get(_orientation(picture))
        # This lets the decoder of a JPEG give a fraction of the pixels, which is many times faster.
        picture.thumbnail((edge_pixels_max, edge_pixels_max))
        drawn = _drawn_anew(picture)
    return _as_jpeg(drawn if turn is None else drawn.transpose(turn))


def _outline(data: bytes, pixels_max: int) -> Outline:
    try:
        seen = outline(data)
    except BrokenOutline as error:
        raise NotAPicture(str(error)) from error
    if seen is None:
        raise NotAPicture("the bytes are neither JPEG, PNG nor WebP")
    if seen.width < 1 or seen.height < 1:
        raise NotAPicture("the picture has no pixels")
    if seen.width * seen.height > pixels_max:
        raise TooManyPixels(f"{seen.width} x {seen.height} pixels, at most {pixels_max} are allowed")
    if seen.frames > 1:
        raise SeveralFrames("the picture has several frames")
    if data[seen.end :].strip(b"\x00"):
        raise BytesAfterEnd(f"{len(data) - seen.end} bytes follow the picture's end")
    return seen


@contextmanager
def _decoding() -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            # Pillow warns of what it would rather not decode, and then decodes it. Of a picture's notes it only complains.
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except (PictureRefused, MemoryError):
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise TooManyPixels("more pixels than the decoder itself allows") from error
    except Exception as error:
        # Decoders fail on hostile bytes in every way there is: that this one failed on these bytes is the whole answer.
        raise NotAPicture(f"it cannot be decoded: {type(error).__name__}: {str(error)[:200]}") from error


def _open(data: bytes, seen: Outline) -> Image.Image:
    picture = Image.open(io.BytesIO(data), formats=(seen.format,))
    if picture.size != (seen.width, seen.height) or getattr(picture, "n_frames", 1) > 1:
        raise NotAPicture("the decoder sees another picture than the header describes")
    return picture


def _orientation(picture: Image.Image) -> int:
    try:
        return int(picture.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # noqa: BLE001 - notes that cannot be read say nothing about the pixels, which are whole
        return 1


def _in_eight_bits(picture: Image.Image) -> Image.Image:
    """Sixteen bits of grey cannot be made smaller as they are, and turned into eight they would only be cut off."""
    if not picture.mode.startswith("I"):
        return picture
    return picture.convert("I").point(lambda level: level * (1 / 256)).convert("L")


def _drawn_anew(picture: Image.Image) -> Image.Image:
    """Only the pixels. Saved as it was opened, a picture would take its comment along."""
    drawn = Image.new("RGB", picture.size, "white")
    if picture.has_transparency_data:
        transparent = picture.convert("RGBA")
        drawn.paste(transparent, mask=transparent)
    else:
        drawn.paste(picture.convert("RGB"))
    return drawn


def _as_jpeg(picture: Image.Image) -> bytes:
    saved = io.BytesIO()
    picture.save(saved, "JPEG", quality=THUMBNAIL_QUALITY, optimize=True)
    return saved.getvalue()
