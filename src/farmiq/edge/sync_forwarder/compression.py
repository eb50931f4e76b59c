"""A request's body, made small. Pure."""

import gzip
from typing import Final, Literal

import zstandard

Compression = Literal["zstd", "gzip", "none"]

ZSTD_LEVEL: Final = 3
GZIP_LEVEL: Final = 6

_ENCODING: Final[dict[Compression, dict[str, str]]] = {
    "zstd": {"content-encoding": "zstd"},
    "gzip": {"content-encoding": "gzip"},
    "none": {},
}


def headers_of(compression: Compression) -> dict[str, str]:
    return _ENCODING[compression]


def compressed(body: bytes, compression: Compression) -> bytes:
    match compression:
        case "zstd":
            # A compressor of its own for each body: they are made in threads, and one must not be shared. With a checksum, which
            # gzip always has.
            return zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).compress(body)
        case "gzip":
            return gzip.compress(body, GZIP_LEVEL)
        case "none":
            return body
