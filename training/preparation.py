"""What happens to a picture before the model sees it. The card beside the model says the same in words."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

WIDTH, HEIGHT = 256, 128
# The animal stands in the middle, and so does all of the crate that tells how large a metre is: the model looks at these columns.
SEEN = slice(32, 224)
Pictures = NDArray[np.uint8]  # number x height x width x 3


def prepared(image: Image.Image) -> Pictures:
    """Turned as its EXIF says, cut to 2:1 around the middle, and averaged down to the model's size."""
    upright = ImageOps.exif_transpose(image).convert("RGB")
    return np.asarray(ImageOps.fit(upright, (WIDTH, HEIGHT), Image.Resampling.BOX, centering=(0.5, 0.5)), np.uint8)
