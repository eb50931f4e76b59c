from datetime import UTC, datetime
from uuid import UUID

import pytest

from farmiq.contracts.media import PresignRequest
from farmiq.edge.media_store.retention import OldPicture, judge
from farmiq.edge.media_store.screening import content_url, key_of, refuse_identity, refuse_size
from farmiq.kit.http_server import ApiError
from farmiq.timeseries.stream import Origin

NOW = datetime(2026, 5, 4, 23, 59, tzinfo=UTC)
ORIGIN = Origin("demo", "farm-1", "barn-1", "scale-1")
MEDIA_ID = UUID("01a1e452-60df-76f5-8fcd-cd926fd82e8a")
ASKED = PresignRequest(
    tenant_id="demo",
    farm_id="farm-1",
    barn_id="barn-1",
    device_id="scale-1",
    captured_at=NOW,
    content_type="image/webp",
    content_length=1000,
)


def test_the_key_has_the_documented_pattern_and_is_made_of_the_credential() -> None:
    assert key_of(ORIGIN, ASKED, MEDIA_ID) == (
        f"tenants/demo/farms/farm-1/barns/barn-1/devices/scale-1/images/2026/05/04/{MEDIA_ID}.webp"
    )


def test_the_body_may_repeat_the_credential_and_say_nothing_else() -> None:
    refuse_identity(ORIGIN, ORIGIN)
    for said in (Origin("other", "farm-1", "barn-1", "scale-1"), Origin("demo", "farm-1", "barn-1", "scale-2")):
        with pytest.raises(ApiError) as refusal:
            refuse_identity(ORIGIN, said)
        assert refusal.value.status == 403


def test_a_picture_may_be_as_large_as_is_taken_and_no_larger() -> None:
    refuse_size(ASKED, 1000)
    with pytest.raises(ApiError) as too_large:
        refuse_size(ASKED, 999)
    assert (too_large.value.status, too_large.value.code) == (413, "picture_too_large")


@pytest.mark.parametrize(
    ("base_url", "start"),
    [
        ("http://127.0.0.1:5106/", "http://127.0.0.1:5106/api/v1/"),
        ("https://edge.example/media/", "https://edge.example/media/api/v1/"),
        ("https://edge.example?x=1#y", "https://edge.example/api/v1/"),
    ],
)
def test_the_url_of_this_service_is_where_the_device_reached_it(base_url: str, start: str) -> None:
    assert content_url(base_url, MEDIA_ID, "abc") == f"{start}media/images/{MEDIA_ID}/content?token=abc"


def test_a_picture_of_an_open_session_or_on_its_way_stays_unless_somebody_says_so() -> None:
    session_id = UUID(int=9)
    free, open_, unsent, both = (
        OldPicture(UUID(int=number), "demo", "b", "k", session, NOW)
        for number, session in ((1, None), (2, session_id), (3, None), (4, session_id))
    )
    old = [free, open_, unsent, both]
    not_in_cloud = {unsent.media_id, both.media_id}
    kept = judge(old, {("demo", session_id)}, not_in_cloud, may_delete_unfinalized=False, must_be_synced=True)
    assert (kept.deleted, kept.forced) == ([free], [])
    assert (kept.held_for_session, kept.held_for_sync) == ([open_, both], [unsent])
    freed = judge(old, {("demo", session_id)}, not_in_cloud, may_delete_unfinalized=True, must_be_synced=False)
    assert (freed.deleted, freed.forced) == ([free, open_], [unsent, both])
    assert (freed.held_for_session, freed.held_for_sync) == ([], [])
