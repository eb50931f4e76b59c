from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.contracts.ids import DEVICE_ID_PATTERN, ID_PATTERN
from farmiq.contracts.media import EXTENSION_OF, object_key
from farmiq.edge.media_store.orphans import picture_behind
from farmiq.kit.ids import new_id
from farmiq.kit.s3 import StoredObject
from farmiq.timeseries.stream import Origin

ids = st.from_regex(ID_PATTERN)
MODIFIED_AT = datetime(2026, 5, 4, 10, tzinfo=UTC)
GOOD = "tenants/t/farms/f/barns/b/devices/d/images/2026/05/04/01a1e452-60df-76f5-8fcd-cd926fd82e8a.jpg"


@given(
    ids,
    ids,
    ids,
    st.from_regex(DEVICE_ID_PATTERN),
    st.sampled_from(sorted(EXTENSION_OF)),
    st.datetimes(timezones=st.just(UTC)),
)
def test_every_key_of_ours_names_its_picture(
    tenant: str, farm: str, barn: str, device: str, mime: str, captured_at: datetime
) -> None:
    media_id = new_id()
    key = object_key(
        tenant_id=tenant,
        farm_id=farm,
        barn_id=barn,
        device_id=device,
        media_id=media_id,
        captured_at=captured_at,
        extension=EXTENSION_OF[mime],  # type: ignore[index]  # one of its own keys
    )
    found = picture_behind(StoredObject(key, 1, MODIFIED_AT), "pictures", "trace")
    assert found is not None
    assert (found.origin, found.media_id, found.mime_type) == (Origin(tenant, farm, barn, device), media_id, mime)
    assert found.captured_at.date() == captured_at.date()


@pytest.mark.parametrize(
    "key",
    [
        "tenants/notes.txt",
        GOOD.replace("tenants/t", "tenants/.."),
        GOOD.replace("farms/f", "farms/a b"),
        GOOD.replace("devices/d", "devices/status"),
        GOOD.replace("2026/05/04", "2026/13/40"),
        GOOD.replace(".jpg", ".gif"),
        GOOD.replace("01a1e452", "01A1E452"),
        GOOD.replace("01a1e452-60df", "01a1e45260d-f"),
        GOOD + "/x",
        "/" + GOOD,
        GOOD.replace("/", "//", 1),
        GOOD + "\n",
    ],
)
def test_what_is_no_key_of_ours_is_nobodys_picture(key: str) -> None:
    assert picture_behind(StoredObject(key, 1, MODIFIED_AT), "pictures", "trace") is None


def test_an_object_of_the_same_day_was_taken_when_it_came() -> None:
    same = picture_behind(StoredObject(GOOD, 1, MODIFIED_AT), "pictures", "trace")
    later = picture_behind(StoredObject(GOOD, 1, datetime(2026, 5, 9, tzinfo=UTC)), "pictures", "trace")
    assert same is not None
    assert later is not None
    assert (same.captured_at, later.captured_at) == (MODIFIED_AT, datetime(2026, 5, 4, tzinfo=UTC))
