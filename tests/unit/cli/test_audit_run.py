"""What is said of one device that was asked for."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from farmiq.audit.balance import Reading, balance
from farmiq.audit.streams import BusRoom
from farmiq.audit.weighings import WeighingReading, balance_weighings
from farmiq.cli.audit_run import notes_of_one
from farmiq.cli.errors import BadUsage
from farmiq.kit.day_digests import DayDigest

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOTHING = balance(Reading(asked_at=AT, since=AT, until=AT, tenants=[]))


def test_a_device_that_is_silent_for_longer_or_has_not_measured_yet_is_known() -> None:
    known = replace(NOTHING, quiet=["node-1"])
    assert notes_of_one(known, "node-1", "2h") == ["The edge knows node-1, and nothing was measured by it since 2h."]
    assert notes_of_one(known, "node-1", None) == ["The edge knows node-1, and nothing was measured by it yet."]


def test_a_device_that_nobody_knows_is_refused_and_so_is_another_edges() -> None:
    with pytest.raises(BadUsage, match="no tier has ever heard"):
        notes_of_one(NOTHING, "node-1", None)
    with pytest.raises(BadUsage, match="this edge has no record"):
        notes_of_one(replace(NOTHING, elsewhere=["node-1"]), "node-1", None)


def test_pictures_that_were_not_looked_for_are_told() -> None:
    days = [DayDigest("station-1", AT, "stored", 2, "1")]
    weighing = balance_weighings(WeighingReading(tenant_id="demo", edge_picture_days=days), BusRoom(0))
    (note,) = notes_of_one(replace(NOTHING, weighings=[weighing]), "station-1", None)
    assert "object stores" in note
