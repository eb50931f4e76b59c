import pytest

from farmiq.console.overview.runway import LONGEST_SECONDS, edge_bytes_per_second, edge_runway_seconds
from farmiq.sizing import Farm, edge_bytes
from farmiq.sizing.farm import DAY_SECONDS, Kept


def test_the_disk_lasts_for_its_room_at_the_rate_at_which_it_fills() -> None:
    per_second = edge_bytes_per_second(100.0, 10.0, 5000.0)
    asked = {"samples_per_second": 100.0, "messages_per_second": 10.0, "picture_bytes_per_second": 5000.0}
    assert edge_runway_seconds(10**9, **asked) == pytest.approx(10**9 / per_second)
    assert edge_runway_seconds(0, **asked) == 0


def test_what_is_not_known_is_no_runway() -> None:
    assert edge_runway_seconds(None, samples_per_second=1, messages_per_second=1, picture_bytes_per_second=None) is None
    assert edge_runway_seconds(1, samples_per_second=None, messages_per_second=1, picture_bytes_per_second=None) is None
    quiet = edge_runway_seconds(1, samples_per_second=0.0, messages_per_second=0.1, picture_bytes_per_second=None)
    assert quiet == LONGEST_SECONDS


def test_it_is_what_farmiq_size_says_for_the_same_farm() -> None:
    """Nothing is kept but what the cloud does not have: the same bytes as in the sizing of a farm, besides its fixed part."""
    kept = Kept(raw_days=0, aggregate_days=0, outbox_days=0, picture_days=0, dedupe_days=1)
    farm = Farm(nodes=10, channels=10, interval_seconds=1.0, outage_seconds=DAY_SECONDS, kept=kept)
    sized = edge_bytes(farm)
    # Whole months of samples go at once: the sizing counts one more, which an outage does not add.
    raw = sized.raw / 32
    assert edge_bytes_per_second(100.0, 10.0, 0.0) * DAY_SECONDS == pytest.approx(raw + sized.outbox + sized.dedupe)
