"""What an edge and the cloud say to each other about pictures, and what a key says by itself."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from farmiq.contracts.decoding import MalformedMessage, decode, encode
from farmiq.contracts.media import EXTENSION_OF, CloudPresignAnswer, CloudPresignRequest, object_key, read_object_key

MEDIA_ID = UUID("018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0601")
KEY = f"tenants/t/farms/f/barns/b/devices/d/images/2026/01/31/{MEDIA_ID}.jpg"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
REQUEST = CloudPresignRequest(
    tenant_id="t",
    media_id=MEDIA_ID,
    farm_id="f",
    barn_id="b",
    device_id="d",
    mime_type="image/webp",
    size_bytes=1,
    sha256="a" * 64,
    captured_at=NOON,
)


@pytest.mark.parametrize("content_type", list(EXTENSION_OF))
def test_a_key_tells_what_it_was_made_of(content_type: str) -> None:
    extension = EXTENSION_OF[content_type]  # type: ignore[index]  # one of its own
    key = object_key(
        tenant_id="t.1",
        farm_id="f-1",
        barn_id="b_1",
        device_id="d",
        media_id=MEDIA_ID,
        captured_at=datetime(2026, 1, 31, 23, 59, tzinfo=UTC),
        extension=extension,
    )

    name = read_object_key(key)

    assert name is not None
    assert (name.tenant_id, name.farm_id, name.barn_id, name.device_id) == ("t.1", "f-1", "b_1", "d")
    assert (name.media_id, name.mime_type) == (MEDIA_ID, content_type)
    assert name.captured_on == datetime(2026, 1, 31, tzinfo=UTC)
    assert name.key == key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "tenants/t",
        KEY + "/x",
        KEY.replace("jpg", "jpeg"),
        KEY.replace("jpg", "html"),
        KEY.replace("2026/01/31", "2026/02/31"),
        KEY.replace("2026/01/31", "2026/1/31"),
        KEY.replace(str(MEDIA_ID), MEDIA_ID.hex),
        KEY.replace(str(MEDIA_ID), str(MEDIA_ID).upper()),
        KEY.replace("devices/d", "devices/status"),
        KEY.replace("tenants/t/", "tenants/../"),
        KEY.replace("farms", "farm"),
        "thumbnails/" + KEY,
    ],
)
def test_no_other_key_is_taken_for_one_of_ours(key: str) -> None:
    assert read_object_key(key) is None


@pytest.mark.parametrize("session_id", [None, MEDIA_ID])
def test_a_wish_comes_through_as_it_was_said(session_id: UUID | None) -> None:
    asked = CloudPresignRequest(
        **{name: getattr(REQUEST, name) for name in REQUEST.__struct_fields__ if name != "session_id"},
        session_id=session_id,
    )

    assert decode(CloudPresignRequest, encode(asked), max_bytes=10_000) == asked


@pytest.mark.parametrize(
    "answer",
    [
        CloudPresignAnswer(state="stored"),
        CloudPresignAnswer(state="wanted", upload_url="https://s", required_headers={}, expires_at=NOON),
    ],
)
def test_an_answer_comes_through_as_it_was_said(answer: CloudPresignAnswer) -> None:
    assert decode(CloudPresignAnswer, encode(answer), max_bytes=10_000) == answer


@pytest.mark.parametrize(
    "text",
    [
        b'{"state": "wanted"}',
        b'{"state": "wanted", "upload_url": "https://s", "required_headers": {}}',
        b'{"state": "stored", "upload_url": "https://s"}',
        b'{"state": "gone"}',
        b'{"upload_url": "https://s", "required_headers": {}, "expires_at": "2026-01-01T12:00:00Z"}',
    ],
)
def test_an_answer_that_says_half_of_it_is_not_believed(text: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(CloudPresignAnswer, text, max_bytes=10_000)
