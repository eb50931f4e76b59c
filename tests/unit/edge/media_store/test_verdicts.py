from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from msgspec.structs import replace

from farmiq.edge.media_store.picture import Picture
from farmiq.edge.media_store.verdicts import Again, GivenUp, Sound, after_absence, disagreement

NOW = datetime(2026, 5, 4, 10, tzinfo=UTC)
PICTURE = Picture(
    media_id=UUID(int=1),
    tenant_id="demo",
    farm_id="farm-1",
    barn_id="barn-1",
    device_id="scale-1",
    station_id=None,
    session_id=None,
    bucket="pictures",
    object_key="key",
    mime_type="image/jpeg",
    size_bytes=None,
    sha256=None,
    captured_at=NOW,
    created_at=NOW,
    state="presigned",
    expires_at=NOW + timedelta(minutes=5),
    announced_at=None,
    next_check_at=NOW,
    checks=1,
    stored_at=None,
    refused_at=None,
    refused_reason=None,
    refused_detail=None,
    object_removed_at=None,
    width_px=None,
    height_px=None,
    trace_id=None,
)
ANNOUNCED = replace(PICTURE, announced_at=NOW)
SOUND = Sound(100, "ab" * 32, 64, 48)


def wait(picture: Picture, now: datetime = NOW) -> Again | GivenUp:
    return after_absence(picture, now, sweep_seconds=60.0, grace_seconds=3600.0)


def test_one_that_nobody_speaks_of_is_looked_for_at_leisure_and_an_announced_one_soon_and_then_less_often() -> None:
    assert wait(PICTURE) == Again(60.0)
    pauses = [wait(replace(ANNOUNCED, checks=checks)) for checks in (1, 2, 3, 8, 10_000)]
    assert pauses == [Again(1.0), Again(2.0), Again(4.0), Again(60.0), Again(60.0)]


@pytest.mark.parametrize("picture", [PICTURE, ANNOUNCED])
def test_it_is_given_up_when_nothing_that_began_in_time_can_still_be_under_way(picture: Picture) -> None:
    deadline = NOW + timedelta(minutes=5, hours=1)
    assert wait(picture, deadline - timedelta(seconds=2)) in (Again(2.0), Again(1.0))
    assert wait(picture, deadline) == GivenUp()
    # One that was never presigned here, and was taken in from the object store, counts from its row.
    assert wait(replace(picture, expires_at=None), NOW + timedelta(hours=1)) == GivenUp()


def test_only_what_was_said_can_be_contradicted() -> None:
    assert disagreement(PICTURE, SOUND) is None
    assert disagreement(replace(PICTURE, size_bytes=100, sha256="ab" * 32), SOUND) is None
    for claim, code in (({"size_bytes": 99}, "size_mismatch"), ({"sha256": "cd" * 32}, "checksum_mismatch")):
        found = disagreement(replace(PICTURE, **claim), SOUND)
        assert found is not None
        assert found.code == code


def test_an_announced_picture_is_shown_as_awaited() -> None:
    assert (PICTURE.shown_state, ANNOUNCED.shown_state) == ("presigned", "awaited")
    assert replace(ANNOUNCED, state="stored").shown_state == "stored"
