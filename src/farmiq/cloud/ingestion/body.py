"""A request's body, inflated within limits. What is too large is noticed while it grows, not after."""

import zlib
from collections.abc import AsyncIterator
from typing import Final

import zstandard

from farmiq.contracts.limits import EDGE_BATCH_BYTES_MAX
from farmiq.kit.http_server import ApiError

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
"""What RFC 9659 allows for this content coding: a frame that asks for more would have us keep more."""
_ZSTD_BLOCK_BYTES: Final = 128 * 1024
_ZSTD_BLOCK_COMPRESSED_BYTES: Final = 4
"""The most that a block holds, and the least that it takes up: a header and the one byte that is repeated."""


class Plain:
    """Bytes as they come, up to `bytes_max`."""

    def __init__(self, bytes_max: int = EDGE_BATCH_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._body = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > self._bytes_max:
            raise ApiError(413, "too_large", f"The batch is larger than {self._bytes_max} bytes")

    def finish(self) -> bytes:
        return bytes(self._body)


class Gzip:
    """One gzip member. Never inflates more than one byte past the limit, whatever the ratio."""

    def __init__(self, bytes_max: int = EDGE_BATCH_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._plain = Plain(bytes_max)
        self._left = bytes_max + 1
        self._inflater = zlib.decompressobj(wbits=_GZIP_WINDOW)

    def feed(self, chunk: bytes) -> None:
        if self._inflater.eof and chunk:
            raise ApiError(400, "bad_gzip", "There is something after the end of the gzip member")
        try:
            inflated = self._inflater.decompress(chunk, self._left)
        except zlib.error as error:
            raise ApiError(400, "bad_gzip", f"The body is not gzip: {error}") from error
        self._left -= len(inflated)
        self._plain.feed(inflated)
        if self._inflater.unused_data:
            raise ApiError(400, "bad_gzip", "There is something after the end of the gzip member")

    def finish(self) -> bytes:
        if not self._inflater.eof:
            raise ApiError(400, "bad_gzip", "The gzip member is cut short")
        return self._plain.finish()


class Zstd:
    """One zstd frame, fed in slices so short that what they inflate to is known before: a few blocks past the limit at most."""

    def __init__(self, bytes_max: int = EDGE_BATCH_BYTES_MAX) -> None:
        self._plain = Plain(bytes_max)
        self._left = bytes_max
        self._inflater = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX).decompressobj()

    def feed(self, chunk: bytes) -> None:
        start = 0
        while start < len(chunk):
            end = start + max(4, self._left // _ZSTD_BLOCK_BYTES) * _ZSTD_BLOCK_COMPRESSED_BYTES
            self._inflate(chunk[start:end])
            start = end

    def _inflate(self, part: bytes) -> None:
        if self._inflater.eof:
            raise ApiError(400, "bad_zstd", "There is something after the end of the zstd frame")
        try:
            inflated = self._inflater.decompress(part)
        except zstandard.ZstdError as error:
            raise ApiError(400, "bad_zstd", f"The body is not zstd: {error}") from error
        self._left -= len(inflated)
        self._plain.feed(inflated)
        if self._inflater.unused_data:
            raise ApiError(400, "bad_zstd", "There is something after the end of the zstd frame")

    def finish(self) -> bytes:
        if not self._inflater.eof:
            raise ApiError(400, "bad_zstd", "The zstd frame is cut short")
        return self._plain.finish()


Decoder = Plain | Gzip | Zstd


def decoder_for(content_encoding: str, bytes_max: int = EDGE_BATCH_BYTES_MAX) -> Decoder:
    match content_encoding.strip().lower():
        case "" | "identity":
            return Plain(bytes_max)
        case "gzip":
            return Gzip(bytes_max)
        case "zstd":
            return Zstd(bytes_max)
        case other:
            told = f"Content-Encoding {other[:40]!r}: zstd, gzip and identity are taken"
            raise ApiError(415, "unsupported_encoding", told)


async def read_body(chunks: AsyncIterator[bytes], decoder: Decoder) -> bytes:
    async for chunk in chunks:
        decoder.feed(chunk)
    return decoder.finish()
