"""Files that are no pictures, and pictures that are no good: each is refused with its reason, and costs nobody else."""

from collections.abc import AsyncIterator
from uuid import UUID

import psutil
import pytest_asyncio

from farmiq.kit.postgres import Pool
from support.media_world import Station, assert_stored_once, objects_of, station
from support.picture_files import (
    animation,
    jpeg_of_size,
    picture,
    png_of_size,
    webp_of_size,
    zip_behind,
)
from support.s3 import S3

JPEG = picture()
HTML = b"<html><script>alert(1)</script></html>"

HOSTILE: list[tuple[str, str, bytes, set[str]]] = [
    ("text", "image/jpeg", HTML, {"not_a_picture"}),
    ("magic bytes and nothing else", "image/jpeg", b"\xff\xd8\xff\xe0" + bytes(2000), {"not_a_picture"}),
    ("truncated jpeg", "image/jpeg", JPEG[: len(JPEG) // 2], {"not_a_picture"}),
    ("truncated png", "image/png", picture("PNG")[:-30], {"not_a_picture"}),
    ("truncated webp", "image/webp", picture("WEBP")[:-10], {"not_a_picture"}),
    ("png said to be jpeg", "image/jpeg", picture("PNG"), {"other_content_type"}),
    ("jpeg and zip in one", "image/jpeg", zip_behind(JPEG), {"bytes_after_end"}),
    ("html behind a png", "image/png", picture("PNG") + HTML, {"bytes_after_end"}),
    ("gif", "image/png", picture("GIF"), {"not_a_picture"}),
    ("moving webp", "image/webp", animation("WEBP"), {"several_frames"}),
    ("bomb of 2.5 thousand million pixels", "image/png", png_of_size(50_000, 50_000), {"too_many_pixels"}),
    ("jpeg with the header of a bomb", "image/jpeg", jpeg_of_size(60_000, 60_000), {"too_many_pixels"}),
    (
        "webp with the canvas of a bomb",
        "image/webp",
        webp_of_size(16_000, 16_000),
        {"too_many_pixels", "not_a_picture"},
    ),
    ("png that promises more than it has", "image/png", png_of_size(4_000, 4_000), {"not_a_picture"}),
]


@pytest_asyncio.fixture
async def scale(edge_pool: Pool, edge_url: str, s3: S3) -> AsyncIterator[Station]:
    async with station(edge_pool, edge_url, s3) as scale:
        yield scale


async def test_each_is_refused_with_its_reason_and_the_next_good_one_is_stored(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    rss_before = psutil.Process().memory_info().rss
    for name, mime, data, reasons in HOSTILE:
        media_id = await scale.upload(data, contentType=mime)
        answer = await scale.complete(media_id)
        assert (answer.status, answer.code in reasons) == (422, True), (name, answer.body)
        shown = (await scale.ask(f"/api/v1/media/{media_id}", tenant_id="demo")).body
        assert (shown["state"], shown["reason"]) == ("refused", answer.code)
    assert psutil.Process().memory_info().rss - rss_before < 200 * 1024 * 1024
    good = [await scale.upload(picture(kind), contentType=f"image/{kind.lower()}") for kind in ("JPEG", "PNG", "WEBP")]
    for media_id in good:
        assert (await scale.complete(media_id)).status == 200
    await assert_stored_once(edge_pool, good)
    assert await _metric(scale, "farmiq_media_refused_total") == len(HOSTILE)
    (alert,) = await edge_pool.fetch("SELECT * FROM ops_alerts WHERE kind = 'picture_refused' AND status = 'open'")
    assert (alert["tenant_id"], "scale-1" in alert["subject"]) == ("demo", True)


async def test_a_refused_picture_is_not_read_out_and_its_bytes_stay_for_a_look(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    media_id = await scale.upload(HTML)
    assert (await scale.complete(media_id)).status == 422
    refused = await scale.ask(f"/api/v1/media/{media_id}/url", tenant_id="demo")
    assert (refused.status, refused.code) == (409, "not_stored")
    key = await edge_pool.fetchval("SELECT object_key FROM media_objects WHERE id = $1", media_id)
    assert await objects_of(s3).get(s3.bucket, key, bytes_max=1000) == HTML
    # Told again, by anybody, it stays refused: the URL is spent and the bytes are what they are.
    again = await scale.complete(media_id)
    assert (again.status, again.code) == (422, "not_a_picture")


async def test_bytes_that_are_not_those_that_were_said_are_refused_even_if_the_store_took_them(
    edge_pool: Pool, s3: S3, scale: Station
) -> None:
    """There are stores that do not compare checksums. Here the test plays one, with the store's own key."""
    other_bytes = bytearray(JPEG)
    other_bytes[-10] ^= 1
    for data, code in ((picture(width=80), "size_mismatch"), (bytes(other_bytes), "checksum_mismatch")):
        media_id = UUID((await scale.presign(JPEG)).body["media_id"])
        key = await edge_pool.fetchval("SELECT object_key FROM media_objects WHERE id = $1", media_id)
        await objects_of(s3).put(s3.bucket, key, data, content_type="image/jpeg")
        answer = await scale.complete(media_id)
        assert (answer.status, answer.code) == (422, code)
    await assert_stored_once(edge_pool, [])


async def _metric(scale: Station, name: str) -> float:
    text = await scale.text("/metrics")
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))
