"""What is signed into a URL, without any store."""

import hashlib
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from farmiq.kit.s3 import ObjectStore

SIGNED_HEADERS = {"content-length", "content-type", "host", "if-none-match", "x-amz-checksum-sha256"}
SHA256 = hashlib.sha256(b"picture").digest()


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    store = ObjectStore("http://127.0.0.1:1", access_key="key", secret_key="hunter2")
    yield store
    store.close()


def test_size_type_checksum_and_newness_are_signed_and_nothing_else_is_in_the_url(store: ObjectStore) -> None:
    upload = store.presign_put(
        "media", "a b/ü.jpg", content_type="image/jpeg", size_bytes=7, sha256=SHA256, expires_seconds=60
    )

    parts = urlsplit(upload.url)
    query = parse_qs(parts.query)
    assert parts.path == "/media/a%20b/%C3%BC.jpg"
    assert set(query["X-Amz-SignedHeaders"][0].split(";")) == SIGNED_HEADERS
    assert not [name for name in query if not name.startswith("X-Amz-")]
    assert set(upload.headers) | {"host"} == SIGNED_HEADERS
    assert "hunter2" not in upload.url


@pytest.mark.parametrize("expires_seconds", [0, -1, 301, 86_400])
def test_a_url_that_would_live_too_long_is_refused(store: ObjectStore, expires_seconds: int) -> None:
    with pytest.raises(ValueError, match="expires_seconds"):
        store.presign_put(
            "media", "key", content_type="a/b", size_bytes=7, sha256=SHA256, expires_seconds=expires_seconds
        )
    with pytest.raises(ValueError, match="expires_seconds"):
        store.presign_get("media", "key", expires_seconds=expires_seconds)


def test_a_checksum_that_is_none_is_refused(store: ObjectStore) -> None:
    with pytest.raises(ValueError, match="sha256 must be 32 bytes"):
        store.presign_put("media", "key", content_type="a/b", size_bytes=7, sha256=b"short", expires_seconds=60)
