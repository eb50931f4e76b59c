"""Exactly what the card of a model says is done to a picture before the model sees it."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from farmiq.edge.vision_inference.preparation import prepared
from farmiq.kit.pictures import NotAPicture, TooManyPixels
from support.picture_files import encoded, picture, png_of_size, with_place

PIXELS_MAX = 1_000_000


def noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(7).integers(0, 256, (height, width, 3), np.uint8))


@pytest.mark.parametrize(("width", "height"), [(640, 480), (320, 160), (101, 333), (160, 80), (40, 20)])
def test_it_is_cut_around_its_middle_and_averaged_down(width: int, height: int) -> None:
    image = noise(width, height)
    expected = np.asarray(ImageOps.fit(image, (160, 80), Image.Resampling.BOX))
    found = prepared(encoded(image, "PNG"), 160, 80, PIXELS_MAX)
    assert found.shape == (1, 80, 160, 3)
    assert np.array_equal(found[0], expected)


def test_it_is_turned_as_its_notes_say() -> None:
    data = with_place("JPEG", 200, 100)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert upright.size == (100, 200)
    assert np.array_equal(
        prepared(data, 160, 80, PIXELS_MAX)[0], np.asarray(ImageOps.fit(upright, (160, 80), Image.Resampling.BOX))
    )


@pytest.mark.parametrize(("file_format", "mode"), [("PNG", "RGBA"), ("PNG", "L"), ("WEBP", "RGB"), ("JPEG", "CMYK")])
def test_other_kinds_of_colour_become_rgb(file_format: str, mode: str) -> None:
    assert prepared(picture(file_format, mode=mode), 160, 80, PIXELS_MAX).shape == (1, 80, 160, 3)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", NotAPicture),
        (b"GIF89a" + bytes(100), NotAPicture),
        (picture()[:-200], NotAPicture),
        (picture("PNG")[:60], NotAPicture),
        (png_of_size(50_000, 50_000), TooManyPixels),
        (picture(width=1001, height=1000), TooManyPixels),
    ],
)
def test_what_is_no_picture_for_us_is_refused(data: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        prepared(data, 160, 80, PIXELS_MAX)
