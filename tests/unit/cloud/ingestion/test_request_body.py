import gzip
import os
import tracemalloc
import zlib
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from farmiq.cloud.ingestion.body import Decoder, Gzip, Plain, Zstd, decoder_for
from farmiq.kit.http_server import ApiError


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def feed(decoder: Decoder, data: bytes, cuts: list[int]) -> bytes:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        decoder.feed(data[start:end])
    return decoder.finish()


@given(data=st.binary(max_size=2000), cuts=st.lists(st.integers(0, 5000), max_size=8))
def test_however_it_is_cut_into_pieces_the_body_is_the_same(data: bytes, cuts: list[int]) -> None:
    assert feed(Plain(), data, cuts) == data
    assert feed(Gzip(), gzip.compress(data), cuts) == data
    assert feed(Zstd(), zstd(data), cuts) == data


@given(size=st.integers(0, 300), limit=st.integers(0, 300))
def test_the_limit_is_exact(size: int, limit: int) -> None:
    given = ((Plain(limit), bytes(size)), (Gzip(limit), gzip.compress(bytes(size))), (Zstd(limit), zstd(bytes(size))))
    for decoder, data in given:
        if size <= limit:
            assert feed(decoder, data, [7, 20]) == bytes(size)
        else:
            with pytest.raises(ApiError) as refusal:
                feed(decoder, data, [7, 20])
            assert (refusal.value.status, refusal.value.code) == (413, "too_large")


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024))
    decoder = Gzip(1000)
    with pytest.raises(ApiError, match="larger than 1000"):
        decoder.feed(bomb)
    assert len(bomb) < 100_000


@pytest.mark.parametrize(
    "data",
    [
        b"plain text",
        gzip.compress(b"x" * 500)[:-4],
        gzip.compress(b"x") + b"more",
        gzip.compress(b"x") * 2,
        b"",
        zlib.compress(b"x"),
    ],
    ids=["not gzip", "cut short", "something after it", "two members", "empty", "zlib"],
)
def test_what_is_not_one_whole_gzip_member_is_refused(data: bytes) -> None:
    for cuts in ([], [5, 15, 25]):
        with pytest.raises(ApiError) as refusal:
            feed(Gzip(), data, cuts)
        assert (refusal.value.status, refusal.value.code) == (400, "bad_gzip")


@pytest.mark.parametrize(
    "data",
    [
        b"plain text",
        zstd(b"x" * 500)[:-1],
        zstd(b"x") + b"more",
        zstd(b"x") * 2,
        b"",
        gzip.compress(b"x"),
        zstd(os.urandom(5000))[:-2000] + bytes(2000),
    ],
    ids=["not zstd", "cut short", "something after it", "two frames", "empty", "gzip", "damaged"],
)
def test_what_is_not_one_whole_zstd_frame_is_refused(data: bytes) -> None:
    for cuts in ([], [5, 15, 25]):
        with pytest.raises(ApiError) as refusal:
            feed(Zstd(), data, cuts)
        assert (refusal.value.status, refusal.value.code) == (400, "bad_zstd")


def test_a_zstd_bomb_takes_little_more_memory_than_the_limit() -> None:
    """Four bytes of it can be 128 KiB: a body of 30 kB, a gigabyte."""
    bomb = zstd(bytes(1024 * 1024 * 1024))
    limit = 1024 * 1024
    tracemalloc.start()
    with pytest.raises(ApiError, match="larger than"):
        Zstd(limit).feed(bomb)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * limit


def test_a_frame_that_wants_a_larger_window_than_the_standard_allows_is_refused() -> None:
    large = zstandard.ZstdCompressionParameters.from_level(3, window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=large).compressobj()
    body = stream.compress(os.urandom(1000)) + stream.flush()
    with pytest.raises(ApiError) as refusal:
        feed(Zstd(), body, [])
    assert (refusal.value.status, refusal.value.code) == (400, "bad_zstd")


def test_the_encoding_is_what_the_header_says() -> None:
    assert isinstance(decoder_for("Zstd"), Zstd)
    assert isinstance(decoder_for(""), Plain)
    assert isinstance(decoder_for("Identity"), Plain)
    assert isinstance(decoder_for(" GZIP "), Gzip)
    with pytest.raises(ApiError) as refusal:
        decoder_for("br")
    assert refusal.value.status == 415
