from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec
import pytest

from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.ids import InvalidId
from farmiq.contracts.media import EXTENSION_OF, MediaStored, PresignRequest, object_key

MEDIA = UUID("018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0601")
PARTS: dict[str, Any] = {
    "tenant_id": "demo",
    "farm_id": "farm-1",
    "barn_id": "barn-1",
    "device_id": "wv-1",
    "media_id": MEDIA,
    "captured_at": datetime(2025, 1, 2, 3, 4, tzinfo=UTC),
    "extension": "jpg",
}


def test_a_key_follows_the_documented_pattern() -> None:
    assert object_key(**PARTS) == (f"tenants/demo/farms/farm-1/barns/barn-1/devices/wv-1/images/2025/01/02/{MEDIA}.jpg")


def test_the_day_is_that_of_utc() -> None:
    evening = datetime(2025, 1, 1, 22, 0, tzinfo=timezone(timedelta(hours=-7)))
    assert "/images/2025/01/02/" in object_key(**PARTS | {"captured_at": evening})
    assert "/images/0033/01/02/" in object_key(**PARTS | {"captured_at": datetime(33, 1, 2, tzinfo=UTC)})


@pytest.mark.parametrize("part", ["tenant_id", "farm_id", "barn_id", "device_id"])
@pytest.mark.parametrize("value", ["", "..", "a/b", "a\\b", "a b", "%2e%2e", "é", "a\n", "a\0", "x" * 65])
def test_no_part_leaves_its_folder(part: str, value: str) -> None:
    with pytest.raises(InvalidId, match=part):
        object_key(**PARTS | {part: value})


@pytest.mark.parametrize("extension", ["", "gif", "JPG", "jpg/../x", "jpg\n"])
def test_only_our_pictures_have_keys(extension: str) -> None:
    with pytest.raises(ValueError, match="extension"):
        object_key(**PARTS | {"extension": extension})


def test_every_content_type_that_may_be_uploaded_has_an_extension() -> None:
    fields = {field.name: field for field in msgspec.structs.fields(PresignRequest)}
    assert set(fields["content_type"].type.__args__) == set(EXTENSION_OF)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "object_key"),
        ({"bucket": "b"}, "together"),
        ({"object_key": "k"}, "together"),
        ({"object_key": "k", "path": "/p"}, "together"),
        ({"path": ""}, "path"),
        ({"path": "/p", "size_bytes": -1}, "size_bytes"),
        ({"path": "/p", "mime_type": "jpeg"}, "mime_type"),
        ({"path": "/p", "sha256": "abc"}, "sha256"),
    ],
)
def test_a_stored_picture_says_where_it_is(changes: dict[str, Any], words: str) -> None:
    document = {"media_id": str(MEDIA), "mime_type": "image/jpeg", "size_bytes": 1} | changes
    with pytest.raises(MalformedMessage, match=words):
        decode(MediaStored, msgspec.json.encode(document), max_bytes=1000)
