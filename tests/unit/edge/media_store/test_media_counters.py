from datetime import UTC, datetime
from uuid import UUID

from prometheus_client import CollectorRegistry

from farmiq.edge.media_store.counters import Counters
from farmiq.edge.media_store.handlers import Settled
from farmiq.edge.media_store.picture import Picture

NOW = datetime(2026, 11, 16, tzinfo=UTC)
SAID_LITTLE = Picture(
    media_id=UUID(int=1), tenant_id="demo", farm_id="f", barn_id="b", device_id="d", station_id=None, session_id=None,
    bucket="media", object_key="k", mime_type="image/jpeg", size_bytes=None, sha256=None, captured_at=NOW,
    created_at=NOW, state="presigned", expires_at=NOW, announced_at=NOW, next_check_at=None, checks=0, stored_at=None,
    refused_at=None, refused_reason=None, refused_detail=None, object_removed_at=None, width_px=None, height_px=None,
    trace_id=None,
)  # fmt: skip


def test_bytes_are_those_that_were_found_whatever_the_device_had_said() -> None:
    registry = CollectorRegistry()
    counters = Counters(registry)
    counters.settled(SAID_LITTLE, Settled("stored", is_ours=True, size_bytes=1000))
    counters.settled(SAID_LITTLE, Settled("stored", is_ours=True, size_bytes=234))
    counters.settled(SAID_LITTLE, Settled("missing", is_ours=True))
    assert registry.get_sample_value("farmiq_media_stored_bytes_total") == 1234
    assert registry.get_sample_value("farmiq_media_stored_total") == 2
