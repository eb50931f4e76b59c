import hashlib
from uuid import UUID

from farmiq.cloud.media_store.integrity import IntegrityReport, is_sampled
from farmiq.cloud.media_store.picture import thumbnail_key

MEDIA_ID = UUID("018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0601")
KEY = f"tenants/t/farms/f/barns/b/devices/d/images/2026/01/31/{MEDIA_ID}.jpg"


def test_thumbnails_are_in_the_order_of_their_pictures() -> None:
    ids = [UUID(bytes=hashlib.sha256(bytes([number])).digest()[:16]) for number in range(50)]
    keys = [
        KEY.replace(str(MEDIA_ID), str(media_id)).replace("jpg", ending)
        for media_id, ending in zip(ids, ["jpg", "png", "webp"] * 17, strict=False)
    ]

    ordered = sorted(keys)

    assert sorted(map(thumbnail_key, keys)) == [thumbnail_key(key) for key in ordered]


def test_a_sample_is_the_same_each_time_and_part_of_a_larger_one() -> None:
    keys = [f"key-{number}" for number in range(2000)]

    tenth, half = ({key for key in keys if is_sampled(key, share)} for share in (0.1, 0.5))

    assert tenth < half
    assert 120 < len(tenth) < 280
    assert all(is_sampled(key, 1.0) for key in keys)
    assert not any(is_sampled(key, 0.0) for key in keys)


def test_a_report_keeps_the_first_keys_and_counts_the_rest() -> None:
    report = IntegrityReport()
    for number in range(100):
        report.note("no_row", f"key-{number}", is_repaired=number % 2 == 0)

    assert not report.is_sound
    assert (report.found["no_row"], report.repaired["no_row"]) == (100, 50)
    assert report.examples["no_row"] == [f"key-{number}" for number in range(20)]
