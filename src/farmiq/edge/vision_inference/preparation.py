"""From a picture's bytes to what a model takes in, as its card says. For the process that may die of it."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from farmiq.kit.picture_outline import BrokenOutline, outline
from farmiq.kit.pictures import NotAPicture, PictureRefused, TooManyPixels

Pixels = NDArray[np.uint8]  # number x height x width x 3


def prepared(data: bytes, width: int, height: int, pixels_max: int) -> Pixels:
    """Upright, RGB, cut around the middle to the model's ratio, averaged down to its size."""
    file_format = _format(data, pixels_max)
    with _decoding():
        picture = _upright(Image.open(io.BytesIO(data), formats=(file_format,))).convert("RGB")
        fitted = ImageOps.fit(picture, (width, height), Image.Resampling.BOX, centering=(0.5, 0.5))
        return np.asarray(fitted, np.uint8)[np.newaxis]


def _format(data: bytes, pixels_max: int) -> str:
    """By the bytes themselves. A picture that is too large is refused before a pixel is decoded."""
    try:
        seen = outline(data)
    except BrokenOutline as error:
        raise NotAPicture(str(error)) from error
    if seen is None:
        raise NotAPicture("the bytes are neither JPEG, PNG nor WebP")
    if seen.width * seen.height > pixels_max:
        raise TooManyPixels(f"{seen.width} x {seen.height} pixels, at most {pixels_max} are allowed")
    return seen.format


def _upright(picture: Image.Image) -> Image.Image:
    picture.load()
    try:
        return ImageOps.exif_transpose(picture)
    except Exception:  # noqa: BLE001 - notes that cannot be read say nothing about the pixels, which are whole
        return picture


@contextmanager
def _decoding() -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            # Of a picture's notes Pillow only complains; of too many pixels it warns, and then decodes them.
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except (PictureRefused, MemoryError):
        raise
    except Exception as error:
        raise NotAPicture(f"it cannot be decoded: {type(error).__name__}: {str(error)[:200]}") from error
