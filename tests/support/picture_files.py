"""Pictures, and files that only look like some. All of them made here, byte by byte where a library would not make them."""

import io
import struct
import zipfile
import zlib
from typing import Any

from PIL import Image

GPS_TAG = 0x8825
COMMENT = b"this barn stands at 48.137 11.575"


def picture(file_format: str = "JPEG", width: int = 64, height: int = 48, mode: str = "RGB", **options: Any) -> bytes:
    """Not of one colour: a cut through its data takes something visible away."""
    seen = Image.linear_gradient("L").resize((width, height)).convert(mode)
    return encoded(seen, file_format, **options)


def encoded(seen: Image.Image, file_format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    seen.save(out, file_format, **options)
    return out.getvalue()


def with_place(file_format: str = "JPEG", width: int = 64, height: int = 48) -> bytes:
    """A picture that tells where it was taken, and says so in a comment too."""
    notes = Image.Exif()
    notes.get_ifd(GPS_TAG)[2] = (48.0, 8.0, 13.2)
    notes[0x010E] = COMMENT.decode()
    notes[0x0112] = 6  # taken with the camera turned by a quarter
    extra: dict[str, Any] = {"comment": COMMENT} if file_format == "JPEG" else {}
    return picture(file_format, width, height, exif=notes, **extra)


def png_of_size(width: int, height: int, data_bytes_max: int = 1024 * 1024) -> bytes:
    """A PNG whose header promises that many pixels, black and white, with the data of the first of them."""
    data = zlib.compress(bytes(min(height * (1 + (width + 7) // 8), data_bytes_max)), 9)
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def interlaced_png(width: int, height: int, missing_bytes: int = 0) -> bytes:
    """Grey, in Adam7 order, which Pillow reads and does not write."""
    rows = b""
    for left, top, step_x, step_y in (
        (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2),
    ):  # fmt: skip
        columns = len(range(left, width, step_x))
        rows += bytes(1 + columns) * (len(range(top, height, step_y)) if columns else 0)
    data = zlib.compress(rows[: len(rows) - missing_bytes])
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def jpeg_of_size(width: int, height: int) -> bytes:
    """A real JPEG with another size written into its header."""
    data = bytearray(picture())
    at = data.index(b"\xff\xc0")
    struct.pack_into(">HH", data, at + 5, height, width)
    return bytes(data)


def jpeg_of_many_scans(width: int, height: int, scans: int) -> bytes:
    """A few hundred kilobytes that take minutes: the last pass over all pixels, asked for again and again."""
    data = picture("JPEG", width, height, mode="L", progressive=True)
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + last * scans + data[-2:]


def webp_of_size(width: int, height: int) -> bytes:
    """An extended WebP whose canvas is as large as it says."""
    inner = picture("WEBP")[12:]
    canvas = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBP" + b"VP8X" + struct.pack("<I", 10) + canvas + inner
    return b"RIFF" + struct.pack("<I", len(body)) + body


def animation(file_format: str) -> bytes:
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "green")]
    return encoded(frames[0], file_format, save_all=True, append_images=frames[1:], duration=100)


def zip_behind(data: bytes) -> bytes:
    """Opens as a picture from its beginning, and as an archive from its end."""
    out = io.BytesIO(data)
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("run.sh", "#!/bin/sh\n")
    return out.getvalue()
