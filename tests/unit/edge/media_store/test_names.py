from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from farmiq.contracts.media import PresignRequest
from farmiq.edge.media_store.names import name_of, names_for
from farmiq.timeseries.stream import Origin

HERE = Origin("demo", "farm-1", "barn-1", "scale-1")
ASKED = PresignRequest(
    tenant_id="demo",
    farm_id="farm-1",
    barn_id="barn-1",
    device_id="scale-1",
    captured_at=datetime(2026, 5, 4, 10, 5, tzinfo=UTC),
    content_type="image/jpeg",
    content_length=1000,
    sha256="ab" * 32,
    session_id=UUID(int=7),
)


def test_a_picture_that_is_sent_again_has_its_name_again_and_it_is_a_uuid_of_version_7() -> None:
    name = name_of(HERE, ASKED)
    assert name == name_of(HERE, replace(ASKED, trace_id="another", sha256="AB" * 32))
    assert (name.version, name.variant) == (7, UUID(int=0x8 << 60).variant)
    assert datetime.fromtimestamp((name.int >> 80) / 1000, UTC) == ASKED.captured_at


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": "cd" * 32},
        {"content_length": 1001},
        {"session_id": UUID(int=8)},
        {"session_id": None},
        {"captured_at": datetime(2026, 5, 4, 10, 6, tzinfo=UTC)},
    ],
)
def test_another_picture_has_another_name(changes: dict[str, Any]) -> None:
    assert name_of(HERE, replace(ASKED, **changes)) != name_of(HERE, ASKED)


def test_another_devices_picture_has_another_name() -> None:
    assert name_of(Origin("demo", "farm-1", "barn-1", "scale-2"), ASKED) != name_of(HERE, ASKED)


def test_the_last_name_is_always_new() -> None:
    assert len(list(names_for(HERE, replace(ASKED, sha256=None)))) == 1
    first, last = names_for(HERE, ASKED)
    assert (first, last) != tuple(names_for(HERE, ASKED))
    assert first == next(names_for(HERE, ASKED))
