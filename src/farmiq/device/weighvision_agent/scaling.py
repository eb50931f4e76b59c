"""A camera's picture as it is stored: looked at, and made smaller only when it is larger than the station wants."""

import io

from PIL import Image, ImageOps, UnidentifiedImageError

from farmiq.contracts.media import ContentType
from farmiq.device.weighvision_agent.drivers import DriverFault
from farmiq.device.weighvision_agent.station_file import PictureTable
from farmiq.kit.pictures import PictureRefused, look_at

_SIGNATURES: tuple[tuple[bytes, ContentType], ...] = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"RIFF", "image/webp"),
)


def fitted(data: bytes, limits: PictureTable) -> tuple[bytes, ContentType]:
    """What the edge would refuse is refused here, where somebody can still look at the camera."""
    content_type = next((kind for start, kind in _SIGNATURES if data.startswith(start)), None)
    if content_type is None:
        raise DriverFault("the camera gave something that is no JPEG, PNG or WebP")
    try:
        seen = look_at(data, content_type=content_type)
        if max(seen.width, seen.height) <= limits.edge_pixels_max and len(data) <= limits.bytes_max:
            return data, content_type
        smaller = _smaller(data, limits)
    except (PictureRefused, UnidentifiedImageError, OSError) as error:
        raise DriverFault(f"the camera's picture cannot be used: {error}") from error
    if len(smaller) > limits.bytes_max:
        raise DriverFault(f"the picture has {len(smaller)} bytes also at picture.edge_pixels_max: lower jpeg_quality")
    return smaller, "image/jpeg"


def _smaller(data: bytes, limits: PictureTable) -> bytes:
    with Image.open(io.BytesIO(data)) as picture:
        upright = ImageOps.exif_transpose(picture).convert("RGB")
    upright.thumbnail((limits.edge_pixels_max, limits.edge_pixels_max), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    upright.save(out, "JPEG", quality=limits.jpeg_quality)
    return out.getvalue()
